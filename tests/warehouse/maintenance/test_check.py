"""`data check`, `--repair` and `gc` on files with real damage."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner, Result
from warehouse_samples import KEYS, make_rows, make_text, make_unit

from extract.work_claims import claim
from warehouse.maintenance.cli import data as commands
from warehouse.maintenance.garbage import find_garbage, remove_garbage
from warehouse.paths import Workspace
from warehouse.sources.documents import Document, documents_table
from warehouse.store import token_files as store
from warehouse.store.ledger import content_sha256, read_units
from warehouse.store.parquet_files import write_table
from warehouse.store.schema import MODELS
from warehouse.store.token_files import (
    LOCK_NAME,
    publication_lock,
    publish,
    published_path,
    set_aside,
    write_unit,
)

pytestmark = pytest.mark.hostile

ROWS = 400
SPANS = "0 <= char_start <= char_end <= characters of the document"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(commands, list(arguments))


@pytest.fixture
def stored(workspace: Workspace) -> Path:
    """A published file of four units, its documents, its model and its problem file."""
    for doc_id in range(4):
        rows = make_rows(doc_id, ROWS)
        write_unit(workspace, make_unit(doc_id, rows), rows)
    publish(workspace, *KEYS)
    texts = [Document(f"{doc_id}", make_text(doc_id)) for doc_id in range(4)]
    write_table(
        workspace.store / "documents" / f"problem={KEYS[0]}" / "documents.parquet",
        documents_table(texts),
    )
    model = dict.fromkeys(MODELS.names, "") | {"parameters": 1, "trained_context": 1}
    model |= {"prepends_bos": False, "vocabulary": 2**30}
    path = workspace.store / "models" / f"problem={KEYS[0]}" / f"model_id={KEYS[1]}"
    write_table(path / "model.parquet", pa.Table.from_pylist([model], MODELS))
    raw = {
        "name": KEYS[0],
        "title": "Sample",
        "documents": {"kind": "json", "path": "data/corpus.json"},
        "models": [
            {"full_id": "some/model", "family": "some", "source": {"kind": "local", "path": "x"}}
        ],
        "probes": [{"kind": "full"}],
        "target": {"kind": "file", "path": "results/target.json"},
    }
    (workspace.problems / f"{KEYS[0]}.yml").write_text(yaml.safe_dump(raw))
    return published_path(workspace, *KEYS)


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table], doc_id: int = 2) -> None:
    """Change one unit's rows with a hash to match, as a bug would."""
    rows = store.read_rows(path)
    units = read_units(path)
    mine = change(rows.filter(pa.compute.equal(rows["doc_id"], doc_id)).combine_chunks())
    units[doc_id] = replace(units[doc_id], rows=mine.num_rows, content_sha256=content_sha256(mine))
    rest = rows.filter(pa.compute.not_equal(rows["doc_id"], doc_id))
    store.write_units(path, units, [rest, mine])


def with_value(name: str, value: float) -> Callable[[pa.Table], pa.Table]:
    def change(rows: pa.Table) -> pa.Table:
        values = rows[name].to_numpy().copy()
        values[7] = value
        index = rows.schema.get_field_index(name)
        field = rows.schema.field(name)
        return rows.set_column(index, field, pa.array(values, field.type))

    return change


def test_all_is_well(stored):
    result = run("check")
    assert result.exit_code == 0, result.output
    found = json.loads(run("check", "--json").stdout)
    assert found["checked"] == {"files": 1, "units": 4, "rows": 4 * ROWS}
    assert found["defects"] == []


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (with_value("logprob", 0.5), "positive-logprob: logprob <= 0"),
        (with_value("logprob", float("nan")), "not-finite: logprob is finite"),
        (with_value("top_logprob", -99.0), "wrong-top-logprob: logprob <= top_logprob <= 0"),
        (with_value("entropy", -1.0), "wrong-entropy: entropy >= 0, finite"),
        (with_value("entropy", float("inf")), "wrong-entropy: entropy >= 0, finite"),
        (with_value("rank", 0), "wrong-rank: rank >= 1"),
        (with_value("rank", 2**30), "rank-and-logprob: logprob <= -ln(rank)"),
        (with_value("entropy", 0.1), "entropy-and-top-logprob: entropy >= -top_logprob"),
        (with_value("entropy", 99.0), "entropy-and-vocabulary: entropy <= ln(vocabulary)"),
        (with_value("context_tokens", -1), "context_tokens >= 0"),
        (with_value("context_tokens", 1), "context_tokens = position after the whole document"),
        (with_value("position", ROWS), "0 <= position < document_tokens"),
        (with_value("char_end", 10**6), SPANS),
        (with_value("char_start", -1), SPANS),
        (with_value("position", 6), "sorted by doc_id, segment, position, each once"),
        (lambda rows: rows.slice(0, ROWS - 3), "positions up to the last token"),
        (lambda rows: rows.slice(2), "positions from 0 or 1 on"),
        (
            lambda rows: pa.concat_tables([rows.slice(0, 9), rows.slice(11)]).combine_chunks(),
            "positions without a gap",
        ),
    ],
)
def test_each_rule_names_the_unit_and_the_file_can_be_set_aside(change, rule, stored):
    rewrite(stored, change)
    result = run("check", "--json")
    assert result.exit_code == 4
    defects = json.loads(result.stdout)["defects"]
    assert {(each["file"], each["doc_id"]) for each in defects} == {(str(stored), 2)}
    assert rule in {each["what"].partition("): ")[2] for each in defects}
    repaired = run("check", "--repair")
    assert repaired.exit_code == 0, repaired.output
    assert not stored.exists() and stored.with_suffix(".damaged").is_file()
    assert run("check").exit_code == 0


@pytest.mark.parametrize("table", ["tokens", "documents"])
def test_a_truncated_file_is_renamed_whole(workspace, stored, table):
    (path,) = (workspace.data / table).rglob("*.parquet")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    assert run("check").exit_code == 4
    assert run("check", "--repair").exit_code == 0
    assert not path.exists() and path.with_suffix(".damaged").is_file()
    assert run("check").exit_code == 0


def test_rows_are_counted_against_the_ledger(stored):
    units, rows = read_units(stored), store.read_rows(stored)
    units[1] = replace(units[1], rows=7)
    store.write_units(stored, [*units[:3]], [rows])
    defects = json.loads(run("check", "--json").stdout)["defects"]
    assert [(each["doc_id"], each["what"]) for each in defects] == [
        (1, "400 rows, the ledger has 7"),
        (3, "rows without a record in the ledger"),
    ]


def test_gc_removes_leftovers_and_nothing_else(workspace, stored):
    folder = stored.parent
    old, new = folder / ".tokens.parquet.0123.tmp", folder / ".tokens.parquet.4567.tmp"
    aside, notes = folder / "doc.damaged", folder / "notes.txt"
    claims = workspace.data / "claims" / KEYS[0] / "some--model"
    claims.mkdir(parents=True)
    gone, held = claims / "doc-000000.claim", claims / "doc-000001.claim"
    for path in (old, new, aside, notes, gone, held):
        path.write_text("elsewhere 1 1.0")
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    os.utime(gone, (1, 1))
    with publication_lock(workspace, *KEYS):
        (lock,) = workspace.pending.rglob(LOCK_NAME)
        os.utime(lock, (1, 1))
    rows = make_rows(9, 5)
    write_unit(workspace, make_unit(9, rows), rows)
    (pending,) = workspace.pending.rglob("doc-*.parquet")
    found, _ = find_garbage(workspace)
    assert {each.path for each in found} == {old, aside, gone, pending}
    before = stored.read_bytes()
    assert run("gc").exit_code == 0 and old.exists()  # asks first
    assert run("gc", "--yes").exit_code == 0
    assert not any(path.exists() for path in (old, aside, gone, pending))
    assert all(path.exists() for path in (new, notes, held, lock))
    assert stored.read_bytes() == before and find_garbage(workspace) == ([], [])


def test_gc_leaves_a_claim_that_was_taken_over_since(workspace, stored):
    path = workspace.data / "claims" / KEYS[0] / "some--model" / "doc-000000.claim"
    path.parent.mkdir(parents=True)
    path.write_text("elsewhere 1 1.0")
    os.utime(path, (1, 1))
    found, _ = find_garbage(workspace)
    assert [each.path for each in found] == [path]
    with claim(path) as ours:
        remove_garbage(workspace, found)
        assert ours and path.exists()


@pytest.mark.parametrize("recomputed", [False, True])
def test_gc_removes_the_units_it_listed(workspace, stored, recomputed):
    """A unit that was computed again since is another one."""
    path = workspace.problems / "sample.yml"
    path.write_text(path.read_text().replace("some/model", "other/model"))
    found, _ = find_garbage(workspace, "sample")
    assert [len(each.units) for each in found] == [4, 0]  # and the row of the model
    if recomputed:
        rows = make_rows(2, ROWS)
        write_unit(workspace, replace(make_unit(2, rows), fingerprint="new"), rows)
        publish(workspace, *KEYS)
    remove_garbage(workspace, found)
    kept = read_units(stored)
    assert [(u.doc_id, u.fingerprint) for u in kept] == ([(2, "new")] if recomputed else [])
    assert stored.exists() == recomputed


def test_setting_aside_never_overwrites(tmp_path):
    for text in ("one", "two"):
        (tmp_path / "tokens.parquet").write_text(text)
        set_aside(tmp_path / "tokens.parquet")
    assert sorted(path.read_text() for path in tmp_path.iterdir()) == ["one", "two"]
