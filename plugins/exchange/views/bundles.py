"""Views over attached exports: a schema for each, and `labs` with the rows of all labs."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from plugins.exchange.attached import attached
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.remote import let_duckdb_read
from warehouse.sql.views import (
    AddedViews,
    create_ledger_view,
    create_table_view,
    quoted,
    quoted_name,
)

if TYPE_CHECKING:
    from plugins.exchange.bundle import Manifest


class AttachedBundles(AddedViews):
    """Tables of each attached export, and the schema `labs`."""

    kind = "bundles"

    def create(self, connection: duckdb.DuckDBPyConnection, workspace: Workspace) -> list[str]:
        """Create views over the files of attached exports.

        A missing or changed export is left out; the other tables can be queried.
        """
        bundles = attached(workspace)
        if not bundles:
            return []
        from plugins.exchange.bundle import SHARED, place_of, unchanged

        warnings, names = [], []
        for bundle in bundles:
            try:
                _create(connection, bundle.name, place_of(bundle.address), unchanged(bundle))
            except (TokenmartError, duckdb.Error) as error:
                text = " ".join(str(getattr(error, "message", error)).split())
                warnings.append(f"{bundle.name}: left out, {text}")
                connection.execute(f"drop schema if exists {quoted_name(bundle.name)} cascade")
            else:
                names.append(bundle.name)
        if names:
            connection.execute("create schema if not exists labs")
            for table in (*SHARED, "units"):
                parts = [f"select 'own' as lab, * from main.{table}"]
                parts += [
                    f"select {quoted(name)} as lab, * from {quoted_name(name, table)}"
                    for name in names
                ]
                query = " union all by name ".join(parts)
                connection.execute(f"create or replace view labs.{table} as {query}")
        return warnings

    def folders(self, workspace: Workspace) -> list[str]:
        """Folders of the attached exports."""
        # as recorded: absolute, without a slash at the end
        return [f"{bundle.address}/" for bundle in attached(workspace)]


def _create(
    connection: duckdb.DuckDBPyConnection, name: str, top: Path, manifest: Manifest
) -> None:
    from plugins.exchange.bundle import SHARED, VALUES

    let_duckdb_read(connection, top)
    connection.execute(f"create schema if not exists {quoted_name(name)}")
    for table in SHARED:
        files = [glob.escape(str(top / path)) for path in manifest.files_of(table)]
        create_table_view(connection, name, table, files)
        if table == "tokens":
            create_ledger_view(connection, name, "units", files)
    for table in VALUES:
        path = f"metrics/{table}.parquet"
        if any(file.path == path for file in manifest.files):
            connection.execute(
                f"create view {quoted_name(name, table)} as "
                f"from read_parquet({quoted(glob.escape(str(top / path)))}, "
                "hive_partitioning = false)"
            )
