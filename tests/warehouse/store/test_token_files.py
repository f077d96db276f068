"""Storing, merging and rewriting units, and what several processes may do in parallel."""

from __future__ import annotations

import errno
import hashlib
import json
import multiprocessing
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from warehouse_samples import KEYS, make_rows, make_unit, publish_often

from warehouse.errors import StorageError
from warehouse.maintenance.check import check_store
from warehouse.paths import Workspace
from warehouse.store import parquet_files
from warehouse.store import token_files as store
from warehouse.store.ledger import content_sha256, read_units, with_units
from warehouse.store.parquet_files import write_table
from warehouse.store.schema import TOKENS, UNITS_KEY
from warehouse.store.token_files import (
    as_stored,
    finished_units,
    pending_files,
    pending_folder,
    publish,
    published_path,
    read_rows,
    write_unit,
)


def pending(workspace: Workspace) -> list[Path]:
    return pending_files(pending_folder(workspace, *KEYS))


def test_rows_keep_their_precision_and_order():
    rows = make_rows(0, 5000)
    stored = as_stored(rows)
    for name, nats in (("logprob", 1.6e-5), ("top_logprob", 1.6e-5), ("entropy", 2.5e-4)):
        before, after = rows[name].to_numpy(), stored[name].to_numpy()
        assert after.dtype == np.float32
        assert np.abs(after - before).max() <= nats
        assert not np.signbit(after[after == 0]).any()
    before, after = rows["varentropy"].to_numpy(), stored["varentropy"].to_numpy()
    assert np.abs(after / before - 1).max() <= 2.0**-8 and after.dtype == np.float32
    logprob, top = stored["logprob"].to_numpy(), stored["top_logprob"].to_numpy()
    assert (logprob <= top).all() and (top <= 0).all()
    first = rows["rank"].to_numpy() == 1
    assert (logprob[first] == top[first]).all()
    assert as_stored(stored).equals(stored)
    rounded = [*store.STEP_NATS, "varentropy"]
    assert stored.drop_columns(rounded).equals(rows.drop_columns(rounded))


def test_a_published_file_is_read_alike_by_arrow_and_duckdb(workspace):
    rows = make_rows(0, 3000)
    write_unit(workspace, make_unit(0, rows), rows)
    publish(workspace, *KEYS)
    path = published_path(workspace, *KEYS)
    assert pq.read_schema(path).equals(TOKENS)
    ours = pq.read_table(path, partitioning=None)
    assert ours.equals(as_stored(rows))
    theirs = duckdb.sql(f"from read_parquet('{path}', hive_partitioning = false)").to_arrow_table()
    assert theirs.cast(TOKENS).equals(ours.cast(TOKENS))
    ((ledger,),) = duckdb.sql(
        f"select decode(value) from parquet_kv_metadata('{path}') "
        f"where decode(key) = '{UNITS_KEY.decode()}'"
    ).fetchall()
    assert json.loads(ledger)["common"]["doc_id"] == 0


def test_a_later_pending_unit_replaces_an_earlier_one(workspace):
    for age, (fingerprint, count) in enumerate((("b" * 16, 10), ("a" * 16, 20))):
        rows = make_rows(0, count)
        write_unit(workspace, replace(make_unit(0, rows), fingerprint=fingerprint), rows)
        name = f"doc-000000-{fingerprint}.parquet"
        os.utime(pending_folder(workspace, *KEYS) / name, (age + 1, age + 1))
    assert finished_units(workspace, *KEYS)[0].fingerprint == "a" * 16
    assert publish(workspace, *KEYS) == 1
    (unit,) = read_units(published_path(workspace, *KEYS))
    assert (unit.fingerprint, unit.rows) == ("a" * 16, 20)
    assert not pending(workspace)


def test_merging_holds_a_part_of_the_rows_in_memory(workspace, monkeypatch):
    monkeypatch.setattr(parquet_files, "ROW_GROUP_ROWS", 5_000)
    documents, size = 40, 0
    for turn in range(2):
        for doc_id in range(turn, documents, 2):
            rows = make_rows(doc_id, 5_000)
            size += rows.nbytes
            write_unit(workspace, make_unit(doc_id, rows), rows)
        if turn == 0:
            publish(workspace, *KEYS)
    own, usual = pa.proxy_memory_pool(pa.default_memory_pool()), pa.default_memory_pool()
    pa.set_memory_pool(own)
    try:
        assert publish(workspace, *KEYS) == documents // 2
    finally:
        pa.set_memory_pool(usual)
    assert 0 < own.max_memory() < size / 4


@pytest.mark.parametrize("fingerprint", ["f" * 16, "0" * 16])
def test_a_unit_written_while_another_publishes_is_not_removed(workspace, monkeypatch, fingerprint):
    """Neither one of other settings nor one that failed and was computed again."""
    old, new = TOKENS.empty_table(), make_rows(0, 20)
    write_unit(workspace, replace(make_unit(0, old), status="failed"), old)
    real = store.write_tables

    def meanwhile(*arguments: Any, **options: Any) -> None:
        monkeypatch.setattr(store, "write_tables", real)
        write_unit(workspace, replace(make_unit(0, new), fingerprint=fingerprint), new)
        real(*arguments, **options)

    monkeypatch.setattr(store, "write_tables", meanwhile)
    publish(workspace, *KEYS)
    assert [path.name for path in pending(workspace)] == [f"doc-000000-{fingerprint}.parquet"]
    publish(workspace, *KEYS)
    assert [unit.rows for unit in read_units(published_path(workspace, *KEYS))] == [20]


def test_a_unit_published_while_the_ledger_is_read_is_still_seen(workspace, monkeypatch):
    rows = make_rows(0, 10)
    write_unit(workspace, make_unit(0, rows), rows)
    listed = store.pending_files

    def then_published(folder: Path, doc_id: int | None = None) -> list[Path]:
        files = listed(folder)
        monkeypatch.setattr(store, "pending_files", listed)
        publish(workspace, *KEYS)
        return files

    monkeypatch.setattr(store, "pending_files", then_published)
    assert list(finished_units(workspace, *KEYS)) == [0]


def test_killed_between_rename_and_unlink(workspace, monkeypatch):
    for doc_id in range(2):
        rows = make_rows(doc_id, 10)
        write_unit(workspace, make_unit(doc_id, rows), rows)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            publish(workspace, *KEYS)
    path = published_path(workspace, *KEYS)
    merged = pq.read_table(path, partitioning=None)
    assert len(read_units(path)) == 2 and len(pending(workspace)) == 2
    assert publish(workspace, *KEYS) == 2
    assert pq.read_table(path, partitioning=None).equals(merged)
    assert len(read_units(path)) == 2 and not pending(workspace)


def test_a_pending_unit_with_other_content_is_set_aside(workspace):
    for doc_id in range(2):
        rows = make_rows(doc_id, 10)
        write_unit(workspace, make_unit(doc_id, rows), rows)
    wrong = pending(workspace)[0]
    (unit,) = read_units(wrong)
    store.write_units(wrong, [unit], [make_rows(unit.doc_id, 10, seed=9)])
    publish(workspace, *KEYS)
    assert [u.doc_id for u in read_units(published_path(workspace, *KEYS))] == [1]
    assert wrong.with_suffix(".damaged").is_file()


def test_processes_that_publish_in_parallel_lose_nothing(workspace):
    # not forked: a process whose libraries run threads, as torch's do, must not be
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=publish_often, args=(workspace, first)) for first in (0, 5, 10, 15)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    path = published_path(workspace, *KEYS)
    units = read_units(path)
    assert [unit.doc_id for unit in units] == list(range(20))
    counts = pq.read_table(path, partitioning=None)["doc_id"].value_counts().to_pylist()
    assert {row["values"]: row["counts"] for row in counts} == dict.fromkeys(range(20), 50)
    assert not pending(workspace) and not list(workspace.data.rglob("*.tmp"))


@pytest.mark.parametrize(
    "number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO]
)
def test_a_failed_write_leaves_nothing(number, workspace, monkeypatch):
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    rows = make_rows(0, 10)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageError):
        write_unit(workspace, make_unit(0, rows), rows)
    assert not list(workspace.data.rglob("*.tmp")) and not pending(workspace)


def test_ten_bytes_a_row(workspace):
    """Random floats at the stored precision, realistic spans: nothing else may take room."""
    rows = make_rows(0, 60_000)
    write_unit(workspace, make_unit(0, rows), rows)
    publish(workspace, *KEYS)
    path = published_path(workspace, *KEYS)
    footer = path.stat().st_size - sum(
        pq.read_metadata(path).row_group(0).column(c).total_compressed_size
        for c in range(len(TOKENS))
    )
    assert footer < 6000
    sizes = {
        name: pq.read_metadata(path).row_group(0).column(c).total_compressed_size / 60_000
        for c, name in enumerate(TOKENS.names)
    }
    assert sum(sizes[name] for name in ("doc_id", "segment", "position", "context_tokens")) < 0.1
    assert sum(sizes[name] for name in ("char_start", "char_end")) < 1.2
    assert sizes["logprob"] < 2.9 and sizes["top_logprob"] < 2.8 and sizes["entropy"] < 2.4
    assert sizes["varentropy"] < 1.5


def test_files_from_before_the_varentropy_are_read_and_merged(workspace):
    """Their columns, hashes and ledger are those of then; the rows get a null."""
    rows = make_rows(0, 50)
    old = pa.schema([each for each in TOKENS if each.name != "varentropy"])
    stored = as_stored(rows).select(old.names).cast(old).sort_by("position")
    unit = make_unit(0, rows)
    digest = hashlib.sha256(b"".join(c.to_numpy().tobytes() for c in stored.columns)).hexdigest()
    unit = replace(unit, content_sha256=digest)
    path = published_path(workspace, *KEYS)
    write_table(path, stored.cast(with_units(old, [unit])))
    more = make_rows(1, 50)
    write_unit(workspace, make_unit(1, more), more)
    assert publish(workspace, *KEYS) == 1
    found = read_rows(path)
    first, second = (
        found.filter(pc.equal(found["doc_id"], doc)).combine_chunks() for doc in (0, 1)
    )
    assert first["varentropy"].null_count == 50 and second["varentropy"].null_count == 0
    assert content_sha256(first) == digest
    assert first.drop_columns(["varentropy"]).cast(old).equals(stored)
    assert check_store(workspace).defects == ()
