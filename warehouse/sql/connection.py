"""DuckDB connections: the marts read-only, and the Parquet files in place for ad-hoc SQL."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import click
import duckdb

from warehouse.errors import StorageError, visible
from warehouse.paths import Workspace
from warehouse.remote import let_duckdb_read
from warehouse.sql.bundle_views import create_bundle_views
from warehouse.sql.read_only import open_database
from warehouse.sql.views import (
    PUBLIC_VIEWS,
    create_views,
    quoted,
    quoted_name,
    refuse_earlier_database,
)

PATIENCE_SECONDS = 3.0
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
    let_duckdb_read(connection, workspace.store)
    refuse_earlier_database(connection, path)
    _search(connection, [(_catalog(path), schema) for schema in _SCHEMAS])
    return connection


def connect_for_queries(workspace: Workspace) -> duckdb.DuckDBPyConnection:
    """`connect_to_parquet`, with the marts attached read-only if there are any.

    Raises:
        StorageError: another program has the DuckDB file open for writing, or it can't be
            read.
    """
    connection = connect_to_parquet(workspace)
    attach_marts(connection, workspace)
    return connection


def connect_to_parquet(
    workspace: Workspace, memory: str | None = None
) -> duckdb.DuckDBPyConnection:
    """An in-memory database with views over the Parquet files and the macros of the project.

    The views `tokens`, `documents`, `models`, `downstream` and `units` (the ledger) and macros
    such as `ppl` work before dbt was ever run, and while it runs. Files that aren't counted, and
    damaged ones, are named on standard error.

    Args:
        workspace: where the files are.
        memory: DuckDB's memory limit, such as `4GiB`; None for its own default.

    Raises:
        TokenmartError: the memory limit is not a size.
        StorageError: another version of Tokenmart wrote the files, or none can be read.
    """
    connection = open_database(memory)
    connection.execute(f"set temp_directory = {quoted(workspace.cache / 'duckdb')}")
    connection.execute("set parquet_metadata_cache = true")
    for stranger in create_views(connection, workspace.store):
        click.echo(visible(f"warning: {stranger}"), err=True)
    for warning in create_bundle_views(connection, workspace):
        click.echo(visible(f"warning: {warning}"), err=True)
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
        StorageError: another program has the DuckDB file open for writing, or it can't be
            read.
    """
    path = workspace.database
    if not path.is_file():
        return
    attach = f"attach {quoted(path)} (read_only)"
    _patiently(path, lambda: connection.execute(attach), patience)
    refuse_earlier_database(connection, path)
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
            if "lock" not in message:
                raise StorageError(
                    f"{path}: can't be opened ({message}); delete it and run `tokenmart dbt build`"
                ) from error
            if time.monotonic() > deadline:
                raise DatabaseBusyError(
                    f"{path}: open for writing in {holder(error)}; try again when it is closed "
                    f"there (until then: {', '.join(PUBLIC_VIEWS)})"
                ) from error
        time.sleep(0.2)


def holder(error: duckdb.Error) -> str:
    """The program that DuckDB's error about a lock names: `dbt (PID 1234)`."""
    named = re.search(r"held in (.+?) \(PID (\d+)\)", str(error))
    if named is None:
        return "another program"
    import psutil

    program, pid = Path(named[1]).name, int(named[2])
    with suppress(psutil.Error):
        # `dbt build`, `python -m dbt.cli.main build`, `tokenmart dbt build`
        if any(re.match(r"dbt(\.|$)", Path(part).name) for part in psutil.Process(pid).cmdline()):
            program = "dbt"
    return f"{program} (PID {pid})"


def _search(connection: duckdb.DuckDBPyConnection, places: list[tuple[str, str]]) -> None:
    """Make names of these (catalog, schema) pairs usable unqualified, in this order."""
    known = set(
        connection.execute(
            "select catalog_name, schema_name from information_schema.schemata"
        ).fetchall()
    )
    path = ",".join(quoted_name(*place) for place in places if place in known)
    connection.execute(f"set search_path = {quoted(path)}")


def _catalog(path: Path) -> str:
    """The name DuckDB and dbt give the database of a file."""
    return path.name.partition(".")[0]
