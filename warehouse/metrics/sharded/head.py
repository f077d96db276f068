"""What is built once: before the shards what they share, after them the marts."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

from warehouse.files import appearing
from warehouse.metrics.lineage import ancestors
from warehouse.metrics.sharded.build import EXCHANGED, RESULT_TABLES, result_file
from warehouse.metrics.sharded.plan import Model
from warehouse.sql.views import quoted, quoted_file

TOKEN_SOURCES = ("tokens", "top_tokens", "eval_tokens")


def left_to_shards(manifest: Mapping[str, Any]) -> list[str]:
    """Names of the models that only shards build: those between the tokens and what they hand on.

    Args:
        manifest: dbt's, of the whole project.
    """
    models = {i: node for i, node in manifest["nodes"].items() if node["resource_type"] == "model"}
    parents = manifest["parent_map"]
    names = {node["name"]: i for i, node in models.items()}
    handed_on = {names[table] for table in RESULT_TABLES}
    above = {i: ancestors(parents, i) for i in models}
    sources = {i for i in manifest["sources"] if i.split(".")[-1] in TOKEN_SOURCES}
    here = {i for i in models if above[i] & handed_on or not above[i] & sources}
    cut = {i: [p for p in parents.get(i, ()) if p not in handed_on] for i in parents}
    here |= {parent for i in set(here) for parent in ancestors(cut, i)}
    here |= {i for i in models if "staging" in models[i]["fqn"]}
    return sorted(models[i]["name"] for i in models.keys() - here - handed_on)


def write_text_ends(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Write the table that all shards are given, in an order of its own: the same is the same."""
    with appearing(path) as draft:
        connection.execute(
            f"copy (from intermediate.{EXCHANGED} order by all) to {quoted(draft)} (format parquet)"
        )


def take_results(
    database: Path, folders: Sequence[Path], leave_out: Collection[str], broken: Collection[str]
) -> None:
    """Make the tables that shards hand on from their files, and drop what only shards hold.

    What an earlier build of the whole store left of the latter would answer questions with old
    numbers.

    Args:
        database: where the marts are built.
        folders: of the shards that are built.
        leave_out: from `left_to_shards`.
        broken: families that failed in a shard: in none they count.
    """
    with duckdb.connect(str(database)) as connection:
        connection.execute("begin")
        kinds = connection.execute(
            "select schema_name, table_name, 'table' from duckdb_tables() union all "
            "select schema_name, view_name, 'view' from duckdb_views() where not internal"
        ).fetchall()
        for schema, name, kind in kinds:
            if name in leave_out:
                connection.execute(f'drop {kind} "{schema}"."{name}"')
        for table in RESULT_TABLES:
            files = ", ".join(quoted_file(result_file(folder, table)) for folder in folders)
            connection.execute(
                f"create or replace table main.{table} as "
                f"from read_parquet([{files}], hive_partitioning = false)"
            )
        for metric in broken:
            connection.execute("delete from main.metric_documents where metric = ?", [metric])
        connection.execute("commit")


def name_failures(database: Path, failed: Mapping[Model, str]) -> None:
    """Say beside each value that a failed shard owes why it isn't there."""
    with duckdb.connect(str(database)) as connection:
        for (problem, model_id), reason in failed.items():
            connection.execute(
                "update main.metric_values set reason = ? "
                "where problem = ? and model_id = ? and value is null",
                [reason, problem, model_id],
            )


def read_manifest(path: Path) -> dict[str, Any]:
    """dbt's graph of its last run.

    Raises:
        OSError: it isn't there.
    """
    return dict(json.loads(path.read_bytes()))
