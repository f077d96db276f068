"""Key text that an evaluator found elsewhere: two forms, refused where documents don't fit."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from refusal import refuses

from tokenmart import cli
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.problem.importers import Destination, KeyIntervals
from warehouse.store.schema import DOCUMENTS, KEY_INTERVALS

PROBLEM = """\
name: tiny
title: t
models: [{full_id: org/a, family: f, source: {kind: hub}}]
probes: [{kind: full}]
documents: {kind: json, path: docs.json}
"""
TEXTS = (
    "The bridge of Aville costs 40 marks. " * 8,
    "Nobody else asked for the other bridge. " * 8,
)
EVALUATOR = "Qwen/Qwen2-72B-Instruct"


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture(autouse=True)
def problem(workspace: Workspace) -> None:
    (workspace.problems / "tiny.yml").write_text(PROBLEM)
    rows = [
        {"doc_id": number, "name": f"d{number}", "sha256": sha256(text), "text": text,
         "characters": len(text), "bytes": len(text)}
        for number, text in enumerate(TEXTS)
    ]  # fmt: skip
    path = workspace.store / "documents" / "problem=tiny" / "documents.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, DOCUMENTS), path)


def run(*files: Path, more: tuple[str, ...] = ()) -> tuple[int, str]:
    command = ["data", "import", "--problem", "tiny", "--model", EVALUATOR]
    result = CliRunner().invoke(
        cli, [*command, "--format", "key-intervals", *more, *map(str, files)]
    )
    return result.exit_code, result.output


def refused(workspace: Workspace, file: Path) -> tuple[str, str]:
    """Code and place of the error of an import."""
    with pytest.raises(TokenmartError) as caught:
        KeyIntervals().import_files([file], Destination(workspace, "tiny", "evaluator"))
    return caught.value.code, caught.value.where


def stored(workspace: Workspace) -> list[tuple[int, int, int]]:
    path = workspace.store / "key_intervals" / "problem=tiny" / "evaluator=Qwen--Qwen2-72B-Instruct"
    table = pq.read_table(path / "intervals.parquet", partitioning=None)
    assert table.schema.equals(KEY_INTERVALS)
    return [tuple(row.values()) for row in table.to_pylist()]


def table(folder: Path, *rows: str) -> Path:
    path = folder / "key.csv"
    path.write_text("\n".join(["document_sha256,char_start,char_end", *rows]))
    return path


@pytest.mark.parametrize("evaluator", ["a b=c/d", "..", "org/a/b", "a\n", "é", "x" * 201])
def test_an_evaluator_has_an_id_as_published(evaluator, workspace, tmp_path):
    """Its folder is a partition: another `=` or a space, and no table of it could be read."""
    file = table(tmp_path, f"{sha256(TEXTS[1])},7,11")
    command = ["data", "import", "--problem", "tiny", "--format", "key-intervals"]
    with refuses("model-id", "--model"):
        cli.main([*command, "--model", evaluator, str(file)], standalone_mode=False)
    assert not (workspace.store / "key_intervals").exists()


def test_a_table_is_stored_once(workspace, tmp_path):
    first, second = f"{sha256(TEXTS[0])},4,10", f"{sha256(TEXTS[1])},7,11"
    status, output = run(table(tmp_path, second, first, first, f"{sha256(TEXTS[0])},0,3"))
    assert status == 0, output
    assert "3 items of 2 tasks: d1 (1), d0 (2); next: tokenmart dbt run\n" in output
    assert stored(workspace) == [(0, 0, 3), (0, 4, 10), (1, 7, 11)]
    file = table(tmp_path, first, second)
    status, output = run(file)
    assert status == 1 and "other rows of Qwen--Qwen2-72B-Instruct are stored" in output
    assert run(file, more=("--force",))[0] == 0
    assert stored(workspace) == [(0, 4, 10), (1, 7, 11)]


@pytest.mark.parametrize(
    ("row", "code", "place"),
    [
        (f"{sha256(TEXTS[0])},290,300", "wrong-interval", ": row 1"),
        (f"{sha256(TEXTS[0])},5,5", "wrong-interval", ": row 1"),
        ("ff,0,3", "wrong-interval", ": row 1"),
        (f"{sha256(TEXTS[0])},5,", "missing", ": row 1: char_end"),
        ("", "no-rows", ""),
    ],
)
def test_refusals(workspace, tmp_path, row, code, place):
    file = table(tmp_path, row)
    assert refused(workspace, file) == (code, f"{file}{place}")
    assert not (workspace.store / "key_intervals").exists()


def test_documents_come_first(workspace, tmp_path):
    path = workspace.store / "documents" / "problem=tiny" / "documents.parquet"
    path.unlink()
    file = table(tmp_path, f"{sha256(TEXTS[0])},0,3")
    assert refused(workspace, file) == ("no-documents", str(path))


def test_documents_of_one_text_have_the_same_intervals(workspace, tmp_path):
    path = workspace.store / "documents" / "problem=tiny" / "documents.parquet"
    rows = pq.read_table(path, partitioning=None).to_pylist()
    rows.append({**rows[0], "doc_id": 2, "name": "again"})
    pq.write_table(pa.Table.from_pylist(rows, DOCUMENTS), path)
    assert run(table(tmp_path, f"{sha256(TEXTS[0])},4,10"))[0] == 0
    assert stored(workspace) == [(0, 4, 10), (2, 4, 10)]
