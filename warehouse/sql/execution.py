"""Ad-hoc SQL: run statements that only read, explain mistakes in one line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import duckdb

from warehouse.errors import StorageError, TokenmartError
from warehouse.sql.queries import Value
from warehouse.sql.read_only import SETTINGS, reading_statements
from warehouse.sql.views import damaged_file

if TYPE_CHECKING:
    import pyarrow as pa


def execute(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Mapping[str, Value]
) -> duckdb.DuckDBPyConnection:
    """Run statements; the connection then has the rows of the last one.

    Raises:
        TokenmartError: a mistake in the SQL, a parameter too many or too few, or a statement
            that would write.
        StorageError: a Parquet file is damaged.
    """
    try:
        for statement, own in _statements(connection, sql, parameters):
            connection.execute(statement, own)
    except duckdb.Error as error:
        raise explain(error, connection) from error
    return connection


def stream(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Mapping[str, Value]
) -> pa.RecordBatchReader | None:
    """Run statements; the rows of the last one as Arrow batches, computed as they are read.

    Returns:
        None when the last statement returns no rows. Until it is closed the connection is busy.

    Raises:
        TokenmartError, StorageError: see `execute`.
    """
    try:
        *earlier, (statement, own) = _statements(connection, sql, parameters)
        for step in earlier:
            connection.execute(*step)
        relation = connection.sql(statement, params=own)
        return None if relation is None else relation.to_arrow_reader()
    except duckdb.Error as error:
        raise explain(error, connection) from error


def _statements(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Mapping[str, Value]
) -> list[tuple[str, dict[str, Value] | None]]:
    """The statements with the parameters of each, once all are known to read only."""
    statements = reading_statements(connection, sql)
    wanted = [statement.named_parameters for statement in statements]
    _check_parameters(set().union(*wanted), parameters)
    return [
        (statement.query, {name: parameters[name] for name in names} or None)
        for statement, names in zip(statements, wanted, strict=True)
    ]


def _check_parameters(wanted: set[str], given: Mapping[str, Value]) -> None:
    if missing := sorted(wanted - set(given)):
        raise TokenmartError(f"--param {missing[0]}=…: the query needs a value for ${missing[0]}")
    if extra := sorted(set(given) - wanted):
        known = ", ".join(sorted(wanted)) or "none"
        raise TokenmartError(f"--param {extra[0]}: the query has no ${extra[0]}; it has: {known}")


def explain(
    error: duckdb.Error, connection: duckdb.DuckDBPyConnection | None = None
) -> TokenmartError:
    """DuckDB's message as one line with its candidates and the place, or the damaged file."""
    message, _, place = str(error).partition("\n\nLINE ")
    text = " ".join(message.split())
    if text.startswith("Out of Memory Error"):
        text = text.partition(" Possible solutions:")[0]
        text += "; give it more with --memory (in Python: limits=Limits(memory=…)), or ask for less"
    if "Cannot change configuration option" in text:
        text += f"; settings that may change: {', '.join(SETTINGS)}, variable"
    if connection and (elsewhere := _files_elsewhere(text, connection)):
        return StorageError(elsewhere)
    if damaged := damaged_file(error):
        return damaged
    if place:
        number, _, rest = place.partition(": ")
        source, _, caret = rest.partition("\n")
        column = caret.find("^") - len(f"LINE {number}: ")
        near = source[column : column + 30].split("\n")[0].strip() if column >= 0 else ""
        text += f" (line {number}" + (f", at `{near}`)" if near else ")")
    if "Table with name" in text and connection and not _has_marts(connection):
        text += "; metric tables appear after `tokenmart dbt build`"
    return TokenmartError(f"sql: {text}")


def _files_elsewhere(text: str, connection: duckdb.DuckDBPyConnection) -> str | None:
    """Remedy for a view of the database that reads files outside the warehouse."""
    named = re.match(r'Permission Error: Cannot access \w+ "(.+?)"', text)
    if named is None:
        return None
    found = connection.execute(
        "select path from duckdb_databases() as databases where path is not null and exists ("
        "select 1 from duckdb_views() as views where contains(views.sql, $file) "
        "and views.database_name = databases.database_name)",
        {"file": named[1].replace("'", "''")},
    ).fetchone()
    if found is None:
        return None
    return (
        f"{found[0]}: its views read {named[1]}, which is not in this warehouse: the checkout was "
        "moved, or TOKENMART_DATA was another when it was built; run `tokenmart dbt build`"
    )


def _has_marts(connection: duckdb.DuckDBPyConnection) -> bool:
    found = connection.execute("select count(*) from duckdb_databases() where not internal")
    row = found.fetchone()
    return row is not None and row[0] > 1
