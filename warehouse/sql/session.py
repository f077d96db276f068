"""Queries of the warehouse: the DuckDB file is open only while one runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TypeVar

import duckdb

from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.sql.connection import (
    DatabaseBusyError,
    attach_marts,
    connect_to_parquet,
    detach_marts,
)
from warehouse.sql.execution import execute, explain, stream
from warehouse.sql.limits import Limits, OverTimeError, TimeLimit, process_memory
from warehouse.sql.queries import Value
from warehouse.sql.read_only import lock

if TYPE_CHECKING:
    import pyarrow as pa

_Answer = TypeVar("_Answer")


class Session:
    """An in-memory database over the Parquet files that lends the marts for one question.

    Between questions dbt may write: the next one sees what it wrote. While dbt writes,
    questions that need the Parquet files only are answered. What a question may do: `read_only`.

    Args:
        workspace: the files.
        patience: seconds to wait for a writer; None for `connection.PATIENCE_SECONDS`.
        limits: of each question.
        give_up: see `TimeLimit`; it ends the process, which is then bounded in its memory, too.
    """

    def __init__(
        self,
        workspace: Workspace,
        patience: float | None = None,
        limits: Limits | None = None,
        give_up: Callable[[TokenmartError], None] | None = None,
    ) -> None:
        self.workspace = workspace
        self._patience = patience
        self._limits = limits or Limits()
        self._give_up = give_up
        self._connection = connect_to_parquet(workspace, self._limits.memory)
        self._time = TimeLimit(self._connection, 0)
        lock(self._connection, workspace)
        self._bounds = ExitStack()

    def __enter__(self) -> Session:
        if self._give_up is not None:
            self._bounds.enter_context(process_memory(self._connection))
        return self

    def __exit__(self, *_: object) -> None:
        self._bounds.close()
        if not self._time.lost:
            self._connection.close()

    @contextmanager
    def ask(
        self, sql: str, parameters: Mapping[str, Value] | None = None
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """Run statements; the connection has the rows of the last one inside the block.

        Raises:
            TokenmartError: a mistake in the SQL, or a statement that would write.
            OverTimeError: it took longer than it may.
            StorageError: a file is damaged, or another program writes a table that was asked for.
        """
        with self._marts():
            yield self.run(execute, self._connection, sql, parameters or {})

    @contextmanager
    def stream(
        self, sql: str, parameters: Mapping[str, Value] | None = None
    ) -> Iterator[pa.RecordBatchReader | None]:
        """Run statements; the rows of the last one as Arrow batches, None when it returns none.

        Raises:
            TokenmartError, OverTimeError, StorageError: see `ask`.
        """
        import pyarrow as pa

        failed: list[TokenmartError] = []

        def batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
            try:
                yield from reader
            except (pa.ArrowException, OSError) as error:
                failed.append(explain(duckdb.Error(str(error))))
                raise

        with self._marts():
            reader = self.run(stream, self._connection, sql, parameters or {})
            if reader is None:
                yield None
                return
            try:
                yield pa.RecordBatchReader.from_batches(reader.schema, batches(reader))
            except OverTimeError:
                raise
            except Exception:
                # the reader of the stream got it as an error of the stream
                if failed:
                    raise failed[0] from None
                raise
            finally:
                if not self._time.lost:
                    reader.close()

    def interrupt(self) -> None:
        """Stop what is being computed."""
        self._connection.interrupt()

    def run(self, call: Callable[..., _Answer], *arguments: object) -> _Answer:
        """Call what computes or reads rows, under the question's limits; Ctrl-C is heard."""
        return self._time.run(call, *arguments)

    @contextmanager
    def _marts(self) -> Iterator[None]:
        """Lend the marts, and start the time, for the question asked in the block."""
        busy: DatabaseBusyError | None = None
        try:
            attach_marts(self._connection, self.workspace, self._patience)
        except DatabaseBusyError as error:
            busy = error
        self._time = TimeLimit(self._connection, self._limits.seconds, self._give_up)
        try:
            yield
        except TokenmartError as error:
            if busy and "Catalog Error" in error.message:
                raise busy from error
            raise
        finally:
            if not self._time.lost:
                detach_marts(self._connection, self.workspace)
