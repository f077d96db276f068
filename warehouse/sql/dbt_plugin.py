"""What dbt-duckdb loads at each connect (profiles.yml): the workspace, and the public views."""

from __future__ import annotations

from typing import Any

import duckdb
from dbt.adapters.duckdb.credentials import DuckDBCredentials
from dbt.adapters.duckdb.plugins import BasePlugin
from dbt_common.exceptions import DbtRuntimeError

from warehouse.errors import TokenmartError
from warehouse.paths import find_workspace
from warehouse.sql.variant_files import refuse_uneven_rows
from warehouse.sql.views import create_views, quoted, refuse_earlier_database


class Plugin(BasePlugin):
    """Gives dbt the files that every other command uses, wherever it was started.

    The sources in the schema `main` are views that exist before any model is built.
    """

    def update_connection_config(self, creds: DuckDBCredentials, config: dict[str, Any]) -> None:
        """Open the workspace's database: a path in the profile would depend on the folder."""
        creds.path = str(find_workspace().database)

    def configure_connection(self, conn: duckdb.DuckDBPyConnection) -> None:
        """Create the public views and macros.

        Raises:
            DbtRuntimeError: data, database or a variants file can't be used; the message says
                what to do.
        """
        workspace = find_workspace()
        try:
            refuse_uneven_rows(workspace)
            refuse_earlier_database(conn, workspace.database)
            create_views(conn, workspace.data)
        except TokenmartError as error:
            raise DbtRuntimeError(error.format_message()) from error

    def configure_cursor(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Let `variants/*.csv` be found from any folder."""
        cursor.execute(f"set file_search_path = {quoted(find_workspace().dbt_project)}")
