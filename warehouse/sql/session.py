"""Run read-only SQL on the warehouse."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import duckdb

from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.sql.connection import (
    DatabaseBusyError,
    attach_marts,
    connect_to_parquet,
    interruptible,
    lock,
)

if TYPE_CHECKING:
    import pyarrow as pa

Value = int | float | str | None
"""Value of a parameter, `$name` in the SQL."""

Statement = tuple[str, "dict[str, Value] | None"]
"""SQL and the values of its parameters, None without any."""

_KINDS = {"SELECT", "MULTI", "EXPLAIN", "SET", "VARIABLE_SET", "CREATE"}
"""Statement types that write no file. MULTI is a PIVOT, CREATE is in memory: the marts are attached
read-only. All else that a statement could reach is refused by DuckDB (`connection.lock`)."""


_RUN_SQL = {"query", "json_execute_serialized_sql"}
"""Functions that run the text of another statement."""
_BEFORE_A_STATEMENT = {"", ";", "(", ")", "as", "explain", "analyze", "verbose", "materialized"}
_AFTER_A_NAME = {"", ";", ")", ",", ".", "+", "-", "*", "/", "=", "<", ">", "::"}
_TOKEN = re.compile(r'"[^"]*"|\w+|::|.', re.DOTALL)
"""The beginning of a token's text: in DuckDB 1.5, comments behind a token are a part of it."""


@dataclass(frozen=True)
class Rows:
    """Rows of a query, computed as the batches are read."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


class Session:
    """A locked in-memory database over the Parquet files, with the marts read-only.

    While dbt writes, questions that need the Parquet files only are answered.

    Args:
        targets: also have the views of target scores. Never for a metric or an idea.
    """

    def __init__(self, workspace: Workspace, *, targets: bool = False) -> None:
        self.workspace = workspace
        self._connection = connect_to_parquet(workspace, targets=targets)
        self._busy: DatabaseBusyError | None = None
        try:
            attach_marts(self._connection, workspace)
        except DatabaseBusyError as error:
            self._busy = error
        lock(self._connection, workspace, targets=targets)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    @contextmanager
    def stream(
        self, sql: str, parameters: Mapping[str, Value] | None = None
    ) -> Iterator[Rows | None]:
        """Run statements; rows of the last one within the block, None if it has none.

        Raises:
            TokenmartError: a mistake in the SQL, a parameter too many or too few, or a statement
                that would write a file.
            StorageError: another program writes a table that was asked for.
        """
        try:
            statements = _statements(sql, parameters or {})
            reader = interruptible(self._connection, partial(self._run, statements))
            yield None if reader is None else Rows(reader.schema, self._batches(reader))
        except duckdb.Error as error:
            if self._busy and isinstance(error, duckdb.CatalogException):
                raise self._busy from error
            raise _explained(error, self.workspace) from error

    def _run(self, statements: Sequence[Statement]) -> pa.RecordBatchReader | None:
        *earlier, (last, named) = statements
        for statement in earlier:
            result = self._connection.execute(*statement)
            if result is not None:  # DuckDB 1.5 has no result of the types that a PIVOT makes
                result.fetchall()
        relation = self._connection.sql(last, params=named)
        return None if relation is None else relation.to_arrow_reader()

    def _batches(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        try:
            while (
                batch := interruptible(self._connection, partial(next, reader, None))
            ) is not None:
                yield batch
        except (pa.ArrowException, OSError) as error:  # DuckDB's, as Arrow passes it on
            raise duckdb.Error(str(error)) from error


def _statements(sql: str, given: Mapping[str, Value]) -> list[Statement]:
    """The statements of a text with the parameters of each, once none is found to write a file."""
    try:
        statements = duckdb.extract_statements(sql)
        kinds = [statement.type.name for statement in statements]
    except (ValueError, TypeError) as error:  # a kind without a name in Python; no UTF-8
        raise TokenmartError(f"sql: can't be run ({error})", code="sql-not-allowed") from error
    if not statements:
        raise TokenmartError("sql: no statement given", code="sql-empty")
    for kind in [*kinds, *_hidden_statements(sql)]:
        if kind not in _KINDS:
            raise TokenmartError(
                f"sql: {kind} is not allowed: the warehouse is read-only here; --out FILE saves "
                f'the rows of a select (a column of this name: "{kind}")',
                code="sql-not-allowed",
                where=kind,
            )
    wanted = set[str]().union(*(statement.named_parameters for statement in statements))
    if wanted != given.keys():
        name = min(wanted ^ given.keys())
        what = "needs a value" if name in wanted else "is not in the query"
        raise TokenmartError(f"--param {name}: {what}", code="sql-parameters", where=name)
    return [
        (statement.query, {name: given[name] for name in statement.named_parameters} or None)
        for statement in statements
    ]


def _hidden_statements(sql: str) -> Iterator[str]:
    """What DuckDB 2 takes for a SELECT: a COPY inside of EXPLAIN or WITH, SQL that functions run.

    A column or a table with one of these names is none of them.
    """
    text = sql.encode()
    tokens = duckdb.tokenize(sql)
    ends = [*(start for start, _ in tokens[1:]), len(text)]
    words = [
        token[0].lower()
        for (start, kind), end in zip(tokens, ends, strict=True)
        if kind.name != "comment"
        and (token := _TOKEN.match(text[start:end].decode(errors="replace")))
    ]
    for before, word, after in zip(["", *words], words, [*words[1:], ""], strict=False):
        if word.strip('"') in _RUN_SQL and after.startswith("("):
            yield word.strip('"')
        if word == "copy" and before in _BEFORE_A_STATEMENT and after not in _AFTER_A_NAME:
            yield word


def named_parameters(sql: str) -> set[str]:
    """Names of the parameters in statements, `$name`; empty for what can't be parsed."""
    try:
        statements = duckdb.extract_statements(sql)
    except (duckdb.Error, ValueError, TypeError):
        return set()
    return set[str]().union(*(statement.named_parameters for statement in statements))


def refuse_repeated_columns(names: Sequence[str]) -> None:
    """Stop at rows that can't be objects, which have one value of each name.

    Raises:
        TokenmartError: two columns have one name (`sql-column-twice`).
    """
    if twice := [name for name in names if names.count(name) > 1]:
        raise TokenmartError(
            f"sql: two columns are named {twice[0]!r}; rename one with `as`",
            code="sql-column-twice",
            where=twice[0],
        )


def _explained(error: duckdb.Error, workspace: Workspace) -> TokenmartError:
    """DuckDB's message as one line, with the line of the SQL it names."""
    message, _, place = str(error).partition("\n\nLINE ")
    line = f"line {place.partition(':')[0]}" if place else ""
    text = " ".join(message.split()) + (f" ({line})" if line else "")
    if isinstance(error, duckdb.CatalogException) and not workspace.database.is_file():
        text += "; metric tables appear after `tokenmart dbt build`"
    return TokenmartError(f"sql: {text}", code="sql-error", where=line)
