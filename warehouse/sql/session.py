"""Run read-only SQL on the warehouse, within limits of time and memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import duckdb

from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.sql.connection import (
    DatabaseBusyError,
    attach_marts,
    connect_to_parquet,
    detach_marts,
    lock,
)

if TYPE_CHECKING:
    import pyarrow as pa

Value = int | float | str | None
"""Value of a parameter, `$name` in the SQL."""

_KINDS = {"SELECT", "MULTI", "EXPLAIN", "SET", "VARIABLE_SET", "CREATE"}
"""Statement types that write no file. MULTI is a PIVOT, CREATE is in memory: the marts are attached
read-only. All else that a statement could reach is refused by DuckDB (`connection.lock`)."""


_WORD = re.compile(rb'"?(\w*)')
_HIDE_A_COPY = {b"copy", b"query", b"json_execute_serialized_sql"}


class OverTimeError(TokenmartError):
    """A query exceeded its time limit."""

    code = "sql-over-time"


@dataclass(frozen=True)
class Limits:
    """Limits of a query: wall-clock seconds (0 = no limit), memory in DuckDB's notation."""

    seconds: float = 600.0
    memory: str = "5GiB"


@dataclass(frozen=True)
class Rows:
    """Rows of a query, computed as the batches are read."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


class Session:
    """An in-memory database over the Parquet files that lends the marts for one question.

    Between questions dbt may write: the next one sees what it wrote. While dbt writes, questions
    that need the Parquet files only are answered.

    Args:
        limits: of each question.
        patience: seconds to wait for a writer; None for `connection.PATIENCE_SECONDS`.
        targets: also have the views of target scores. Never for a metric or an idea.
    """

    def __init__(
        self,
        workspace: Workspace,
        limits: Limits | None = None,
        patience: float | None = None,
        *,
        targets: bool = False,
    ) -> None:
        self.workspace = workspace
        self._limits = limits or Limits()
        self._patience = patience
        self._connection = connect_to_parquet(workspace, self._limits.memory, targets=targets)
        lock(self._connection, workspace, targets=targets)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    @contextmanager
    def ask(self, sql: str, parameters: Mapping[str, Value] | None = None) -> Iterator[Any]:
        """Run statements; the relation of the last one within the block, None if it has no rows.

        Rows are computed as they are read.

        Raises:
            TokenmartError: a mistake in the SQL, a parameter too many or too few, or a statement
                that would write a file.
            OverTimeError: it took longer than it may.
            StorageError: another program writes a table that was asked for.
        """
        busy: DatabaseBusyError | None = None
        try:
            attach_marts(self._connection, self.workspace, self._patience)
        except DatabaseBusyError as error:
            busy = error
        over = Event()
        try:
            with _interrupted_after(self._limits.seconds, self._connection, over):
                yield self._run(_statements(sql, parameters or {}))
        except Exception as error:
            if over.is_set():
                raise OverTimeError(
                    f"sql: stopped after {self._limits.seconds:g} seconds; --timeout SECONDS gives "
                    "more (in Python: limits=Limits(seconds=…))"
                ) from None
            if busy and "Catalog Error" in str(error):
                raise busy from error
            if isinstance(error, duckdb.Error):
                raise _explained(error, self.workspace) from error
            raise
        finally:
            detach_marts(self._connection, self.workspace)

    @contextmanager
    def stream(
        self, sql: str, parameters: Mapping[str, Value] | None = None
    ) -> Iterator[Rows | None]:
        """The same as Arrow batches."""
        with self.ask(sql, parameters) as relation:
            if relation is None:
                yield None
                return
            reader = relation.to_arrow_reader()
            try:
                yield Rows(reader.schema, _batches(reader))
            finally:
                reader.close()  # an open result would hold the marts

    def _run(self, statements: list[tuple[str, dict[str, Value] | None]]) -> Any:
        *earlier, (last, own) = statements
        for statement in earlier:
            found = self._connection.execute(*statement)
            if found is not None:  # DuckDB 1.5 has no result of the types that a PIVOT makes
                found.fetchall()
        return self._connection.sql(last, params=own)


@contextmanager
def _interrupted_after(
    seconds: float, connection: duckdb.DuckDBPyConnection, over: Event
) -> Iterator[None]:
    """Interrupt what the connection computes in the block, once the time is over."""
    done = Event()

    def interrupt() -> None:
        if not done.wait(seconds):
            over.set()
            # an interrupt between two queries is lost
            while not done.wait(0.1):
                connection.interrupt()

    watch = Thread(target=interrupt, daemon=True)
    if seconds:
        watch.start()
    try:
        yield
    finally:
        done.set()


def _statements(sql: str, given: Mapping[str, Value]) -> list[tuple[str, dict[str, Value] | None]]:
    """The statements of a text with the parameters of each, once none is found to write a file."""
    try:
        statements = duckdb.extract_statements(sql)
        kinds = [statement.type.name for statement in statements]
    except (ValueError, TypeError) as error:  # a kind without a name in Python; no UTF-8
        raise TokenmartError(f"sql: can't be run ({error})", code="sql-not-allowed") from error
    if not statements:
        raise TokenmartError("sql: no statement given", code="sql-empty")
    # DuckDB 2 takes a COPY inside of EXPLAIN, of WITH, and in the text of a function for a SELECT
    text = sql.encode()
    tokens = [start for start, kind in duckdb.tokenize(sql) if kind.name != "comment"]
    words = {found[1].lower() for start in tokens if (found := _WORD.match(text, start))}
    for kind in [*kinds, *sorted(word.decode() for word in words & _HIDE_A_COPY)]:
        if kind not in _KINDS:
            raise TokenmartError(
                f"sql: {kind} is not allowed: the warehouse is read-only here; --out FILE saves "
                "the rows of a select",
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


def _batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    try:
        yield from reader
    except (pa.ArrowException, OSError) as error:  # DuckDB's, as Arrow passes it on
        raise duckdb.Error(str(error)) from error


def _explained(error: Exception, workspace: Workspace) -> TokenmartError:
    """DuckDB's message as one line, with the line of the SQL it names."""
    message, _, place = str(error).partition("\n\nLINE ")
    line = f"line {place.partition(':')[0]}" if place else ""
    text = " ".join(message.split()) + (f" ({line})" if line else "")
    if text.startswith("Catalog Error") and not workspace.database.is_file():
        text += "; metric tables appear after `tokenmart dbt build`"
    return TokenmartError(f"sql: {text}", code="sql-error", where=line)
