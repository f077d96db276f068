"""DuckDB connections: the marts read-only, and the Parquet files in place for ad-hoc SQL.

A locked connection opens no file outside the Parquet folders and the marts, which are attached
read-only, loads no extension and keeps its configuration. Where DuckDB may read a file it may also
write one: `warehouse.sql.session` refuses the statements that do.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import duckdb

from warehouse.errors import StorageError, TokenmartError, first_line
from warehouse.paths import Workspace
from warehouse.sql.views import (
    create_target_views,
    create_views,
    metric_tables,
    quoted,
    quoted_name,
)
from warehouse.store.schema import all_tables

T = TypeVar("T")

SETTINGS = (
    "TimeZone",
    "default_null_order",
    "default_order",
    "explain_output",
    "preserve_insertion_order",
)
"""Settings that a query may change."""

_LOCKED_FROM_THE_START = {
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}
_SPILLED = "50GiB"
_SCHEMAS = ("main", "metrics", "intermediate", "staging")


class DatabaseBusyError(StorageError):
    """Another program has the DuckDB file open for writing; the Parquet files can be read."""


def connect_read_only(workspace: Workspace) -> duckdb.DuckDBPyConnection:
    """Open the DuckDB file that dbt built; marts, staging and intermediate names unqualified.

    Raises:
        StorageError: no file yet, another program writes it, or it can't be read.
    """
    path = workspace.database
    if not path.is_file():
        raise StorageError(f"{path}: no warehouse yet; run `tokenmart dbt build`")
    with _opening(path):
        connection = duckdb.connect(str(path), read_only=True)
    _search(connection, [(_catalog(path), schema) for schema in _SCHEMAS])
    return connection


def connect_for_queries(workspace: Workspace) -> duckdb.DuckDBPyConnection:
    """`connect_to_parquet`, then `attach_marts`."""
    connection = connect_to_parquet(workspace)
    attach_marts(connection, workspace)
    return connection


def connect_in_memory(workspace: Workspace) -> duckdb.DuckDBPyConnection:
    """An empty database; what exceeds the memory limit, `TOKENMART_MEMORY`, goes to the disk.

    Raises:
        TokenmartError: the memory limit is not a size.
    """
    memory = os.environ.get("TOKENMART_MEMORY") or "5GiB"
    try:
        connection = duckdb.connect(
            ":memory:", config={**_LOCKED_FROM_THE_START, "memory_limit": memory}
        )
    except duckdb.Error as error:
        raise TokenmartError(f"TOKENMART_MEMORY={memory}: {first_line(error)}") from error
    # days and hours are the same wherever a question is asked
    connection.execute("set global TimeZone = 'UTC'")
    with suppress(OSError):  # a folder that can only be read: DuckDB says so if it needs it
        workspace.cache.mkdir(parents=True, exist_ok=True)
    connection.execute(f"set temp_directory = {quoted(workspace.cache / 'duckdb')}")
    connection.execute(f"set max_temp_directory_size = {quoted(_SPILLED)}")
    return connection


def connect_to_parquet(workspace: Workspace, *, targets: bool = False) -> duckdb.DuckDBPyConnection:
    """An in-memory database with views over the Parquet files and the macros of the project.

    They work before dbt was ever run, and while it runs.

    Args:
        targets: also create the views of target scores (`warehouse.sql.views`).

    Raises:
        TokenmartError: the memory limit is not a size.
        StorageError: a file of a table is damaged, foreign or in another's place.
    """
    connection = connect_in_memory(workspace)
    connection.execute("set parquet_metadata_cache = true")
    create_views(connection, workspace)
    if targets:
        create_target_views(connection, workspace)
    return connection


def lock(
    connection: duckdb.DuckDBPyConnection, workspace: Workspace, *, targets: bool = False
) -> None:
    """Open no file but those of the warehouse from now on, and let no setting change that.

    Args:
        targets: whether the folder of target scores is among them. Never for a metric or an idea.
    """
    tables = all_tables() if targets else metric_tables()
    read = [f"{workspace.store / table}/" for table in tables]
    # DuckDB asks for a pattern before it asks for the files that match
    folders = ", ".join(map(quoted, dict.fromkeys([*read, *map(glob.escape, read)])))
    files = ", ".join(quoted(f"{workspace.database}{end}") for end in ("", ".wal"))
    for name, value in {
        "allowed_directories": f"[{folders}]",
        "allowed_paths": f"[{files}]",
        "allowed_configs": f"[{', '.join(map(quoted, SETTINGS))}]",
        "enable_external_access": "false",
        "lock_configuration": "true",
    }.items():
        connection.execute(f"set global {name} = {value}")


def interruptible(connection: duckdb.DuckDBPyConnection, run: Callable[[], T]) -> T:
    """Run queries so that Ctrl-C ends them, and return what `run` returns.

    DuckDB checks for signals rarely, and not at all in some queries. Here the main thread waits for
    them, and another one runs the queries.

    Raises:
        KeyboardInterrupt: Ctrl-C, once the query has ended.
    """
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(run)
        try:
            return answer.result()
        except KeyboardInterrupt:
            connection.interrupt()
            raise


def attach_marts(connection: duckdb.DuckDBPyConnection, workspace: Workspace) -> None:
    """Make the tables dbt built usable by their plain names, read-only; none built: no change.

    Args:
        connection: one of `connect_to_parquet`; its own views come first.

    Raises:
        DatabaseBusyError: another program has the DuckDB file open for writing.
        StorageError: it can't be read.
    """
    path = workspace.database
    if not path.is_file():
        return
    with _opening(path):
        connection.execute(f"attach {quoted(path)} (read_only)")
    _search(connection, [("memory", "main"), *((_catalog(path), name) for name in _SCHEMAS)])


@contextmanager
def _opening(path: Path) -> Iterator[None]:
    """Name the file in DuckDB's error."""
    try:
        yield
    except duckdb.Error as error:
        message = first_line(error, 300)
        if "Could not set lock" in message:  # a path may have the word
            raise DatabaseBusyError(
                f"{path}: open in another program ({message})", where=path
            ) from error
        raise StorageError(
            f"{path}: can't be opened ({message}); delete it and run `tokenmart dbt build`",
            where=path,
        ) from error


def _search(connection: duckdb.DuckDBPyConnection, places: list[tuple[str, str]]) -> None:
    """Make names of these (catalog, schema) pairs usable unqualified, in this order."""
    known = connection.execute(
        "select catalog_name, schema_name from information_schema.schemata"
    ).fetchall()
    path = ",".join(quoted_name(*place) for place in places if place in known)
    connection.execute(f"set search_path = {quoted(path)}")


def _catalog(path: Path) -> str:
    """The name DuckDB and dbt give the database of a file."""
    return path.name.partition(".")[0]
