"""The 2024 kit's CSV as tasks: requests of the harness, and what is refused."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest
from dbt_harness import PROJECT

from plugins.merging.kit_files import write_kit_tasks
from warehouse.errors import TokenmartError

ROWS = [
    ("a", "Question: What is the sky?\nAnswer:", "multiple_choice", "['blue', \"it's red\"]", "0"),
    ("b", "Say a word, please:", "generation", "", "word"),
    ("c", "Question: Two and two?\nAnswer:", "multiple_choice", "['four', 'five', 'six']", "2"),
]
HEADER = ("id", "input", "eval_type", "answer_choices", "target")


def kit(path: Path, rows: list[tuple[str, ...]]) -> Path:
    text = io.StringIO()
    csv.writer(text).writerows([HEADER, *rows])
    path.write_text(text.getvalue())
    return path


def test_rows_become_two_tasks(tmp_path):
    pytest.importorskip("lm_eval")
    from plugins.benchmarks.harness.tasks import load_tasks

    names = write_kit_tasks(kit(tmp_path / "Cosmos-QA.csv", ROWS), tmp_path / "tasks")
    assert names == ["cosmos_qa_choice", "cosmos_qa_text"]
    choice, text = load_tasks(names, [tmp_path / "tasks"])
    asked = [request.arguments for request in choice.units[0].requests]
    assert asked[:2] == [(ROWS[0][1], " blue"), (ROWS[0][1], " it's red")]
    assert [r.instance.doc["gold"] for r in choice.units[0].requests] == [0, 0, 2, 2, 2]
    prompt, settings = text.units[0].requests[0].arguments
    assert prompt == ROWS[1][1] and settings["max_gen_toks"] == 64
    assert text.units[0].requests[0].instance.doc["answer"] == "word"


@pytest.mark.parametrize(
    ("row", "column", "value", "code"),
    [
        (0, 3, "blue, red", "value-error"),
        (0, 3, "['blue']", "value-error"),
        (0, 4, "2", "value-error"),
        (0, 4, "", "value-error"),
        (1, 2, "essay", "literal-error"),
        (1, 0, "", "missing"),
        (1, 0, "a", "repeated"),
        (1, 4, "", "missing"),
    ],
)
def test_wrong_rows_of_a_kit(tmp_path, row, column, value, code):
    rows = [list(each) for each in ROWS]
    rows[row][column] = value
    path = kit(tmp_path / "k.csv", [tuple(each) for each in rows])
    with pytest.raises(TokenmartError) as refused:
        write_kit_tasks(path, tmp_path / "tasks")
    assert refused.value.code == code
    assert refused.value.where.startswith(f"{path}: row {row + 1}")
    assert not (tmp_path / "tasks").exists()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("id,input\na,b\n", "missing"),
        ("", "unreadable-table"),
        ("id,input,eval_type,answer_choices\n", "no-rows"),
    ],
)
def test_wrong_files_of_a_kit(tmp_path, text, code):
    path = tmp_path / "k.csv"
    path.write_text(text)
    with pytest.raises(TokenmartError) as refused:
        write_kit_tasks(path, tmp_path / "tasks")
    assert refused.value.code == code and refused.value.where.startswith(str(path))


def test_the_tutorial_s_kit_is_read(tmp_path):
    page = (PROJECT.parent / "docs/tutorials/ranking_merged_models.md").read_text()
    (example,) = re.findall(r"```csv\n(id,input,.*?)```", page, re.DOTALL)
    (tmp_path / "k.csv").write_text(example)
    assert write_kit_tasks(tmp_path / "k.csv", tmp_path) == ["k_choice", "k_text"]
