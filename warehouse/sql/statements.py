"""Ad-hoc SQL: run statements that only read, explain mistakes in one line.

The database is locked (`connection.lock`). Where DuckDB may read a file it may also write one, so
only statements of a kind that writes no file are run, without COPY inside and without functions
that run SQL from a text or start a log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

import duckdb

from warehouse.errors import StorageError, TokenmartError
from warehouse.sql.connection import SETTINGS
from warehouse.sql.views import damaged_file

if TYPE_CHECKING:
    import pyarrow as pa

Value = int | float | str | None
"""Value of a parameter, `$name` in the SQL."""

LONGEST_TEXT = 100_000
"""Characters. DuckDB's planner doesn't hear interrupts; its time grows with the square of this."""

# MULTI: a PIVOT. CREATE: in memory, as the marts are attached read-only.
_KINDS = {"SELECT", "MULTI", "EXPLAIN", "SET", "VARIABLE_SET", "CREATE"}
# They run SQL from a text, or (logs in DuckDB 1.5, whatever is locked) write a file.
_FUNCTIONS = re.compile(
    r"query|json_execute_serialized_sql|\w+_external_resource(_type)?|(en|dis)able_\w+"
)
_WORD = re.compile(rb'"?\w+|.', re.DOTALL)
_ONLY_READS = (
    "the warehouse is read-only here; save the rows of a select with --out FILE "
    "(in the shell: .save FILE)"
)


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
        for statement, own in _with_parameters(connection, sql, parameters):
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
        *earlier, (statement, own) = _with_parameters(connection, sql, parameters)
        for step in earlier:
            connection.execute(*step)
            # DuckDB 2 begins nothing else while a result is unread; before, there is no such method
            getattr(connection, "complete", lambda: None)()
        relation = connection.sql(statement, params=own)
        return None if relation is None else relation.to_arrow_reader()
    except duckdb.Error as error:
        raise explain(error, connection) from error


def _with_parameters(
    connection: duckdb.DuckDBPyConnection, sql: str, given: Mapping[str, Value]
) -> list[tuple[str, dict[str, Value] | None]]:
    """The statements with the parameters of each, once all are known to read only."""
    statements = _reading_statements(connection, sql)
    wanted = set[str]().union(*(statement.named_parameters for statement in statements))
    if missing := sorted(wanted - given.keys()):
        raise TokenmartError(f"--param {missing[0]}=…: the query needs a value for ${missing[0]}")
    if extra := sorted(given.keys() - wanted):
        known = ", ".join(sorted(wanted)) or "none"
        raise TokenmartError(f"--param {extra[0]}: the query has no ${extra[0]}; it has: {known}")
    return [
        (statement.query, {name: given[name] for name in statement.named_parameters} or None)
        for statement in statements
    ]


def _reading_statements(connection: duckdb.DuckDBPyConnection, sql: str) -> list[duckdb.Statement]:
    """The statements of a text, once all are known to write no file."""
    try:
        encoded = sql.encode()
    except UnicodeEncodeError as error:
        raise TokenmartError("sql: the SQL is not valid UTF-8; save it as UTF-8") from error
    if len(sql) > LONGEST_TEXT:
        raise TokenmartError(
            f"sql: a text of {len(sql):,} characters; at most {LONGEST_TEXT:,} are read"
        )
    try:
        statements = connection.extract_statements(sql)
        kinds = [statement.type.name for statement in statements]
    except ValueError as error:  # a kind for which DuckDB's Python has no name
        raise TokenmartError(f"sql: a statement is not allowed, {_ONLY_READS}") from error
    if not statements:
        raise TokenmartError("sql: no statement given; try `tokenmart sql 'from models'`")
    for kind in kinds:
        if kind not in _KINDS:
            raise TokenmartError(f"sql: {kind} is not allowed, {_ONLY_READS}")
    tokens = [
        _WORD.match(encoded, start)[0].decode(errors="replace").lower()  # type: ignore[index]
        for start, kind in duckdb.tokenize(sql)
        if kind.name != "comment"
    ]
    for token, after in pairwise([*tokens, ""]):
        if token == "copy":
            raise TokenmartError(
                f'sql: COPY is not allowed, {_ONLY_READS}. A column of this name: "copy"'
            )
        if after == "(" and _FUNCTIONS.fullmatch(token.strip('"')):
            raise TokenmartError(f"sql: the function {token} is not allowed, {_ONLY_READS}")
    return statements


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
    if "Table with name" in text and connection:
        databases = connection.execute("from duckdb_databases() where not internal").fetchall()
        if len(databases) == 1:
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
