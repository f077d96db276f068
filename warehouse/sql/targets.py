"""Target scores, which only the statistics read.

They lie in a folder of their own (`downstream/`), and no connection of metrics has it: those of
dbt, `tokenmart sql` and `correlate --sql` may open the other folders of the store and nothing
else (`warehouse.sql.connection.lock`). The scores are computed from the files whenever they are
needed, so no built database has one.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from warehouse.paths import Workspace
from warehouse.sql.views import create_table_view
from warehouse.store.schema import all_tables
from warehouse.store.stored_files import table_source

_SQL = Path(__file__).with_suffix(".sql")


def connect_to_targets(workspace: Workspace) -> duckdb.DuckDBPyConnection:
    """A connection with the target scores and nothing else.

    Views: `downstream` (items), `recall_items`, `downstream_scores` and `downstream_depths`.

    Raises:
        StorageError: no file of a table can be read.
    """
    connection = duckdb.connect(":memory:")
    create_target_views(connection, workspace)
    return connection


def create_target_views(connection: duckdb.DuckDBPyConnection, workspace: Workspace) -> None:
    """Create the views of `connect_to_targets` in the schema `main`.

    Raises:
        StorageError: no file of a table can be read.
    """
    for name, table in all_tables().items():
        if table.is_target or name == "recall_items":
            create_table_view(connection, "main", name, table_source(workspace, name))
    connection.execute(_SQL.read_text(encoding="utf-8"))
