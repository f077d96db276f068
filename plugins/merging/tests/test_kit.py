"""The 2024 kit's CSV as tasks, and submission.csv: against the harness, and what is refused."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from dbt_harness import PROJECT
from merge_samples import local, write_problem
from tiny_models import make_checkpoint

from plugins.merging.kit.kit_files import (
    check_submission,
    read_kit,
    write_kit_tasks,
    write_submission,
)
from tokenmart import cli
from warehouse.errors import TokenmartError

ROWS = [
    ("a", "Question: What is the sky?\nAnswer:", "multiple_choice", "['blue', \"it's red\"]", "0"),
    ("b", "Say a word, please:", "generation", "", "word"),
    ("c", "Question: Two and two?\nAnswer:", "multiple_choice", "['four', 'five', 'six']", "2"),
    ("d", "Say another word:", "generation", "", "other"),
]
HEADER = ("id", "input", "eval_type", "answer_choices", "target")


def kit(path: Path, rows: list[tuple[str, ...]] = ROWS, columns: int = 5) -> Path:
    text = io.StringIO()
    csv.writer(text).writerows([HEADER[:columns], *(row[:columns] for row in rows)])
    path.write_text(text.getvalue())
    return path


def invoke(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


def test_rows_become_two_tasks(tmp_path: Path) -> None:
    pytest.importorskip("lm_eval")
    from plugins.benchmarks.harness.tasks import load_tasks

    names = write_kit_tasks(kit(tmp_path / "Cosmos-QA.csv"), tmp_path / "tasks", 8)
    assert list(names.values()) == ["cosmos_qa_choice", "cosmos_qa_text"]
    choice, text = load_tasks(list(names.values()), [tmp_path / "tasks"])
    asked = [request.arguments for request in choice.units[0].requests]
    assert asked[:2] == [(ROWS[0][1], " blue"), (ROWS[0][1], " it's red")]
    assert [r.instance.doc["gold"] for r in choice.units[0].requests] == [0, 0, 2, 2, 2]
    prompt, settings = text.units[0].requests[0].arguments
    assert prompt == ROWS[1][1] and settings["max_gen_toks"] == 8


@pytest.mark.slow
@pytest.mark.parametrize("columns", [4, 5])
def test_predictions_are_those_of_the_harness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """With and without targets; the second command asks nothing again."""
    pytest.importorskip("mergekit")
    lm_eval = pytest.importorskip("lm_eval")
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    monkeypatch.setenv("TOKENMART_HOME", str(PROJECT.parent))
    monkeypatch.setenv("TOKENMART_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("TOKENMART_DATABASE", str(tmp_path / "t.duckdb"))
    (tmp_path / "data").mkdir()
    make_checkpoint(tmp_path / "one")
    models = [{"model": "one", "parameters": {"weight": 1}}]
    recipe = {"merge_method": "linear", "dtype": "float32", "models": models}
    path = str(
        write_problem(
            tmp_path / "made.yml",
            experts=[{"name": "one", "source": local(tmp_path / "one")}],
            merges=[{"name": "alone", "recipe": recipe}],
            limits={"seconds": 500, "memory_gb": 100, "disk_gb": 10},
        )
    )
    file, out = kit(tmp_path / "test.csv", columns=columns), tmp_path / "submission.csv"
    words = ["merge", "submission", "--kit", str(file), "--problem", path, "--merge", "alone"]
    more = ["--device", "cpu", "--max-tokens", "4", "--out", str(out)]
    early = invoke(*words, *more)
    assert early.exit_code == 1 and "not merged yet" in early.stderr
    assert invoke("merge", "run", "--problem", path).exit_code == 0
    done = invoke(*words, *more)
    assert done.exit_code == 0, done.output + repr(done.exception)
    first = out.read_bytes()
    assert invoke(*words, *more).exit_code == 0 and out.read_bytes() == first
    assert first.splitlines()[0] == b"id,prediction,dummy_field"
    ours = {row["id"]: row["prediction"] for row in csv.DictReader(io.StringIO(first.decode()))}
    assert list(ours) == ["a", "b", "c", "d"]

    names = write_kit_tasks(kit(tmp_path / "all.csv"), tmp_path / "tasks", 4)
    found: Any = lm_eval.simple_evaluate(
        HFLM(pretrained=str(tmp_path / "one"), device="cpu", dtype="float32"),
        tasks=list(names.values()),
        task_manager=TaskManager(include_path=str(tmp_path / "tasks"), include_defaults=False),
        bootstrap_iters=0,
    )
    for sample in found["samples"]["all_choice"]:
        nats = [float(pair[0]) for pair in sample["filtered_resps"]]
        assert ours[sample["doc"]["id"]] == str(nats.index(max(nats)))
    for sample in found["samples"]["all_text"]:
        assert ours[sample["doc"]["id"]] == sample["resps"][0][0]
    checked = invoke("merge", "submission", "--kit", str(file), "--check", str(out))
    assert checked.exit_code == 0 and "4 predictions, valid for the kit" in checked.output


@pytest.mark.parametrize(
    ("place", "column", "value", "message"),
    [
        (0, 3, "blue, red", "row 1: answer_choices is 'blue, red', expected a list of texts"),
        (0, 3, "['blue']", "expected a list of at least two texts"),
        (0, 4, "2", "row 1: target is '2', expected the index of a choice, 0 to 1"),
        (1, 2, "essay", "row 2: eval_type is 'essay', expected multiple_choice or generation"),
        (1, 0, "a", "rows 1 and 2 both have the id a"),
        (1, 0, "", "row 2: id is '', expected an id"),
    ],
)
def test_wrong_rows_of_a_kit(
    tmp_path: Path, place: int, column: int, value: str, message: str
) -> None:
    rows = [list(row) for row in ROWS]
    rows[place][column] = value
    with pytest.raises(TokenmartError, match=message):
        read_kit(kit(tmp_path / "k.csv", [tuple(row) for row in rows]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,input\na,b\n", "columns 'eval_type', 'answer_choices' are missing, the file has id,"),
        ("id,input,eval_type\na,b,c\n", "column 'answer_choices' is missing, the file has id, in"),
        ("", "columns 'id', 'input', 'eval_type', 'answer_choices' are missing, the file has none"),
        (None, "no such file; correct the path"),
    ],
)
def test_wrong_files_of_a_kit(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "k.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(TokenmartError, match=message):
        read_kit(path)


def test_the_tutorial_s_kit_is_read(tmp_path: Path) -> None:
    page = (PROJECT.parent / "docs/tutorials/ranking_merged_models.md").read_text()
    (example,) = re.findall(r"```csv\n(id,input,.*?)```", page, re.DOTALL)
    path = tmp_path / "k.csv"
    path.write_text(example)
    choice, text = read_kit(path)
    assert choice.choices[int(choice.target or -1)] == "in the oven" and text.target == "Lima"


def test_wrong_submissions(tmp_path: Path) -> None:
    items = read_kit(kit(tmp_path / "k.csv"))
    out = tmp_path / "s.csv"
    right = {"a": "1", "b": "a word", "c": "0", "d": 'with "quotes",\nand lines'}
    assert write_submission(out, items, right) == []
    assert check_submission(out, items) == []
    assert "1 predictions are empty (first: id d)" in write_submission(
        out, items, right | {"d": " "}
    )[0]  # fmt: skip
    assert "1 predictions are words such as NA and None (first: id d)" in write_submission(
        out, items, right | {"d": "None"}
    )[0]  # fmt: skip
    with pytest.raises(TokenmartError, match="1 of 4 items have no prediction"):
        write_submission(out, items, {k: v for k, v in right.items() if k != "c"})
    for text, message in (
        ("id,prediction\na,1\n", "column 'dummy_field' is missing"),
        ("id,prediction,dummy_field\na,1,0\n", "3 ids are missing: b, c, d"),
        ("id,prediction,dummy_field\na,1,0\nb,x,0\nc,0,0\nd,x,0\ne,x,0\n", "1 ids are not in"),
        ("id,prediction,dummy_field\na,2,0\nb,x,0\nc,0,0\nd,x,0\n", "prediction is '2', expected"),
        ("id,prediction,dummy_field\na,1,0\nb,x,0\nc,0,0\nd,x,1\n", "dummy_field is '1'"),
        ("id,prediction,dummy_field\na,1,0\na,1,0\n", "rows 1 and 2 both have the id a"),
    ):
        out.write_text(text)
        with pytest.raises(TokenmartError, match=message):
            check_submission(out, items)
