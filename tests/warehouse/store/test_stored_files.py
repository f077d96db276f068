"""No reader answers from a file that isn't what was written there."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from dbt_harness import NewWarehouse
from made_up_warehouse import Shape

import tokenmart
from tokenmart import cli
from warehouse.errors import StorageError
from warehouse.paths import Workspace
from warehouse.sql.connection import connect_for_queries
from warehouse.store.built_from import changed_since_build, write_states
from warehouse.store.ledger import read_ledger
from warehouse.store.parquet_files import damage, read_table, write_table
from warehouse.store.stored_files import find_faults, state_of, states
from warehouse.store.token_files import (
    pending_folder,
    publish,
    published_path,
    read_rows,
    write_unit,
    write_units,
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


def bit_in_page(table: str, column: int, share: float) -> Callable[[Workspace], Path]:
    def change(store: Workspace) -> Path:
        path = file_of(store, table)
        chunk = pq.read_metadata(path).row_group(0).column(column)
        flip(path, chunk.data_page_offset + int(share * (chunk.total_compressed_size - 1)))
        return path

    change.__name__ = f"bit_in_{table}_column_{column}_at_{share}"
    return change


def bit_after(mark: bytes, offset: int = 0, table: str = "tokens") -> Callable[[Workspace], Path]:
    """A bit of the footer, counted from the end of a text in it."""

    def change(store: Workspace) -> Path:
        path = file_of(store, table)
        flip(path, path.read_bytes().index(mark) + len(mark) + offset, 1)
        return path

    change.__name__ = f"bit_after_{mark.decode()}_{offset}_of_{table}"
    return change


def bit_from_end(offset: int) -> Callable[[Workspace], Path]:
    def change(store: Workspace) -> Path:
        path = file_of(store, "tokens")
        flip(path, path.stat().st_size - offset)
        return path

    change.__name__ = f"bit_{offset}_before_the_end"
    return change


def exchanged(table: str, one: str = "good", other: str = "bad") -> Callable[[Workspace], Path]:
    """The files of two models take each other's place."""

    def change(store: Workspace) -> Path:
        first, second = file_of(store, table, one), file_of(store, table, other)
        assert first != second
        aside = first.with_suffix(".aside")
        first.rename(aside)
        second.rename(first)
        aside.rename(second)
        return min(first, second)

    change.__name__ = f"exchanged_{table}"
    return change


def copied(table: str, key: str, name: str) -> Callable[[Workspace], Path]:
    """A file is also found under another problem, model or condition."""

    def change(store: Workspace) -> Path:
        path = file_of(store, table)
        parts = [f"{key}={name}" if part.startswith(f"{key}=") else part for part in path.parts]
        other = Path(*parts)
        other.parent.mkdir(parents=True)
        shutil.copy2(path, other)
        return other

    change.__name__ = f"copied_{table}_to_{key}_{name}"
    return change


def content(make: Callable[[bytes], bytes], name: str) -> Callable[[Workspace], Path]:
    def change(store: Workspace) -> Path:
        path = file_of(store, "tokens")
        path.write_bytes(make(path.read_bytes()))
        return path

    change.__name__ = name
    return change


def rewritten(make: Callable[[pa.Table], pa.Table], name: str) -> Callable[[Workspace], Path]:
    """Another program writes the table; its footer keeps what a program would copy."""

    def change(store: Workspace) -> Path:
        path = file_of(store, "tokens")
        pq.write_table(make(pq.read_table(path, partitioning=None)), path)
        return path

    change.__name__ = name
    return change


def of_another_time(store: Workspace) -> Path:
    """A file of the same place, size and time as the one before; only its bytes differ."""
    path = file_of(store, "downstream")
    find_faults(store)
    stat = path.stat()
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    return path


def two_pages_exchanged(store: Workspace) -> Path:
    """Two blocks of the data take each other's place."""
    path = file_of(store, "tokens")
    data = path.read_bytes()
    path.write_bytes(data[:4] + data[84:164] + data[4:84] + data[164:])
    return path


def renamed(store: Workspace) -> Path:
    path = file_of(store, "tokens")
    return path.rename(path.with_name("other.parquet"))


def beside_the_folders(store: Workspace) -> Path:
    other = store.tokens / "tokens.parquet"
    shutil.copy(file_of(store, "tokens"), other)
    return other


def footer_of_another(store: Workspace) -> Path:
    """The data of one model with the footer of the other."""
    path, other = file_of(store, "tokens"), file_of(store, "tokens", "bad")
    data, foreign = path.read_bytes(), other.read_bytes()
    length = int.from_bytes(foreign[-8:-4], "little") + 8
    own = int.from_bytes(data[-8:-4], "little") + 8
    path.write_bytes(data[:-own] + foreign[-length:])
    return path


def documents_of_another_shape(store: Workspace) -> Path:
    other = store.documents / "problem=mine" / "documents.parquet"
    other.parent.mkdir(parents=True)
    pq.write_table(pa.table({"doc_id": [0], "text": ["mine"]}), other)
    return other


def another_type(table: pa.Table) -> pa.Table:
    place = table.schema.get_field_index("rank")
    return table.set_column(place, "rank", table["rank"].cast(pa.string()))


DAMAGE: list[Callable[[Workspace], Path]] = [
    bit_in_page("tokens", 7, 0.5),  # logprob
    bit_in_page("tokens", 7, 1.0),
    bit_in_page("tokens", 9, 0.5),  # rank
    bit_in_page("tokens", 0, 0.0),  # header of the page
    bit_in_page("documents", 5, 0.9),  # text
    bit_in_page("models", 4, 0.5),  # parameters
    bit_in_page("downstream", 4, 0.5),  # score
    bit_after(b"seconds"),
    bit_after(b'"logprob'[1:], 1),
    bit_after(b"tokenmart.units", -4),
    bit_after(b"tokenmart.sha256", 2),  # first digit of the checksum
    bit_after(b"tokenmart.sha256", -1),  # the key
    bit_after(b"tokenmart.sha256", 1),  # its length
    bit_after(b"tokenmart.place", -3),
    bit_after(b"tokenmart.place", 12),
    bit_after(b"tokenmart.place", 12, "models"),
    bit_from_end(1),  # PAR1
    bit_from_end(5),  # length of the footer, high byte
    bit_from_end(8),  # low byte
    bit_from_end(30),
    exchanged("tokens"),
    exchanged("models"),
    exchanged("downstream"),
    copied("tokens", "problem", "mine"),
    copied("tokens", "model_id", "stranger"),
    copied("tokens", "condition", "other"),
    copied("documents", "problem", "mine"),
    copied("models", "model_id", "stranger"),
    copied("downstream", "problem", "mine"),
    content(lambda data: data[:-20], "truncated"),
    content(lambda data: data[: len(data) // 2], "half"),
    content(lambda data: b"", "empty"),
    content(lambda data: data + b"\0", "longer"),
    content(lambda data: data[:200] + data[300:], "hole"),
    content(lambda data: data[:100] + bytes(64) + data[164:], "zeroed_block"),
    content(lambda data: b"model,token\ngood,1\n", "another_format"),
    rewritten(lambda table: table.replace_schema_metadata(None), "without_ledger"),
    rewritten(lambda table: table.drop_columns(["rank"]), "without_a_column"),
    rewritten(lambda table: table.append_column("logits", table["rank"]), "another_column"),
    rewritten(another_type, "another_type"),
    rewritten(lambda table: pa.concat_tables([table, table]), "more_rows"),
    rewritten(lambda table: table.slice(1), "fewer_rows"),
    of_another_time,
    two_pages_exchanged,
    renamed,
    beside_the_folders,
    footer_of_another,
    documents_of_another_shape,
]


@pytest.mark.parametrize("change", DAMAGE, ids=lambda change: change.__name__)
@pytest.mark.parametrize("looked_before", [False, True])
def test_no_number_comes_from_a_damaged_store(
    filled: Workspace, change: Callable[[Workspace], Path], looked_before: bool
) -> None:
    if looked_before:
        assert find_faults(filled) == []
    path = change(filled)
    with pytest.raises(StorageError) as caught:
        connect_for_queries(filled)
    assert (caught.value.code, caught.value.where) == ("damaged-file", str(path))


def test_every_reader_refuses_a_flipped_bit(
    filled: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = "select sum(nll) as n from tokens"
    shutil.copy(ROOT / "data" / "problems" / "minilong.yml", filled.problems)
    before = CliRunner().invoke(cli, ["sql", query, "--format", "csv"])
    assert before.exit_code == 0, before.output
    path = bit_in_page("tokens", 7, 0.5)(filled)
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
def test_any_flipped_bit_is_found(filled: Workspace, table: str) -> None:
    path = file_of(filled, table)
    whole = path.read_bytes()
    assert damage(path) == ""
    for place in range(0, len(whole), 3 if table == "tokens" else 1):
        flip(path, place, 1 << place % 8)
        with suppress(pa.ArrowException, OSError, ValueError):
            assert damage(path), place
        path.write_bytes(whole)


def test_a_file_that_is_unchanged_is_read_once(
    filled: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_faults(filled) == []
    read: list[Path] = []
    monkeypatch.setattr("warehouse.store.stored_files.damage", lambda path: read.append(path) or "")
    assert find_faults(filled) == [] and read == []
    path = file_of(filled, "models")
    os.utime(path)
    assert find_faults(filled) == [] and read == [path]
    assert find_faults(filled, every_byte=True) == []
    assert len(read) == 1 + len(list(filled.data.rglob("*=*/*.parquet")))


def test_a_damaged_file_is_never_remembered_as_intact(filled: Workspace) -> None:
    path = bit_in_page("models", 4, 0.5)(filled)
    for _ in range(3):
        assert [fault.path for fault in find_faults(filled)] == [path]


@pytest.mark.parametrize("memory", [b"", b"[]", b"{", b'{"rules": 1}', b'{"files": {"a": 1}}'])
def test_a_damaged_memory_is_no_memory(filled: Workspace, memory: bytes) -> None:
    (filled.cache / "verified_files.json").parent.mkdir(parents=True, exist_ok=True)
    (filled.cache / "verified_files.json").write_bytes(memory)
    path = bit_in_page("models", 4, 0.5)(filled)
    assert [fault.path for fault in find_faults(filled)] == [path]


def test_a_table_without_a_nullable_column_is_read_with_nulls(filled: Workspace) -> None:
    path = file_of(filled, "documents")
    write_table(path, read_table(path).drop_columns(["document_group"]))
    query = "select problem, name, document_group from documents"
    with connect_for_queries(filled) as connection:
        assert connection.execute(query).fetchall() == [("minilong", "a.txt", None)]


def test_merging_never_gives_damage_a_new_checksum(filled: Workspace) -> None:
    path = published_path(filled, *KEYS)
    (unit,) = [u for u in read_ledger(path).units if u.doc_id == 0]
    rows = read_rows(path)
    later = SimpleNamespace(**{**vars(unit), "doc_id": 7})
    write_unit(filled, type(unit)(**vars(later)), rows.slice(0, 0), rounded=False)
    bit_in_page("tokens", 7, 0.5)(filled)
    before = path.read_bytes()
    with pytest.raises(StorageError) as caught:
        publish(filled, *KEYS)
    assert caught.value.where == str(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("change", ["bit", "other model"])
def test_a_pending_unit_that_is_not_what_was_written_is_set_aside(
    filled: Workspace, change: str
) -> None:
    path = published_path(filled, *KEYS)
    units, rows = list(read_ledger(path).units), read_rows(path)
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


def test_marts_are_not_emptied_when_the_data_is_gone(filled: Workspace) -> None:
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


def record_build(workspace: Workspace, model: str = "metric_values") -> None:
    """What a dbt run writes: the state before it, and what the model was built from."""
    workspace.database.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(str(workspace.database)) as connection:
        write_states(connection, workspace)
        connection.execute(
            "create or replace table main.built_from as"
            f" select '{model}' as model, problem, state from main.store_states"
        )


def test_a_later_time_of_the_database_hides_no_change(filled: Workspace) -> None:
    record_build(filled)
    models = ("fct_tokens", "metric_values")
    assert not changed_since_build(filled, "minilong", models)
    path = published_path(filled, *KEYS)
    write_units(path, list(read_ledger(path).units), [read_rows(path)])
    later = path.stat().st_mtime + 3600
    os.utime(filled.database, (later, later))
    assert not changed_since_build(filled, "minilong", models)  # the same bytes
    path.unlink()
    assert changed_since_build(filled, "minilong", models)
    assert not changed_since_build(filled, "other", models)
    assert not changed_since_build(filled, "minilong", ["rankings"])  # was never built
    record_build(filled)
    assert not changed_since_build(filled, "minilong", models)


def test_a_state_belongs_to_one_problem(filled: Workspace) -> None:
    before = state_of(filled, "minilong")
    assert states(filled) == {"minilong": before}
    other = filled.documents / "problem=mine" / "documents.parquet"
    write_table(other, read_table(file_of(filled, "documents")))
    assert state_of(filled, "minilong") == before
    assert states(filled).keys() == {"minilong", "mine"}
    flip(file_of(filled, "models"), 50)
    assert state_of(filled, "minilong") != before


def test_memory_is_one_entry_a_file(filled: Workspace) -> None:
    find_faults(filled)
    found = json.loads((filled.cache / "verified_files.json").read_bytes())
    assert len(found["files"]) == len(list(filled.data.rglob("*=*/*.parquet")))


@pytest.mark.slow
def test_a_dbt_run_records_what_each_model_was_built_from(
    new_warehouse: NewWarehouse, workspace: Workspace
) -> None:
    warehouse = new_warehouse(Shape(models=1, documents=1, tokens=300))
    store = Workspace(workspace.root, warehouse.data, warehouse.database)
    done = warehouse.dbt("run", "--select", "coverage")
    assert done.returncode == 0, done.stdout
    (problem,) = states(store)
    assert not changed_since_build(store, problem, ["coverage"])
    path = sorted(store.documents.rglob("*.parquet"))[0]
    write_table(path, read_table(path).slice(0, 0))
    later = path.stat().st_mtime + 3600
    os.utime(warehouse.database, (later, later))
    assert changed_since_build(store, problem, ["coverage"])
