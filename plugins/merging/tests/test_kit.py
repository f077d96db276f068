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
    words += ["--device", "cpu", "--max-tokens", "4", "--out", str(out)]
    assert invoke(*words).exit_code == 1 and not out.exists()  # not merged yet
    assert invoke("merge", "run", "--problem", path).exit_code == 0
    done = invoke(*words)
    assert done.exit_code == 0, done.output + repr(done.exception)
    first = out.read_bytes()
    assert invoke(*words).exit_code == 0 and out.read_bytes() == first
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
    assert invoke("merge", "submission", "--kit", str(file), "--check", str(out)).exit_code == 0


@pytest.mark.parametrize(
    ("row", "column", "value", "code"),
    [
        (0, 3, "blue, red", "value-error"),
        (0, 3, "['blue']", "value-error"),
        (0, 4, "2", "value-error"),
        (1, 2, "essay", "literal-error"),
        (1, 0, "a", "repeated-id"),
        (1, 0, "", "missing"),
    ],
)
def test_wrong_rows_of_a_kit(tmp_path: Path, row: int, column: int, value: str, code: str) -> None:
    rows = [list(each) for each in ROWS]
    rows[row][column] = value
    with pytest.raises(TokenmartError) as refused:
        read_kit(kit(tmp_path / "k.csv", [tuple(each) for each in rows]))
    assert refused.value.code == code
    assert refused.value.where.startswith(f"{tmp_path / 'k.csv'}: row {row + 1}")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("id,input\na,b\n", "missing"),
        ("id,input,eval_type\na,b,multiple_choice\n", "value-error"),
        ("", "unreadable-table"),
        ("id,input,eval_type,answer_choices\n", "no-rows"),
    ],
)
def test_wrong_files_of_a_kit(tmp_path: Path, text: str, code: str) -> None:
    path = tmp_path / "k.csv"
    path.write_text(text)
    with pytest.raises(TokenmartError) as refused:
        read_kit(path)
    assert refused.value.code == code and refused.value.where.startswith(str(path))


def test_the_tutorial_s_kit_is_read(tmp_path: Path) -> None:
    page = (PROJECT.parent / "docs/tutorials/ranking_merged_models.md").read_text()
    (example,) = re.findall(r"```csv\n(id,input,.*?)```", page, re.DOTALL)
    path = tmp_path / "k.csv"
    path.write_text(example)
    choice, text = read_kit(path)
    assert choice.choices[int(choice.target or -1)] == "in the oven" and text.target == "Lima"


RIGHT = {"a": "1", "b": "a word", "c": "0", "d": 'with "quotes",\nand lines'}


@pytest.mark.parametrize(("value", "notes"), [(RIGHT["d"], 0), (" ", 1), ("", 1), ("None", 1)])
def test_predictions_that_pandas_takes_for_missing_are_noted(
    tmp_path: Path, value: str, notes: int
) -> None:
    given = kit(tmp_path / "k.csv")
    found = write_submission(tmp_path / "s.csv", read_kit(given), RIGHT | {"d": value})
    assert len(found) == notes


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("id,prediction\na,1\n", "missing"),
        ("id,prediction,dummy_field\na,1,0\n", "missing-ids"),
        ("id,prediction,dummy_field\na,1,0\nb,x,0\nc,0,0\nd,x,0\ne,x,0\n", "unknown-ids"),
        ("id,prediction,dummy_field\na,2,0\nb,x,0\nc,0,0\nd,x,0\n", "wrong-index"),
        ("id,prediction,dummy_field\na,,0\nb,,0\nc,,0\nd,,0\n", "no-prediction"),
        ("id,prediction,dummy_field\na,1,0\nb,x,0\nc,0,0\nd,x,1\n", "literal-error"),
        ("id,prediction,dummy_field\na,1,0\na,1,0\n", "repeated-id"),
    ],
)
def test_wrong_submissions(tmp_path: Path, text: str, code: str) -> None:
    items = read_kit(kit(tmp_path / "k.csv"))
    out = tmp_path / "s.csv"
    out.write_text(text)
    with pytest.raises(TokenmartError) as refused:
        check_submission(out, items)
    assert refused.value.code == code and refused.value.where.startswith(str(out))
    with pytest.raises(TokenmartError) as lacking:
        write_submission(out, items, {"a": "1"})
    assert (lacking.value.code, lacking.value.where) == ("no-prediction", "b")
