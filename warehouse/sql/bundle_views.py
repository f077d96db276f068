"""Tables of attached bundles: a schema for each, and `labs` with everyone's rows together."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.remote import let_duckdb_read
from warehouse.sql.views import (
    create_ledger_view,
    create_table_view,
    quoted,
    quoted_file,
    quoted_name,
)
from warehouse.store.attached import Attached, attached

if TYPE_CHECKING:
    from warehouse.store.bundle import Manifest


def create_bundle_views(connection: duckdb.DuckDBPyConnection, workspace: Workspace) -> list[str]:
    """Create views over the attached bundles' files.

    A bundle that is gone or has changed is left out, and all else can be asked.

    Args:
        connection: has the public views.
        workspace: whose bundles.

    Returns:
        What was left out, in a line each.
    """
    bundles = attached(workspace)
    if not bundles:
        return []
    from warehouse.store.bundle import SHARED, place_of

    warnings, names = [], []
    for bundle in bundles:
        try:
            manifest = unchanged(bundle)
            _create(connection, bundle.name, place_of(bundle.address), manifest)
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
                f"select {quoted(name)} as lab, * from {quoted_name(name, table)}" for name in names
            ]
            query = " union all by name ".join(parts)
            connection.execute(f"create or replace view labs.{table} as {query}")
    return warnings


def bundle_folders(workspace: Workspace) -> list[str]:
    """Files of attached bundles that queries may read."""
    # as they were written down: absolute, without a slash at the end
    return [f"{bundle.address}/" for bundle in attached(workspace)]


def unchanged(bundle: Attached) -> Manifest:
    """The manifest of an attached bundle.

    Raises:
        TokenmartError: it is gone, or is another than the one that was checked.
        StorageError: a bucket can't be read.
    """
    from warehouse.store.bundle import read_manifest

    manifest, sha256 = read_manifest(bundle.address)
    if sha256 != bundle.sha256:
        raise TokenmartError(
            f"{bundle.address}: has changed since it was attached; run `tokenmart exchange attach "
            f"{bundle.address} --name {bundle.name}` to check it again"
        )
    return manifest


def _create(
    connection: duckdb.DuckDBPyConnection, name: str, top: Path, manifest: Manifest
) -> None:
    from warehouse.store.bundle import SHARED, VALUES

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
                f"from read_parquet({quoted_file(top / path)}, hive_partitioning = false)"
            )
