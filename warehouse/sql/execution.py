"""Ad-hoc SQL: run statements that only read, explain mistakes in one line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import duckdb

from warehouse.errors import TokenmartError
from warehouse.sql.queries import Value
from warehouse.sql.views import damaged_file

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
            own = {name: parameters[name] for name in statement.named_parameters}
            _interruptible(connection, statement, own or None)
    except duckdb.Error as error:
        raise explain(error, connection) from error
    return connection


def _interruptible(
    connection: duckdb.DuckDBPyConnection,
    statement: duckdb.Statement,
    parameters: dict[str, Value] | None,
) -> None:
    """Execute in a thread: DuckDB doesn't look at signals, Ctrl-C would wait for its end."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        running = pool.submit(connection.execute, statement, parameters)
        try:
            running.result()
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


def explain(error: duckdb.Error, connection: duckdb.DuckDBPyConnection) -> TokenmartError:
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
    if "Table with name" in text and not _has_marts(connection):
        text += "; metric tables appear after `tokenmart dbt build`"
    return TokenmartError(f"sql: {text}")


def _has_marts(connection: duckdb.DuckDBPyConnection) -> bool:
    found = connection.execute("select count(*) from duckdb_databases() where not internal")
    row = found.fetchone()
    return row is not None and row[0] > 1
