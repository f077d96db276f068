"""DuckDB connections: the marts read-only, and the Parquet files in place for ad-hoc SQL."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import duckdb

from warehouse.errors import StorageError
from warehouse.paths import Workspace

PATIENCE_SECONDS = 3.0
_SCHEMAS = ("main", "main_staging", "main_intermediate")
_ARROW_TYPES = {
    "int32": "integer",
    "int64": "bigint",
    "float": "float",
    "double": "double",
    "bool": "boolean",
    "string": "varchar",
}
_LEDGER_TYPES = {"int": "bigint", "float": "double", "bool": "boolean"}


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
    """An in-memory database with views over the Parquet files, the marts attached read-only.

    The views `tokens`, `documents`, `models`, `downstream` and `units` (the ledger) work
    before dbt was ever run.

    Raises:
        StorageError: dbt is writing the DuckDB file, or it can't be read.
    """
    connection = duckdb.connect(":memory:", config={"python_enable_replacements": "false"})
    path = workspace.database
    places = [("memory", "main")]
    if path.is_file():
        _patiently(path, lambda: connection.execute(f"attach {_quoted(path)} (read_only)"))
        places += [(_catalog(path), schema) for schema in _SCHEMAS]
    connection.execute(f"set temp_directory = {_quoted(workspace.cache / 'duckdb')}")
    _create_views(connection, workspace.data)
    _search(connection, places)
    return connection


def _patiently(
    path: Path, connect: Callable[[], duckdb.DuckDBPyConnection]
) -> duckdb.DuckDBPyConnection:
    """Call `connect`, waiting a little while a writer holds the file."""
    deadline = time.monotonic() + PATIENCE_SECONDS
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
                raise StorageError(
                    f"{path}: being written, probably by dbt; try again when dbt has finished"
                ) from error
        time.sleep(0.2)


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
    from warehouse.ledger import UnitRecord
    from warehouse.schema import TABLES, UNITS_KEY

    for name, (schema, keys) in TABLES.items():
        files = _quoted(data / name / "**" / "*.parquet")
        columns = [*keys, *schema.names]
        source = f"read_parquet({files}, hive_partitioning = true, hive_types_autocast = false)"
        if not _has_files(data / name):
            columns = [f"null::varchar as {key}" for key in keys]
            columns += [f"null::{_ARROW_TYPES[str(f.type)]} as {f.name}" for f in schema]
            source = "(select 1) where false"
        if name == "tokens":
            columns.append("-logprob as nll")
        connection.execute(f"create view {name} as select {', '.join(columns)} from {source}")
    types = {f.name: _LEDGER_TYPES.get(str(f.type), "varchar") for f in fields(UnitRecord)}
    types["finished_at"] = "timestamptz"
    record = ", ".join(f'"{name}": "{type_}"' for name, type_ in types.items())
    footers = f"parquet_kv_metadata({_quoted(data / 'tokens' / '**' / '*.parquet')})"
    if not _has_files(data / "tokens"):
        footers = "(select ''::blob as key, ''::blob as value)"
    connection.execute(
        f"create view units as select unnest(from_json(decode(value), '[{{{record}}}]'), "
        f"recursive := true) from {footers} where decode(key) = '{UNITS_KEY.decode()}'"
    )


def _has_files(folder: Path) -> bool:
    return next(folder.glob("**/*.parquet"), None) is not None
