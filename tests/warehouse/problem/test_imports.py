"""Imported tables, items of a target and key text: what is stored, and each wrong row by name."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from refusal import refuses

from tokenmart import cli
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.problem import importers
from warehouse.problem.importers import Destination, importer
from warehouse.sources.documents import Document, documents_table
from warehouse.store.parquet_files import write_table
from warehouse.store.schema import DOWNSTREAM, KEY_INTERVALS

PROBLEM = """\
name: tiny
title: t
models:
  - {full_id: org/a, family: f, source: {kind: hub}}
  - {full_id: org/b, family: f, source: {kind: hub}}
probes: [{kind: full}]
documents: {kind: json, path: docs.json}
target: {kind: imported}
"""
ROWS = [
    {"task": "qa", "item": 0, "score": 0.5, "cluster": 3, "context_tokens": 4096},
    {"task": "qa", "item": 1, "score": 1.0, "cluster": None, "context_tokens": None},
    {"task": "sum", "item": 0, "score": 0.25, "cluster": 3, "context_tokens": 8192},
]
CSV = "task,item,score,cluster,context_tokens\nqa,0,0.5,3,4096\nqa,1,1,,\nsum,0,0.25,3,8192\n"


@pytest.fixture(autouse=True)
def problem(workspace: Workspace) -> None:
    (workspace.problems / "tiny.yml").write_text(PROBLEM)


def run(*arguments: str | Path, model: str = "org/a", format: str = "items") -> tuple[int, str]:
    command = ["data", "import", "--problem", "tiny", "--model", model, "--format", format]
    result = CliRunner().invoke(cli, [*command, *map(str, arguments)])
    return result.exit_code, result.output


def refused(workspace: Workspace, *files: Path, format: str = "items") -> tuple[str, str]:
    """Code and place of the error of an import."""
    with pytest.raises(TokenmartError) as caught:
        importer(format).import_files(files, Destination(workspace, "tiny", "org--a"))
    assert "\n" not in caught.value.message
    return caught.value.code, caught.value.where


def stored(workspace: Workspace, model_id: str = "org--a") -> Path:
    return (
        workspace.store / "downstream" / "problem=tiny" / f"model_id={model_id}" / "items.parquet"
    )


def written(folder: Path, suffix: str) -> Path:
    path = folder / f"scores{suffix}"
    if suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    elif suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    else:
        path.write_text(json.dumps(ROWS) if suffix == ".json" else CSV)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".json", ".jsonl", ".parquet"])
def test_every_format_gives_the_same_scores(workspace, tmp_path, suffix):
    folder = tmp_path / "score=9"  # no column of the file
    folder.mkdir()
    code, output = run(written(folder, suffix))
    said = "org/a: 3 items of 2 tasks: qa (2), sum (1); next: tokenmart dbt run\n"
    assert (code, output) == (0, said)
    table = pq.read_table(stored(workspace), partitioning=None)
    assert table.schema.equals(DOWNSTREAM)
    assert table.select(["task", "item", "score", "cluster", "context_tokens"]).to_pylist() == [
        ROWS[0],
        {**ROWS[1], "cluster": 4},
        ROWS[2],
    ], "an item without a cluster is one of its own"


def test_the_largest_cluster_leaves_numbers_for_the_others():
    items = [
        importers.ItemScore(task="qa", item=n, score=1.0, cluster=cluster)
        for n, cluster in enumerate([2**31 - 1, None, 0, None])
    ]
    assert importers._table(items)["cluster"].to_pylist() == [2**31 - 1, 1, 0, 2]


def test_several_files_are_one_models_tasks(workspace, tmp_path):
    (tmp_path / "qa.csv").write_text("task,item,score\nqa,0,1\nqa,1,0\n")
    (tmp_path / "[sum]*.csv").write_text("task,item,score\nsum,0,1\n")
    assert run(tmp_path / "qa.csv", tmp_path / "[sum]*.csv")[0] == 0
    table = pq.read_table(stored(workspace), partitioning=None)
    assert table["task"].to_pylist() == ["qa", "qa", "sum"]
    assert table["cluster"].to_pylist() == [0, 1, 2]
    assert table["context_tokens"].null_count == 3
    fetch = ["data", "fetch", "--problem", "tiny", "--only", "target"]
    assert "1 of 2 models" in CliRunner().invoke(cli, fetch).output


WRONG = [
    ("qa,1,1,,", "qa,1,nan,,", "finite-number", ": row 2: score"),
    ("qa,1,1,,", "qa,1.5,1,,", "int-parsing", ": row 2: item"),
    ("qa,1,1,,", "qa,0,1,,", "item-twice", ": row 2"),
    ("qa,0,0.5,3,4096\nqa,1,1,,\nsum,0,0.25,3,8192\n", "", "no-rows", ""),
    ("cluster", "clusters", "extra-forbidden", ": row 1: clusters"),
]


@pytest.mark.parametrize(("old", "new", "code", "place"), WRONG)
def test_a_wrong_row_stops_everything(workspace, tmp_path, old, new, code, place):
    path = tmp_path / "scores.csv"
    assert old in CSV
    path.write_text(CSV.replace(old, new, 1))
    assert refused(workspace, path) == (code, f"{path}{place}")
    assert not stored(workspace).exists()


def test_truth_values_are_scores(workspace, tmp_path):
    """As Python, pandas and JSON write them."""
    (tmp_path / "a.csv").write_text("task,item,score\nqa,0,True\nqa,1,false\n")
    (tmp_path / "b.jsonl").write_text('{"task": "qb", "item": 0, "score": true}\n')
    assert run(tmp_path / "a.csv", tmp_path / "b.jsonl")[0] == 0
    table = pq.read_table(stored(workspace), partitioning=None)
    assert table["score"].to_pylist() == [1.0, 0.0, 1.0]


def test_other_scores_are_replaced_only_by_force(workspace, tmp_path):
    path = written(tmp_path, ".csv")
    assert run(path)[0] == 0
    at_first = stored(workspace).stat().st_mtime_ns
    assert run(path)[0] == 0
    assert stored(workspace).stat().st_mtime_ns == at_first, "the same file changes nothing"
    path.write_text("task,item,score\nqa,0,0.75\n")
    assert refused(workspace, path) == ("stored-already", str(stored(workspace)))
    assert run(path, "--force")[0] == 0
    table = pq.read_table(stored(workspace), partitioning=None)
    assert table["score"].to_pylist() == [0.75]


def test_measured_scores_are_not_overwritten(workspace, tmp_path):
    stored(workspace).parent.mkdir(parents=True)
    pq.write_table(DOWNSTREAM.empty_table(), stored(workspace))
    assert refused(workspace, written(tmp_path, ".csv"))[0] == "stored-already"


@pytest.mark.parametrize("target", ["", "target: {kind: file, path: t.json}\n"])
def test_the_problem_must_want_imported_scores(workspace, tmp_path, target):
    text = PROBLEM.replace("target: {kind: imported}\n", target)
    (workspace.problems / "tiny.yml").write_text(text)
    code, output = run(written(tmp_path, ".csv"))
    assert code == 1 and "`target: {kind: imported}`" in output
    assert not stored(workspace).exists()


def test_unknown_names_list_what_there_is(workspace, tmp_path):
    path = written(tmp_path, ".csv")
    with pytest.raises(TokenmartError) as caught:
        importer("itens")
    assert (caught.value.code, caught.value.where) == ("unknown-format", "itens")
    assert "items" in caught.value.message
    assert "org/a, org/b" in run(path, model="org/c")[1]


def test_files_of_one_name_are_two(workspace, tmp_path):
    paths = []
    for task in ("one", "two"):
        path = tmp_path / task / "items.csv"
        path.parent.mkdir()
        path.write_text(f"task,item,score\n{task},0,1\n")
        paths.append(path)
    bring = partial(importer("items").import_files, to=Destination(workspace, "p", "a"))
    assert bring(paths) == bring(paths) == {"one": 1, "two": 1}
    paths[0].write_text("task,item,score\none,0,0\n")
    with refuses("stored-already"):
        bring(paths)


# Key text that an evaluator found elsewhere

TEXTS = (
    "The bridge of Aville costs 40 marks. " * 8,
    "Nobody else asked for the other bridge. " * 8,
)
SHA256 = [hashlib.sha256(text.encode()).hexdigest() for text in TEXTS]
KEY_TEXT = {"model": "Qwen/Qwen2-72B-Instruct", "format": "key-intervals"}


def write_documents(workspace: Workspace, *texts: str) -> Path:
    path = workspace.store / "documents" / "problem=tiny" / "documents.parquet"
    write_table(path, documents_table([Document(f"d{n}", text) for n, text in enumerate(texts)]))
    return path


def intervals(workspace: Workspace) -> list[tuple[int, int, int]]:
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
    write_documents(workspace, *TEXTS)
    file = table(tmp_path, f"{SHA256[1]},7,11")
    command = ["data", "import", "--problem", "tiny", "--format", "key-intervals"]
    with refuses("model-id", "--model"):
        cli.main([*command, "--model", evaluator, str(file)], standalone_mode=False)
    assert not (workspace.store / "key_intervals").exists()


def test_key_text_is_stored_once(workspace, tmp_path):
    write_documents(workspace, *TEXTS)
    first, second = f"{SHA256[0]},4,10", f"{SHA256[1]},7,11"
    status, output = run(table(tmp_path, second, first, first, f"{SHA256[0]},0,3"), **KEY_TEXT)
    assert status == 0, output
    assert "3 items of 2 tasks: d1 (1), d0 (2); next: tokenmart dbt run\n" in output
    assert intervals(workspace) == [(0, 0, 3), (0, 4, 10), (1, 7, 11)]
    file = table(tmp_path, first, second)
    status, output = run(file, **KEY_TEXT)
    assert status == 1 and "other rows of Qwen--Qwen2-72B-Instruct are stored" in output
    assert run(file, "--force", **KEY_TEXT)[0] == 0
    assert intervals(workspace) == [(0, 4, 10), (1, 7, 11)]


@pytest.mark.parametrize(
    ("row", "code", "place"),
    [
        (f"{SHA256[0]},290,300", "wrong-interval", ": row 1"),
        (f"{SHA256[0]},5,5", "wrong-interval", ": row 1"),
        ("ff,0,3", "wrong-interval", ": row 1"),
        (f"{SHA256[0]},5,", "missing", ": row 1: char_end"),
        ("", "no-rows", ""),
    ],
)
def test_key_text_that_is_not_in_the_documents(workspace, tmp_path, row, code, place):
    write_documents(workspace, *TEXTS)
    file = table(tmp_path, row)
    assert refused(workspace, file, format="key-intervals") == (code, f"{file}{place}")
    assert not (workspace.store / "key_intervals").exists()


def test_documents_come_first(workspace, tmp_path):
    path = write_documents(workspace, *TEXTS)
    path.unlink()
    file = table(tmp_path, f"{SHA256[0]},0,3")
    assert refused(workspace, file, format="key-intervals") == ("no-documents", str(path))


def test_documents_of_one_text_have_the_same_intervals(workspace, tmp_path):
    write_documents(workspace, *TEXTS, TEXTS[0])
    assert run(table(tmp_path, f"{SHA256[0]},4,10"), **KEY_TEXT)[0] == 0
    assert intervals(workspace) == [(0, 4, 10), (2, 4, 10)]
