"""Key text that an evaluator found elsewhere: two forms, refused where documents don't fit."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from tokenmart import cli
from warehouse.errors import TokenmartError
from warehouse.importers.importer import Destination
from warehouse.importers.key_intervals import KeyIntervals
from warehouse.paths import Workspace
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


@pytest.mark.parametrize("evaluator", ["a b=c/d", "..", "org/a/b", "a\n", "é", "x" * 201])
def test_an_evaluator_has_an_id_as_published(
    evaluator: str, workspace: Workspace, tmp_path: Path
) -> None:
    """Its folder is a partition: another `=` or a space, and no table of it could be read."""
    file = tmp_path / "slice_0.txt"
    file.write_text(words(0))
    command = ["data", "import", "--problem", "tiny", "--format", "key-intervals"]
    with pytest.raises(TokenmartError) as caught:
        cli.main([*command, "--model", evaluator, str(file)], standalone_mode=False)
    assert (caught.value.code, caught.value.where) == ("model-id", "--model")
    assert not (workspace.store / "key_intervals").exists()


def test_files_without_an_interval_are_refused(workspace: Workspace, tmp_path: Path) -> None:
    table, part = tmp_path / "none.csv", tmp_path / "slice_0.txt"
    table.write_text("document_sha256,char_start,char_end\n")
    part.write_text("")
    assert refused(workspace, table) == ("no-rows", str(table))
    assert refused(workspace, part) == ("no-rows", str(part))


def words(number: int, every: int = 2) -> str:
    """The words of a document as one of LongPPL's files lists them."""
    text, at, found = TEXTS[number], 0, []
    for place, word in enumerate(text.split()):
        at = text.index(word, at)
        if place % every == 0:
            found.append(f"[{at}, {at + len(word)}]")
        at += len(word)
    return ";".join(found)


def test_both_forms(workspace: Workspace, tmp_path: Path) -> None:
    first, second = tmp_path / "slice_0.txt", tmp_path / "slice_1.txt"
    first.write_text("[0, 3];[4, 10]")
    second.write_text("[7, 11]")
    status, output = run(first, second)
    assert status == 0, output
    assert "3 items of 2 tasks: d0 (2), d1 (1); next: tokenmart dbt run\n" in output
    assert stored(workspace) == [(0, 0, 3), (0, 4, 10), (1, 7, 11)]
    table = tmp_path / "mine.csv"
    lines = [f"{sha256(TEXTS[1])},7,11", f"{sha256(TEXTS[0])},4,10", f"{sha256(TEXTS[0])},4,10"]
    table.write_text("\n".join(["document_sha256,char_start,char_end", *lines]))
    status, output = run(table)
    assert status == 1 and "other intervals of Qwen--Qwen2-72B-Instruct are stored" in output
    assert run(table, more=("--force",))[0] == 0
    assert stored(workspace) == [(0, 4, 10), (1, 7, 11)]


@pytest.mark.parametrize(
    ("name", "content", "code", "place"),
    [
        ("slice_2.txt", "[0, 3]", "wrong-interval", ""),
        ("slice_0.txt", "[0, 3];[4 10]", "wrong-interval", ": interval 2"),
        ("slice_0.txt", "[0, 3];[290, 300]", "wrong-interval", ": interval 2"),
        ("slice_0.txt", "[5, 5]", "wrong-interval", ": interval 1"),
        ("k.csv", "document_sha256,char_start,char_end\nff,0,3", "wrong-interval", ": row 1"),
        ("k.csv", "document_sha256,char_start\nff,0", "missing", ": row 1: char_end"),
    ],
)
def test_refusals(
    workspace: Workspace, tmp_path: Path, name: str, content: str, code: str, place: str
) -> None:
    (tmp_path / name).write_text(content)
    assert refused(workspace, tmp_path / name) == (code, f"{tmp_path / name}{place}")
    assert not (workspace.store / "key_intervals").exists()


def test_intervals_of_another_text_are_refused_by_their_edges(
    workspace: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "slice_0.txt").write_text(words(0))
    assert run(tmp_path / "slice_0.txt")[0] == 0
    path = tmp_path / "slice_1.txt"
    path.write_text(words(0))
    assert refused(workspace, path) == ("wrong-interval", str(path))


def test_documents_come_first(workspace: Workspace, tmp_path: Path) -> None:
    path = workspace.store / "documents" / "problem=tiny" / "documents.parquet"
    path.unlink()
    (tmp_path / "slice_0.txt").write_text("[0, 3]")
    assert refused(workspace, tmp_path / "slice_0.txt") == ("no-documents", str(path))


def test_documents_of_one_text_have_the_same_intervals(
    workspace: Workspace, tmp_path: Path
) -> None:
    path = workspace.store / "documents" / "problem=tiny" / "documents.parquet"
    rows = pq.read_table(path, partitioning=None).to_pylist()
    rows.append({**rows[0], "doc_id": 2, "name": "again"})
    pq.write_table(pa.Table.from_pylist(rows, DOCUMENTS), path)
    table = tmp_path / "keys.csv"
    table.write_text(f"document_sha256,char_start,char_end\n{sha256(TEXTS[0])},4,10\n")
    assert run(table)[0] == 0
    assert stored(workspace) == [(0, 4, 10), (2, 4, 10)]
