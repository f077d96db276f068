"""The public views and macros, the same for `tokenmart sql` and in the database that dbt builds.

They read the Parquet files in place; columns, types and order are those of
`warehouse.store.schema`.

Target scores, which only the statistics read, lie in a folder of their own (`downstream/`), and no
connection of metrics has it: those of dbt, `tokenmart sql` and `correlate --sql` may open the other
folders of the store and nothing else (`warehouse.sql.connection.lock`). The scores are computed
from the files whenever they are needed, so no built database has one.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

from warehouse.paths import Workspace
from warehouse.plugins import folders
from warehouse.probes.probe import CONTEXTS
from warehouse.problem.unit_states import UNIT_STATUS
from warehouse.store.ledger import UNITS
from warehouse.store.schema import TOKENS, UNITS_KEY, Table, all_tables
from warehouse.store.stored_files import refuse_faults, table_source

_TARGETS = (Path(__file__).parent / "targets.sql").read_text(encoding="utf-8")
TOKEN_RULES = (Path(__file__).parent / "token_rules.sql").read_text(encoding="utf-8")
"""Macros with the rules that every scored token keeps."""
_SQL_TYPES = {
    pa.string(): "VARCHAR",
    pa.bool_(): "BOOLEAN",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.timestamp("us", "UTC"): "TIMESTAMP WITH TIME ZONE",
    pa.list_(pa.string()): "VARCHAR[]",
}
"""DuckDB's own reading of the types; asking it (`from_arrow`) would load pandas."""


VIEWS = (Path(__file__).parent / "views.sql").read_text(encoding="utf-8")

_OF_UNITS = ("tokens", "top_tokens", "divergences")
"""Tables whose rows are those of the core's units."""

_NOT_OUTDATED = """
    where (problem, model_id, condition, doc_id) not in (
        select (problem, model_id, condition, doc_id) from main.units where status = 'outdated'
    )
"""


def metric_tables() -> dict[str, Table]:
    """The tables that a metric may read: all but those with target scores."""
    return {name: table for name, table in all_tables().items() if not table.is_target}


def create_views(connection: duckdb.DuckDBPyConnection, workspace: Workspace) -> None:
    """Create or replace the public views and the macros in the schema `main`.

    Tables without files are empty, with the same columns. Rows of outdated units are left out:
    their characters are those of another text than the one in `documents`.

    Raises:
        StorageError: a file of a table is damaged, foreign or in another's place.
    """
    refuse_faults(workspace)
    sources = {name: table_source(workspace, name) for name in metric_tables()}
    for name, files in sources.items():
        create_table_view(connection, "main", name, files)
    for name, table in metric_tables().items():
        if table.ledger:
            ledger = "ledger" if table.ledger == "units" else table.ledger
            create_ledger_view(connection, "main", ledger, sources[name])
    connection.execute(f"create or replace view main.unit_status as {UNIT_STATUS}")
    connection.execute(VIEWS)
    # only where there are some: a filter reads the ledger in each query
    if connection.execute("select 1 from main.units where status = 'outdated' limit 1").fetchone():
        for name in _OF_UNITS:
            create_table_view(connection, "main", name, sources[name], _NOT_OUTDATED)
    connection.execute(f"create or replace view main.contexts as {CONTEXTS}")
    connection.execute(TOKEN_RULES)
    for top in (Path(__file__).parent, *folders()):
        if (macros := top / "macros.sql").is_file():
            connection.execute(macros.read_text(encoding="utf-8"))


def create_table_view(
    connection: duckdb.DuckDBPyConnection, place: str, name: str, files: list[str], where: str = ""
) -> None:
    """Create or replace one table's view.

    Args:
        name: one of `all_tables()`.
        files: patterns of where its rows are, from `table_source`; without any it is empty, with
            the same columns.
        where: clause on its rows.
    """
    table = all_tables()[name]
    schema, keys = table.schema, table.keys
    columns = {**dict.fromkeys(keys, "VARCHAR"), **_sql_types(schema)}
    casts = [f'cast("{column}" as {kind}) as "{column}"' for column, kind in columns.items()]
    if schema is TOKENS:
        casts.append(f"cast(-logprob as {columns['logprob']}) as nll")
    view = f"create or replace view {quoted_name(place, name)} as select {', '.join(casts)} from"
    if files:
        optional = {field.name: columns[field.name] for field in schema if field.nullable}
        _create_over_files(connection, view, files, keys, optional, where)
    else:
        nothing = ", ".join(f'null as "{column}"' for column in columns)
        connection.execute(f"{view} (select {nothing}) where false")


def quoted(value: object) -> str:
    """A text or path as an SQL literal."""
    return "'" + str(value).replace("'", "''") + "'"


def quoted_name(*parts: str) -> str:
    """A column, table, schema or catalogue as an SQL identifier, whatever it is called.

    Args:
        *parts: `schema, table` gives `"schema"."table"`.
    """
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def _create_over_files(
    connection: duckdb.DuckDBPyConnection,
    view: str,
    files: list[str],
    keys: tuple[str, ...],
    optional: dict[str, str],
    where: str,
) -> None:
    types = ", ".join(f"{key}: varchar" for key in keys)
    # By name: a column may have another place in some files. It also makes DuckDB read every footer
    # and therefore has the number of rows; else it plans by the first file, often a small one.
    rows = (
        f"read_parquet({_files(files)}, hive_partitioning = true, hive_types = {{{types}}}, "
        "union_by_name = true)"
    )
    if optional:  # a file may lack a nullable column
        nothing = ", ".join(f'null::{kind} as "{name}"' for name, kind in optional.items())
        rows = f"(from {rows} union all by name (select {nothing} where false))"
    connection.execute(f"{view} {rows} {where}")


def create_ledger_view(
    connection: duckdb.DuckDBPyConnection, place: str, ledger: str, counted: list[str]
) -> None:
    """The ledger as a view, from the footers; what units have in common is stored there once."""
    types = _sql_types(UNITS)
    record = ", ".join(f'"{name}": "{kind}"' for name, kind in types.items())
    columns = ", ".join(f'coalesce(own."{name}", common."{name}") as "{name}"' for name in types)
    footers = "(select ''::blob as key, ''::blob as value)"
    if counted:
        footers = f"parquet_kv_metadata({_files(counted)})"
    # materialized: else what a file's units have in common is parsed again for each of them
    connection.execute(
        f"create or replace view {quoted_name(place, ledger)} as with ledgers as ("
        f"select decode(value)::json as ledger from {footers} "
        f"where decode(key) = '{UNITS_KEY.decode()}'), parsed as materialized ("
        f"select from_json(ledger -> '$.common', '{{{record}}}') as common, "
        f"from_json(ledger -> '$.units', '[{{{record}}}]') as units from ledgers), "
        "records as (select common, unnest(units) as own from parsed) "
        f"select {columns} from records"
    )


def _sql_types(schema: pa.Schema) -> dict[str, str]:
    return {field.name: _SQL_TYPES[field.type] for field in schema}


def _files(counted: list[str]) -> str:
    return f"[{', '.join(map(quoted, counted))}]"


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
    connection.execute(_TARGETS)
