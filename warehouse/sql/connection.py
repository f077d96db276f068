"""DuckDB connections: the marts read-only, and the Parquet files in place for ad-hoc SQL.

A locked connection opens no file outside the Parquet folders and the marts, which are attached
read-only, loads no extension and keeps its configuration. Where DuckDB may read a file it may also
write one: `warehouse.sql.session` refuses the statements that do.
"""

from __future__ import annotations

import glob
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from warehouse.errors import StorageError, TokenmartError
from warehouse.paths import Workspace
from warehouse.sql.targets import create_target_views
from warehouse.sql.views import create_views, metric_tables, quoted, quoted_name
from warehouse.store.schema import all_tables

PATIENCE_SECONDS = 3.0
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
_NO_LOCKS = re.compile(
    r"Could not set lock on file .*: (Operation not supported|No locks available"
    r"|Function not implemented)"
)
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
    connection = _patiently(path, lambda: duckdb.connect(str(path), read_only=True))
    _search(connection, [(_catalog(path), schema) for schema in _SCHEMAS])
    return connection


def connect_for_queries(workspace: Workspace) -> duckdb.DuckDBPyConnection:
    """`connect_to_parquet`, then `attach_marts`."""
    connection = connect_to_parquet(workspace)
    attach_marts(connection, workspace)
    return connection


def connect_to_parquet(
    workspace: Workspace, memory: str | None = None, *, targets: bool = False
) -> duckdb.DuckDBPyConnection:
    """An in-memory database with views over the Parquet files and the macros of the project.

    They work before dbt was ever run, and while it runs.

    Args:
        memory: DuckDB's memory limit, such as `4GiB`; None for its own default.
        targets: also create the views of target scores (`warehouse.sql.targets`).

    Raises:
        TokenmartError: the memory limit is not a size.
        StorageError: a file of a table is damaged, foreign or in another's place.
    """
    config: dict[str, Any] = dict(_LOCKED_FROM_THE_START)
    if memory is not None:
        config["memory_limit"] = memory
    try:
        connection = duckdb.connect(":memory:", config=config)
    except duckdb.Error as error:
        raise TokenmartError(
            f"--memory {memory}: not a size; give one such as 4GiB or 800MiB"
        ) from error
    # days and hours are the same wherever a question is asked
    connection.execute("set global TimeZone = 'UTC'")
    connection.execute(f"set temp_directory = {quoted(workspace.cache / 'duckdb')}")
    connection.execute(f"set max_temp_directory_size = {quoted(_SPILLED)}")
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


def attach_marts(
    connection: duckdb.DuckDBPyConnection, workspace: Workspace, patience: float | None = None
) -> None:
    """Make the tables dbt built usable by their plain names, read-only; none built: no change.

    Args:
        connection: one of `connect_to_parquet`; its own views come first.
        patience: seconds to wait for a writer; None for `PATIENCE_SECONDS`.

    Raises:
        DatabaseBusyError: another program has the DuckDB file open for writing.
        StorageError: it can't be read.
    """
    path = workspace.database
    if not path.is_file():
        return
    attach = f"attach {quoted(path)} (read_only)"
    _patiently(path, lambda: connection.execute(attach), patience)
    _search(connection, [("memory", "main"), *((_catalog(path), name) for name in _SCHEMAS)])


def detach_marts(connection: duckdb.DuckDBPyConnection, workspace: Workspace) -> None:
    """Let go of the DuckDB file: while it is attached, dbt can't write it."""
    _search(connection, [("memory", "main")])
    catalogue = quoted_name(_catalog(workspace.database))
    connection.execute(f"detach database if exists {catalogue}")


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
            if (unlockable := no_locks(path, error)) is not None:
                raise StorageError(unlockable) from error
            if "lock" not in message:
                raise StorageError(
                    f"{path}: can't be opened ({message}); delete it and run `tokenmart dbt build`"
                ) from error
            if time.monotonic() > deadline:
                raise DatabaseBusyError(
                    f"{path}: another program writes it ({message})", where=path
                ) from error
        time.sleep(0.2)


def no_locks(path: Path, error: duckdb.Error) -> str | None:
    """What to do where a file system has no locks, by DuckDB's error; None for another error."""
    found = _NO_LOCKS.search(str(error))
    if found is None:
        return None
    return (
        f"{path}: its file system can't lock files ({found[1].lower()}); set TOKENMART_DATABASE to "
        "a file on a local disk"
    )


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
