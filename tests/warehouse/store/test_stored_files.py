"""No reader answers from a file that isn't what was written there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from refusal import refuses

import tokenmart
from tokenmart import cli
from warehouse.errors import StorageError
from warehouse.paths import Workspace
from warehouse.sql.connection import connect_for_queries
from warehouse.store.ledger import read_units
from warehouse.store.parquet_files import read_table, verified_checksum, write_table
from warehouse.store.schema import all_tables
from warehouse.store.stored_files import (
    find_faults,
)
from warehouse.store.token_files import (
    pending_folder,
    publish,
    published_path,
    read_rows,
    write_unit,
)

pytestmark = pytest.mark.hostile

ROOT = Path(__file__).parents[3]
KEYS = ("minilong", "good", "full")


def flip(path: Path, place: int, bit: int = 4) -> None:
    """Turn one bit of a file; size and time of modification stay."""
    stat = path.stat()
    with path.open("rb+") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ bit]))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def file_of(store: Workspace, table: str, model: str = "good") -> Path:
    """The first file of a table, of this model if the table has models."""
    files = sorted((store.data / table).rglob("*.parquet"))
    return next((path for path in files if f"model_id={model}" in path.parts), files[0])


def flip_in_page(store: Workspace, table: str, column: int, share: float) -> Path:
    path = file_of(store, table)
    chunk = pq.read_metadata(path).row_group(0).column(column)
    flip(path, chunk.data_page_offset + int(share * (chunk.total_compressed_size - 1)))
    return path


def exchange(store: Workspace, table: str) -> Path:
    """The files of two models take each other's place."""
    first, second = file_of(store, table, "good"), file_of(store, table, "bad")
    assert first != second
    aside = first.with_suffix(".aside")
    first.rename(aside)
    second.rename(first)
    aside.rename(second)
    return min(first, second)


def copy(store: Workspace, table: str, key: str) -> Path:
    """A file is also found under another problem, model or condition."""
    path = file_of(store, table)
    parts = [f"{key}=other" if part.startswith(f"{key}=") else part for part in path.parts]
    other = Path(*parts)
    other.parent.mkdir(parents=True)
    shutil.copy2(path, other)
    return other


def edit_bytes(store: Workspace, make: Callable[[bytes], bytes]) -> Path:
    path = file_of(store, "tokens")
    path.write_bytes(make(path.read_bytes()))
    return path


def rewrite(store: Workspace, make: Callable[[pa.Table], pa.Table]) -> Path:
    """Another program writes the table; its footer keeps what a program would copy."""
    path = file_of(store, "tokens")
    pq.write_table(make(pq.read_table(path, partitioning=None)), path)
    return path


def rewrite_as_foreign(store: Workspace, make: Callable[[pa.Table], pa.Table]) -> Path:
    """Another program writes the table with the ledger, and without the checksum."""
    path = file_of(store, "tokens")
    table = pq.read_table(path, partitioning=None)
    own = {b"tokenmart.sha256", b"tokenmart.place"}
    kept = {key: value for key, value in table.schema.metadata.items() if key not in own}
    pq.write_table(make(table).replace_schema_metadata(kept), path)
    return path


def texts(name: str) -> Callable[[pa.Table], pa.Table]:
    return lambda table: with_column(table, name, table[name].cast(pa.string()))


def one_nan(name: str) -> Callable[[pa.Table], pa.Table]:
    nan = pa.scalar(float("nan"), pa.float32())
    return lambda table: with_column(
        table, name, pa.array([nan, *table[name].slice(1)], pa.float32())
    )


def with_column(table: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, column)


def same_size_and_time(store: Workspace) -> Path:
    path = file_of(store, "downstream")
    find_faults(store)
    flip(path, 60, 1)
    return path


def move(store: Workspace) -> Path:
    path = file_of(store, "tokens")
    return path.rename(path.with_name("other.parquet"))


def copy_beside_the_folders(store: Workspace) -> Path:
    return Path(shutil.copy(file_of(store, "tokens"), store.tokens / "tokens.parquet"))


def take_footer_of_another(store: Workspace) -> Path:
    path, other = file_of(store, "tokens"), file_of(store, "tokens", "bad")
    data, foreign = path.read_bytes(), other.read_bytes()
    length, own = (int.from_bytes(each[-8:-4], "little") + 8 for each in (foreign, data))
    path.write_bytes(data[:-own] + foreign[-length:])
    return path


DAMAGE: list[tuple[Any, ...]] = [
    (flip_in_page, "tokens", 7, 0.5),  # logprob; any other bit is tested below
    *((exchange, table) for table in ("tokens", "models", "downstream")),
    *((copy, "tokens", key) for key in ("problem", "model_id", "condition")),
    (copy, "documents", "problem"),
    (copy, "models", "model_id"),
    (copy, "downstream", "problem"),
    *((edit_bytes, make) for make in (lambda data: data[:-20], lambda data: data + b"\0")),
    *((edit_bytes, lambda data, other=other: other) for other in (b"", b"model,token\ngood,1\n")),
    (rewrite, lambda table: table.replace_schema_metadata(None)),
    (rewrite, lambda table: table.drop_columns(["rank"])),
    (rewrite, lambda table: table.slice(1)),
    (rewrite_as_foreign, texts("logprob")),
    (rewrite_as_foreign, one_nan("logprob")),
    (rewrite_as_foreign, one_nan("entropy")),
    (same_size_and_time,),
    (move,),
    (copy_beside_the_folders,),
    (take_footer_of_another,),
]


@pytest.mark.parametrize("damaged", DAMAGE, ids=lambda each: each[0].__name__)
@pytest.mark.parametrize("looked_before", [False, True])
def test_no_number_comes_from_a_damaged_store(filled, damaged, looked_before):
    if looked_before:
        assert find_faults(filled) == []
    change, *details = damaged
    path = change(filled, *details)
    with refuses("damaged-file", str(path)):
        connect_for_queries(filled)


def test_every_reader_refuses_a_flipped_bit(filled, monkeypatch):
    query = "select sum(nll) as n from tokens"
    shutil.copy(ROOT / "data" / "problems" / "minilong.yml", filled.problems)
    before = CliRunner().invoke(cli, ["sql", query, "--format", "csv"])
    assert before.exit_code == 0, before.output
    path = flip_in_page(filled, "tokens", 7, 0.5)
    idea = ["correlate", "--problem", "minilong", "--name", "mine", "--sql", query]
    for words in (["sql", query], idea):
        refused = CliRunner().invoke(cli, words)
        assert refused.exit_code == StorageError.exit_code, words
        assert str(path) in refused.output
    with pytest.raises(StorageError):
        tokenmart.query(query)
    with pytest.raises(StorageError):
        read_rows(path)
    plugin = pytest.importorskip("warehouse.metrics.dbt_plugin").Plugin("tokenmart", {})
    from dbt_common.exceptions import DbtRuntimeError

    with (
        duckdb.connect() as connection,
        pytest.raises(DbtRuntimeError, match=r"damaged|not the ones"),
    ):
        plugin.configure_connection(connection)
    status = CliRunner().invoke(cli, ["status", "--problem", "minilong"])
    assert str(path) in status.stderr


@pytest.mark.parametrize("table", ["tokens", "documents", "models", "downstream"])
def test_any_flipped_bit_is_found(filled, table):
    path = file_of(filled, table)
    whole = path.read_bytes()
    assert len(verified_checksum(path)) == 64
    for place in range(0, len(whole), 3 if table == "tokens" else 1):
        flip(path, place, 1 << place % 8)
        with pytest.raises(StorageError):
            verified_checksum(path)
        path.write_bytes(whole)


def test_a_file_that_is_unchanged_is_read_once(filled, monkeypatch):
    assert find_faults(filled) == []
    read: list[Path] = []
    monkeypatch.setattr(
        "warehouse.store.stored_files.verified_checksum", lambda path: read.append(path) or "0" * 64
    )
    assert find_faults(filled) == [] and read == []
    path = file_of(filled, "models")
    os.utime(path)
    assert find_faults(filled) == [] and read == [path]
    assert find_faults(filled, every_byte=True) == []
    assert len(read) == 1 + len(list(filled.data.rglob("*=*/*.parquet")))


@pytest.mark.parametrize("memory", [b"", b"[]", b"{", b'{"a": 1}', b'{"a": ["b"]}'])
def test_a_damaged_memory_is_no_memory(filled, memory):
    (filled.cache / "verified_files.3.json").parent.mkdir(parents=True, exist_ok=True)
    (filled.cache / "verified_files.3.json").write_bytes(memory)
    path = flip_in_page(filled, "models", 4, 0.5)
    for _ in range(3):  # never remembered as intact
        assert [fault.path for fault in find_faults(filled)] == [path]


def test_a_table_without_a_nullable_column_is_read_with_nulls(filled):
    path = file_of(filled, "documents")
    write_table(path, read_table(path).drop_columns(["document_group"]))
    query = "select problem, name, document_group from documents"
    with connect_for_queries(filled) as connection:
        rows = connection.execute(f"{query} order by name").fetchall()
    assert rows == [("minilong", "a.txt", None), ("minilong", "b.txt", None)]


def test_merging_never_gives_damage_a_new_checksum(filled):
    path = published_path(filled, *KEYS)
    (unit,) = [u for u in read_units(path) if u.doc_id == 0]
    rows = read_rows(path)
    write_unit(filled, replace(unit, doc_id=7), rows.slice(0, 0), rounded=False)
    flip_in_page(filled, "tokens", 7, 0.5)
    before = path.read_bytes()
    with pytest.raises(StorageError) as caught:
        publish(filled, *KEYS)
    assert caught.value.where == str(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("change", ["bit", "other model"])
def test_a_pending_unit_that_is_not_what_was_written_is_set_aside(filled, change):
    path = published_path(filled, *KEYS)
    units, rows = read_units(path), read_rows(path)
    path.unlink()
    write_unit(filled, units[0], rows, rounded=False)
    folder = pending_folder(filled, *KEYS)
    (pending,) = folder.glob("doc-*.parquet")
    if change == "bit":
        flip(pending, 40)
    else:
        folder = pending_folder(filled, "minilong", "other", "full")
        folder.mkdir(parents=True)
        pending = pending.rename(folder / pending.name)
    assert publish(filled, *folder_keys(folder)) == 0
    assert [found.suffix for found in folder.iterdir() if found.is_file()].count(".damaged") == 1
    assert not published_path(filled, *folder_keys(folder)).exists()


def folder_keys(folder: Path) -> list[str]:
    return [part.partition("=")[2] for part in folder.parts[-3:]]


def test_marts_are_not_emptied_when_the_data_is_gone(filled):
    filled.database.parent.mkdir(parents=True)
    plugin = pytest.importorskip("warehouse.metrics.dbt_plugin").Plugin("tokenmart", {})
    from dbt_common.exceptions import DbtRuntimeError

    def configure(before: str) -> None:
        with duckdb.connect(str(filled.database)) as connection:
            connection.execute(before)
        with duckdb.connect(str(filled.database)) as connection:
            plugin.configure_connection(connection)

    configure("create table metric_values as select 1.5 as value, 3 as tokens")
    shutil.rmtree(filled.tokens)
    with pytest.raises(DbtRuntimeError, match=r"no token files, but .* set TOKENMART_DATA"):
        configure("select 1")
    configure("delete from metric_values")


def test_another_program_does_not_replace_what_was_written(filled):
    """A file of another program may be in the store; one of ours that became it may not."""
    path = rewrite_as_foreign(filled, lambda table: table)
    assert find_faults(filled) == []  # it was never ours
    write_table(path, read_table(path))
    assert find_faults(filled) == []
    rewrite_as_foreign(filled, lambda table: table.slice(0, 2))
    for every_byte in (False, True, False):
        assert [each.path for each in find_faults(filled, every_byte=every_byte)] == [path]
    with refuses("damaged-file", str(path)):
        connect_for_queries(filled)


def test_another_programs_file_without_the_columns_is_named(filled):
    path = file_of(filled, "documents")
    pq.write_table(pa.table({"doc_id": [0], "text": ["a"]}), path)
    (fault,) = find_faults(filled)
    assert fault[:2] == (path, "lacks the columns bytes, characters, name, sha256")
    for command in (["sql", "from documents"], ["data", "check"]):
        result = CliRunner().invoke(cli, command)
        assert result.exit_code == StorageError.exit_code and str(path) in result.output


@pytest.mark.parametrize("name", all_tables())
def test_no_statistics_hide_a_nan(workspace, name):
    """DuckDB 2.0 answers from a footer's least and largest value alone (duckdb#25521)."""
    schema = all_tables()[name].schema
    values = {
        each.name: pa.array([[], [], []], each.type)
        if pa.types.is_nested(each.type)
        else pa.array([0, 1, 2]).cast(each.type)
        for each in schema
    }
    floats = [each.name for each in schema if pa.types.is_floating(each.type)]
    for column in floats:
        values[column] = pa.array([-1.0, float("nan"), -2.0], schema.field(column).type)
    path = workspace.store / name / "problem=p" / "x.parquet"
    write_table(path, pa.table(values, schema=schema))
    for column in floats:
        for where in ('isnan("{}")', 'not coalesce("{}" <= 1, false)', 'not isfinite("{}")'):
            query = f"select count(*) from read_parquet($1) where {where.format(column)}"
            assert duckdb.execute(query, [str(path)]).fetchall() == [(1,)], (column, where)
