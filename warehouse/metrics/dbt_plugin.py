"""Plugin that dbt-duckdb loads (profiles.yml): the workspace and the public views."""

from __future__ import annotations

from typing import Any

import click
import duckdb
from dbt.adapters.duckdb.credentials import DuckDBCredentials
from dbt.adapters.duckdb.plugins import BasePlugin
from dbt_common.exceptions import DbtRuntimeError

from warehouse.errors import StorageError, TokenmartError, first_line, visible
from warehouse.paths import Workspace, find_workspace, problem_argument
from warehouse.sql.connection import lock
from warehouse.sql.problem_state import write_states
from warehouse.sql.views import create_views
from warehouse.store.stored_files import file_stamps, refuse_changes
from warehouse.store.token_files import publish_all

STORAGE_VERSION = "v1.4.0"
"""The oldest DuckDB that can open the database: the one on a colleague's machine may be older."""


class Plugin(BasePlugin):
    """Opens the workspace's files for dbt, from any folder and also in a plain `dbt run`.

    The sources in the schema `main` are views that exist before any model is built.
    """

    def update_connection_config(self, creds: DuckDBCredentials, config: dict[str, Any]) -> None:
        """Open the workspace's database.

        A path in the profile would depend on the folder. A new file has a storage format that
        DuckDB reads from `STORAGE_VERSION` on; of one that can't be written nothing is left.

        Raises:
            DbtRuntimeError: another program has the file open, it is none of DuckDB's, or the disk
                is full (dbt's own error is a traceback for each model).
        """
        workspace = find_workspace()
        path = workspace.database
        creds.path = str(path)
        config["storage_compatibility_version"] = STORAGE_VERSION
        is_new = not path.is_file()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            duckdb.connect(creds.path, config=config).close()
        except (duckdb.Error, OSError) as error:
            if is_new:
                path.unlink(missing_ok=True)
            raise DbtRuntimeError(f"{path}: {first_line(error, 300)}") from error

    def configure_connection(self, conn: duckdb.DuckDBPyConnection) -> None:
        """Create the public views and macros, then lock: no model reads another file.

        So target scores are out of reach of every model, hook and `run_query`.

        Raises:
            DbtRuntimeError: data or database can't be used; the message states what to do.
        """
        workspace = find_workspace()
        try:
            _publish_finished(workspace)
            _refuse_missing_data(conn, workspace)
            _refresh_needed(workspace)
            create_views(conn, workspace)
            write_states(conn, workspace)
            conn.execute("set global parquet_metadata_cache = true")
            _add_check(conn, workspace)
            lock(conn, workspace)
        except (TokenmartError, duckdb.Error, OSError) as error:
            conn.close()  # dbt tries again: with this one open, DuckDB would complain of that alone
            raise DbtRuntimeError(first_line(error, 1000)) from error


def _add_check(conn: duckdb.DuckDBPyConnection, workspace: Workspace) -> None:
    """Create the SQL function that `record_build` calls at the end of a run."""
    before = file_stamps(workspace)

    def refuse_changed_files() -> bool:
        refuse_changes(workspace, before)
        return True

    conn.create_function("refuse_changed_files", refuse_changed_files, side_effects=True)


def _publish_finished(workspace: Workspace) -> None:
    """Publish units of runs that were killed, or go on: metrics read published files only."""
    for store in workspace.token_stores:
        try:
            publish_all(store)
        except StorageError as error:  # another's folder: what is published can be read
            click.echo(visible(f"warning: {error.format_message()}"), err=True)


def _refresh_needed(workspace: Workspace) -> None:
    """Write what the problem files ask for now, of problems that have stored units.

    A file that can't be read leaves what was written before, with a warning.
    """
    from warehouse.problem.needed import store_needed
    from warehouse.problem.spec import load_problem

    names = {path.name.partition("=")[2] for path in workspace.tokens.glob("problem=*")}
    for name in sorted(names):
        argument = problem_argument(name, workspace)
        if argument is None:
            continue
        try:
            store_needed(load_problem(argument, workspace), workspace)
        except TokenmartError as error:
            click.echo(visible(f"warning: {error.format_message()}"), err=True)


def _refuse_missing_data(conn: duckdb.DuckDBPyConnection, workspace: Workspace) -> None:
    """Stop before good marts are replaced by empty ones, as when a disk isn't mounted."""
    if next(workspace.tokens.glob("**/*.parquet"), None) is not None:
        return
    try:
        query = "select count(*) from main.metric_values where tokens > 0"
        ((values,),) = conn.execute(query).fetchall()
    except duckdb.Error:  # never built
        return
    if values:
        raise TokenmartError(
            f"{workspace.tokens}: no token files, but {workspace.database} has {values} metric "
            "values made from some; mount the disk or set TOKENMART_DATA to the folder that has "
            "them, or delete the database to start again"
        )
