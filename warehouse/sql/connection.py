"""DuckDB connections: the marts read-only, and the Parquet files in place for ad-hoc SQL."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import duckdb

from warehouse.errors import StorageError
from warehouse.paths import Workspace

PATIENCE_SECONDS = 3.0
_VIEWS = ("tokens", "documents", "models", "units", "downstream")
_SCHEMAS = ("main", "metrics", "intermediate", "staging")
_MACROS = re.compile(r"\{% macro create_sql_macros\(\) %\}(.*?)\{% endmacro %\}", re.DOTALL)
_ARROW_TYPES = {
    "int32": "integer",
    "int64": "bigint",
    "float": "float",
    "double": "double",
    "bool": "boolean",
    "string": "varchar",
}
_LEDGER_TYPES = {"int": "bigint", "float": "double", "bool": "boolean"}


class DatabaseBusyError(StorageError):
    """Another process writes the DuckDB file; the Parquet files can be read all the same."""


def connect_read_only(workspace: Workspace) -> duckdb.DuckDBPyConnection:
    """Open the DuckDB file that dbt built; marts, staging and intermediate names unqualified.

    Raises:
        StorageError: no file yet, dbt is writing it, or it can't be read.
    """
    path = workspace.database
    if not path.is_file():
        raise StorageError(f"{path}: no warehouse yet; run `tokenmart dbt build`")
    connection = _patiently(path, lambda: duckdb.connect(str(path), read_only=True))
    _search(connection, [(_catalog(path), schema) for schema in _SCHEMAS])
    return connection


def connect_for_queries(workspace: Workspace) -> duckdb.DuckDBPyConnection:
    """`connect_to_parquet`, with the marts attached read-only if there are any.

    Raises:
        StorageError: dbt is writing the DuckDB file, or it can't be read.
    """
    connection = connect_to_parquet(workspace)
    attach_marts(connection, workspace)
    return connection


def connect_to_parquet(workspace: Workspace) -> duckdb.DuckDBPyConnection:
    """An in-memory database with views over the Parquet files and the macros of the project.

    The views `tokens`, `documents`, `models`, `downstream` and `units` (the ledger) and macros
    such as `ppl` work before dbt was ever run, and while it runs.
    """
    connection = duckdb.connect(":memory:", config={"python_enable_replacements": "false"})
    connection.execute(f"set temp_directory = {_quoted(workspace.cache / 'duckdb')}")
    connection.execute("set parquet_metadata_cache = true")
    _create_views(connection, workspace.data)
    _create_macros(connection, workspace.dbt_project)
    return connection


def attach_marts(
    connection: duckdb.DuckDBPyConnection, workspace: Workspace, patience: float | None = None
) -> None:
    """Make the tables dbt built usable by their plain names, read-only; none built: no change.

    Args:
        connection: one of `connect_to_parquet`; its own views come first.
        workspace: where the DuckDB file is.
        patience: seconds to wait for a writer; None for `PATIENCE_SECONDS`.

    Raises:
        StorageError: dbt is writing the DuckDB file, or it can't be read.
    """
    path = workspace.database
    if not path.is_file():
        return
    attach = f"attach {_quoted(path)} (read_only)"
    _patiently(path, lambda: connection.execute(attach), patience)
    _search(connection, [("memory", "main"), *((_catalog(path), name) for name in _SCHEMAS)])


def detach_marts(connection: duckdb.DuckDBPyConnection, workspace: Workspace) -> None:
    """Let go of the DuckDB file: while it is attached, dbt can't write it."""
    _search(connection, [("memory", "main")])
    connection.execute(f'detach database if exists "{_catalog(workspace.database)}"')


def _patiently(
    path: Path, connect: Callable[[], duckdb.DuckDBPyConnection], patience: float | None = None
) -> duckdb.DuckDBPyConnection:
    """Call `connect`, waiting a little while a writer holds the file."""
    deadline = time.monotonic() + (PATIENCE_SECONDS if patience is None else patience)
    while True:
        try:
            return connect()
        except duckdb.Error as error:
            message = str(error).splitlines()[0]
            if "lock" not in message:
                raise StorageError(
                    f"{path}: can't be opened ({message}); delete it and run `tokenmart dbt build`"
                ) from error
            if time.monotonic() > deadline:
                raise DatabaseBusyError(
                    f"{path}: being written, probably by dbt; try again when dbt has finished "
                    f"(until then: {', '.join(_VIEWS)})"
                ) from error
        time.sleep(0.2)


def damaged_file(error: duckdb.Error) -> StorageError | None:
    """The Parquet file an error is about, with the remedy; None when it is about something else."""
    text = " ".join(str(error).split())
    named = re.search(r"['\"]([^'\"]+\.parquet)['\"]", text)
    if named is None or "Catalog Error" in text or "Binder Error" in text:
        return None
    return StorageError(
        f"{named[1]}: damaged or unreadable ({text[:120]}); move it away and run "
        "tokenmart extract again: only its units are recomputed"
    )


def _search(connection: duckdb.DuckDBPyConnection, places: list[tuple[str, str]]) -> None:
    """Make names of these (catalog, schema) pairs usable unqualified, in this order."""
    known = set(
        connection.execute(
            "select catalog_name, schema_name from information_schema.schemata"
        ).fetchall()
    )
    path = ",".join(f'"{place[0]}"."{place[1]}"' for place in places if place in known)
    connection.execute(f"set search_path = '{path}'")


def _catalog(path: Path) -> str:
    """The name DuckDB and dbt give the database of a file."""
    return path.name.partition(".")[0]


def _quoted(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def _create_views(connection: duckdb.DuckDBPyConnection, data: Path) -> None:
    from warehouse.store.ledger import UnitRecord
    from warehouse.store.schema import TABLES, UNITS_KEY

    for name, (schema, keys) in TABLES.items():
        files = _quoted(data / name / "**" / "*.parquet")
        columns = [*keys, *schema.names]
        types = ", ".join(f"{key}: varchar" for key in keys)
        options = f"hive_partitioning = true, hive_types = {{{types}}}"
        # By name: a column may have another place in older files. It also makes DuckDB read
        # every footer before it plans; else it plans by the first file, the one without rows.
        sources = [
            f"read_parquet({files}, union_by_name = true, {options})",
            f"read_parquet({files}, {options})",
        ]
        if not _has_files(data / name):
            columns = [f"null::varchar as {key}" for key in keys]
            columns += [f"null::{_ARROW_TYPES[str(f.type)]} as {f.name}" for f in schema]
            sources = ["(select 1) where false"]
        if name == "tokens":
            columns.append("-logprob as nll")
        view = f"create view {name} as select {', '.join(columns)} from "
        try:
            connection.execute(view + sources[0])
        except duckdb.Error as error:
            # One damaged file must not take the others away: only questions that read it fail.
            try:
                connection.execute(view + sources[-1])
            except duckdb.Error:
                raise damaged_file(error) or StorageError(f"{data / name}: {error}") from error
    ledger = {f.name: _LEDGER_TYPES.get(str(f.type), "varchar") for f in fields(UnitRecord)}
    ledger["finished_at"] = "timestamptz"
    record = ", ".join(f'"{name}": "{type_}"' for name, type_ in ledger.items())
    footers = f"parquet_kv_metadata({_quoted(data / 'tokens' / '**' / '*.parquet')})"
    if not _has_files(data / "tokens"):
        footers = "(select ''::blob as key, ''::blob as value)"
    connection.execute(
        "create view units as with ledgers as (select decode(value)::json as ledger "
        f"from {footers} where decode(key) = '{UNITS_KEY.decode()}'), records as ("
        "select json_merge_patch(coalesce(ledger -> '$.common', '{}'::json), "
        "unnest(coalesce(ledger -> '$.units', ledger)::json[])) as record from ledgers) "
        f"select unnest(from_json(record, '{{{record}}}'), recursive := true) from records"
    )


def _create_macros(connection: duckdb.DuckDBPyConnection, project: Path) -> None:
    """Create the macros dbt keeps in its file here too: one definition, usable without it."""
    path = project / "macros" / "create_sql_macros.sql"
    if path.is_file() and (found := _MACROS.search(path.read_text(encoding="utf-8"))):
        connection.execute(found[1])


def _has_files(folder: Path) -> bool:
    return next(folder.glob("**/*.parquet"), None) is not None
