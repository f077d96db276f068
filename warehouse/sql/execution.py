"""Ad-hoc SQL: run statements that only read, explain mistakes in one line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import duckdb

from warehouse.errors import TokenmartError
from warehouse.sql.queries import Value
from warehouse.sql.views import damaged_file

if TYPE_CHECKING:
    import pyarrow as pa

_Result = TypeVar("_Result")
_READING = {"SELECT", "EXPLAIN", "PRAGMA", "SET", "CALL", "CREATE", "MULTI"}
_EXPLAIN = re.compile(
    r"(?:\s|--.*?\n|/\*.*?\*/)*explain\b(?:\s*\([^)]*\)|\s+analyze\b)?",
    re.IGNORECASE | re.DOTALL,
)


def execute(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Mapping[str, Value]
) -> duckdb.DuckDBPyConnection:
    """Run statements; the connection then holds the rows of the last one.

    Raises:
        TokenmartError: a mistake in the SQL, a parameter too many or too few, or a statement
            that would write.
        StorageError: a Parquet file is damaged.
    """
    try:
        for statement, own in _readers(connection, sql, parameters):
            _interruptible(connection, connection.execute, statement, own)
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
        *earlier, (statement, own) = _readers(connection, sql, parameters)
        for step in earlier:
            _interruptible(connection, connection.execute, *step)

        def batches() -> pa.RecordBatchReader | None:
            relation = connection.sql(statement.query, params=own)
            return None if relation is None else relation.to_arrow_reader()

        return _interruptible(connection, batches)
    except duckdb.Error as error:
        raise explain(error, connection) from error


def _readers(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Mapping[str, Value]
) -> list[tuple[duckdb.Statement, dict[str, Value] | None]]:
    """The statements with the parameters of each, once all are known to read only."""
    statements = connection.extract_statements(sql)
    if not statements:
        raise TokenmartError("sql: no statement given; try `tokenmart sql 'from models'`")
    wanted = {name for statement in statements for name in statement.named_parameters}
    _check_parameters(wanted, parameters)
    for statement in statements:
        kind = _kind(connection, statement)
        if kind not in _READING:
            raise TokenmartError(
                f"sql: {kind} is not allowed, the warehouse is read-only here; "
                "save the rows of a select with --out FILE (in the shell: .save FILE)"
            )
    return [
        (statement, {name: parameters[name] for name in statement.named_parameters} or None)
        for statement in statements
    ]


def _interruptible(
    connection: duckdb.DuckDBPyConnection, call: Callable[..., _Result], *arguments: object
) -> _Result:
    """Call in a thread: DuckDB doesn't look at signals, Ctrl-C would wait for its end."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        running = pool.submit(call, *arguments)
        try:
            return running.result()
        except KeyboardInterrupt:
            connection.interrupt()
            raise


def _kind(connection: duckdb.DuckDBPyConnection, statement: duckdb.Statement) -> str:
    """What a statement does; `explain analyze` does what it explains."""
    kind = statement.type.name
    if kind == "EXPLAIN" and (explained := _EXPLAIN.match(statement.query)):
        inner = connection.extract_statements(statement.query[explained.end() :])
        return _kind(connection, inner[0]) if inner else kind
    return str(kind)


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


def _has_marts(connection: duckdb.DuckDBPyConnection) -> bool:
    found = connection.execute("select count(*) from duckdb_databases() where not internal")
    row = found.fetchone()
    return row is not None and row[0] > 1
