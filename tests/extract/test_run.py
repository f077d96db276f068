"""A whole extraction with tiny models: what is stored, redone, kept and refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner
from published_tables import published
from tiny_models import PROBES
from tiny_runs import CONDITIONS, ok, one_line_error, run

from extract.cli import recall
from extract.scoring.engine import Engine
from warehouse.store import token_files
from warehouse.store.ledger import UnitRecord, content_sha256, read_units
from warehouse.store.schema import TOKENS
from warehouse.store.token_files import published_path

ONE = ("--model", "tiny/one")


def test_rows_ledger_and_tables(workspace, tiny_problem):
    assert "extracted 32 units" in ok(run(tiny_problem()))
    tables = published(workspace)
    assert len(tables) == 2 * len(CONDITIONS)
    for name, table in tables.items():
        assert table.schema.equals(TOKENS)
        keys = [table[k].to_pylist() for k in ("doc_id", "segment", "position")]
        order = list(zip(*keys, strict=True))
        assert order == sorted(set(order)), name
        logprob, top = table["logprob"].to_numpy(), table["top_logprob"].to_numpy()
        assert (logprob <= 0).all() and (top >= logprob).all()
        assert (table["rank"].to_numpy() >= 1).all()
        assert ((table["rank"].to_numpy() == 1) == (top == logprob)).mean() > 0.99
    for model in ("tiny--one", "tiny--two"):
        for condition in CONDITIONS:
            path = published_path(workspace, "tiny", model, condition)
            units, table = read_units(path), pq.read_table(path, partitioning=None)
            assert [unit.doc_id for unit in units] == [0, 1, 2, 3]
            for unit in units:
                rows = table.filter(pa.compute.equal(table["doc_id"], unit.doc_id))
                assert (unit.status, unit.rows) == ("done", rows.num_rows)
                assert unit.content_sha256 == content_sha256(rows.combine_chunks())
                assert unit.peak_bytes > 1e6 and unit.seconds > 0
    models = pq.read_table(workspace.store / "models" / "problem=tiny").to_pylist()
    assert {row["full_id"]: row["prepends_bos"] for row in models} == {
        "tiny/one": True,
        "tiny/two": False,
    }
    assert not list(workspace.pending.rglob("doc-*.parquet"))


def test_spans_point_at_the_words(workspace, tiny_problem):
    ok(run(tiny_problem(), "--probe", "full", *ONE))
    documents = pq.read_table(
        workspace.store / "documents" / "problem=tiny" / "documents.parquet", partitioning=None
    )
    table = published(workspace)["problem=tiny/model_id=tiny--one/condition=full"]
    rows = [row for row in table.to_pylist() if row["doc_id"] == 2]
    text = documents["text"][2].as_py()
    # spans of split characters overlap; the rest joins up to the text
    pieces, end = "", 0
    for row in rows:
        pieces += text[max(end, row["char_start"]) : row["char_end"]]
        end = max(end, row["char_end"])
    assert pieces == text


def test_a_rerun_computes_nothing(workspace, tiny_problem, monkeypatch):
    path = tiny_problem()
    ok(run(path, *ONE))
    before = {p: p.stat().st_mtime_ns for p in workspace.tokens.rglob("*.parquet")}
    monkeypatch.setattr(Engine, "score", lambda *_: pytest.fail("scored again"))
    assert "extracted 0 units" in ok(run(path, *ONE))
    assert before == {p: p.stat().st_mtime_ns for p in workspace.tokens.rglob("*.parquet")}


def test_the_row_of_a_model_that_was_moved_away_is_written_again(workspace, tiny_problem):
    """`data check --repair` moves a damaged one; its units are all there."""
    path = tiny_problem(texts=1)
    ok(run(path, *ONE))
    row = workspace.store / "models" / "problem=tiny" / "model_id=tiny--one" / "model.parquet"
    before = row.read_bytes()
    row.unlink()
    assert "extracted 0 units" in ok(run(path, *ONE))
    assert row.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "units"),
    [
        ({"documents": {"kind": "json", "path": "data/corpus.json", "max_tokens": 60}}, 16),
        ({"probes": [PROBES[0], {**PROBES[1], "stride": 8}, PROBES[2]]}, 4),
        ({"probes": [*PROBES, {"kind": "window", "name": "w8", "context": 8, "stride": 8}]}, 4),
    ],
)
def test_only_what_changed_is_computed_again(change, units, workspace, tiny_problem):
    ok(run(tiny_problem(), *ONE))
    # one of the changes reads fewer tokens
    assert f"extracted {units} units" in ok(run(tiny_problem(**change), *ONE, "--force"))
    for table in published(workspace).values():
        keys = table.select(["doc_id", "segment", "position"]).to_pylist()
        assert len({tuple(key.values()) for key in keys}) == len(keys)


def test_a_changed_document_replaces_its_rows_only(workspace, tiny_problem):
    path = tiny_problem()
    ok(run(path, *ONE))
    before = published(workspace)["problem=tiny/model_id=tiny--one/condition=full"]
    corpus = workspace.root / "data" / "corpus.json"
    texts = json.loads(corpus.read_text())
    texts[1] = "a completely different document about nothing in particular 1 2 3"
    corpus.write_text(json.dumps(texts))
    assert "extracted 4 units" in ok(run(path, *ONE))
    after = published(workspace)["problem=tiny/model_id=tiny--one/condition=full"]
    for doc in range(4):
        old, new = (t.filter(pa.compute.equal(t["doc_id"], doc)) for t in (before, after))
        assert old.equals(new) == (doc != 1)


def test_a_model_id_with_two_hyphens_survives(workspace, tiny_problem):
    raw = yaml.safe_load(tiny_problem(probes=PROBES[:1]).read_text())
    raw["models"][0]["full_id"] = "lab/a--b"
    path = workspace.problems / "tiny.yml"
    path.write_text(yaml.safe_dump(raw))
    assert "extracted 4 units" in ok(run(path, "--model", "lab/a--b"))
    assert "extracted 0 units" in ok(run(path, "--model", "lab--a--b"))
    (row,) = pq.read_table(workspace.store / "models" / "problem=tiny").to_pylist()
    assert (row["full_id"], row["model_id"]) == ("lab/a--b", "lab--a--b")


def test_a_model_on_request_runs_only_when_it_is_named(workspace, tiny_problem):
    raw = yaml.safe_load(tiny_problem(texts=1).read_text())
    raw["models"] += [{"full_id": "tiny/extra", "base": "tiny/one", "on_request": True}]
    path = workspace.problems / "tiny.yml"
    path.write_text(yaml.safe_dump(raw))
    assert "extracted 8 units" in ok(run(path))
    assert "extracted 1 unit " in ok(run(path, "--model", "tiny/extra", "--probe", "full"))


def test_rows_depend_on_whether_a_text_begins_with_bos(workspace, tiny_problem):
    path = tiny_problem(texts=1, probes=PROBES[:1])
    assert "extracted 2 units" in ok(run(path))
    for units in ("1 unit ", "0 units"):
        raw = yaml.safe_load(path.read_text())
        raw["models"][1]["bos"] = "always"
        path.write_text(yaml.safe_dump(raw))
        assert f"extracted {units}" in ok(run(path))


def test_rows_depend_on_the_position_encoding_as_trained(workspace, tiny_problem):
    path = tiny_problem(texts=1)
    assert "extracted 8 units" in ok(run(path))
    raw = yaml.safe_load(path.read_text())
    raw["models"][0]["rope"] = {"type": "default", "theta": 5000}
    path.write_text(yaml.safe_dump(raw))
    assert "extracted 4 units" in ok(run(path))
    rows = {
        name: pq.read_table(
            workspace.store
            / "models"
            / "problem=tiny"
            / f"model_id=tiny--{name}"
            / "model.parquet",
            partitioning=None,
        )["rope"].to_pylist()
        for name in ("one", "two")
    }
    assert rows == {"one": ['{"type":"default","theta":5000.0}'], "two": [None]}


def test_a_problem_without_a_target_is_extracted(workspace, tiny_problem):
    raw = yaml.safe_load(tiny_problem(texts=1, probes=PROBES[:1]).read_text())
    del raw["target"]
    path = workspace.problems / "tiny.yml"
    path.write_text(yaml.safe_dump(raw))
    ok(run(path, "--dry-run"))
    assert not workspace.tokens.exists() and not workspace.pending.exists()
    assert "extracted 2 units" in ok(run(path))
    one_line_error(CliRunner().invoke(recall, ["--problem", str(path)]), 1)


def test_the_records_of_a_document_are_read_as_often_in_a_corpus_of_any_size(
    workspace, tiny_problem, monkeypatch
):
    """Another process may have finished it since the plan: only its own files are read."""
    read: list[Path] = []

    def reads(path: Path) -> list[UnitRecord]:
        read.append(path)
        return read_units(path)

    monkeypatch.setattr(token_files, "read_units", reads)
    counts = []
    for texts in (2, 6):
        shutil.rmtree(workspace.pending, ignore_errors=True)
        shutil.rmtree(workspace.tokens, ignore_errors=True)
        read.clear()
        path = tiny_problem(texts=texts)
        ok(run(path, *ONE, "--probe", "full"))
        counts.append(len([each for each in read if each.name.startswith("doc-")]) / texts)
    assert counts[0] == counts[1]
