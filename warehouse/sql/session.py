"""Queries of the warehouse: the DuckDB file is open only while one runs."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

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
from warehouse.sql.statements import Value, execute, explain, stream

if TYPE_CHECKING:
    import pyarrow as pa


_Answer = TypeVar("_Answer")

PATIENCE_SECONDS = 2.0
"""Seconds for a query to stop: DuckDB checks for an interrupt between blocks of rows only."""

_PYTHON_BYTES = 2 << 30
"""For rows on their way to the terminal, and for Python itself."""
_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


class OverTimeError(TokenmartError):
    """A query exceeded its time limit."""


@dataclass(frozen=True)
class Limits:
    """Limits of a query: wall-clock seconds (0 = no limit), memory in DuckDB's notation."""

    seconds: float = 600.0
    memory: str = "5GiB"


class Session:
    """An in-memory database over the Parquet files that lends the marts for one question.

    Between questions dbt may write: the next one sees what it wrote. While dbt writes,
    questions that need the Parquet files only are answered. What a question may do:
    `connection.lock` and `warehouse.sql.statements`.

    Args:
        patience: seconds to wait for a writer; None for `connection.PATIENCE_SECONDS`.
        limits: of each question.
        ends_process: end the process when an interrupted question continues: functions that compute
            one large value never look for an interrupt. The process is then bounded in its memory,
            too. Otherwise the question is left behind, and the connection can't be used or closed
            any more.
    """

    def __init__(
        self,
        workspace: Workspace,
        patience: float | None = None,
        limits: Limits | None = None,
        *,
        ends_process: bool = False,
    ) -> None:
        self.workspace = workspace
        self._patience = patience
        self._limits = limits or Limits()
        self._ends_process = ends_process
        self._connection = connect_to_parquet(workspace, self._limits.memory)
        self._deadline = 0.0
        self._lost = False
        lock(self._connection, workspace)
        self._bounds = ExitStack()

    def __enter__(self) -> Session:
        if self._ends_process:
            self._bounds.enter_context(_process_memory(self._connection))
        return self

    def __exit__(self, *_: object) -> None:
        self._bounds.close()
        if not self._lost:
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
                if not self._lost:
                    reader.close()

    def interrupt(self) -> None:
        """Stop what is being computed."""
        self._connection.interrupt()

    def run(self, call: Callable[..., _Answer], *arguments: object) -> _Answer:
        """Call what computes or reads rows, in the time that the question has left.

        It runs in a thread: in the main one, DuckDB may hear Ctrl-C minutes later.

        Raises:
            OverTimeError: the time is over.
        """
        running: Future[_Answer] = Future()

        def work() -> None:
            try:
                running.set_result(call(*arguments))
            except BaseException as error:
                running.set_exception(error)

        # a daemon, unlike the threads of an executor: Python's end doesn't wait for it
        Thread(target=work, daemon=True).start()
        seconds = self._limits.seconds
        try:
            running.exception(max(self._deadline - time.monotonic(), 0) if seconds else None)
        except FutureTimeoutError:
            over = OverTimeError(
                f"sql: stopped after {seconds:g} seconds; give it more with --timeout SECONDS, 0 "
                "for no limit (in Python: limits=Limits(seconds=…))"
            )
            self._stop(running, over)
            raise over from None
        except KeyboardInterrupt:
            self._stop(running, TokenmartError("sql: interrupted; the query can't be stopped"))
            raise
        return running.result()

    def _stop(self, running: Future[_Answer], why: TokenmartError) -> None:
        """Interrupt until the step ends: an interrupt that comes between two queries is lost."""
        for _ in range(round(PATIENCE_SECONDS / 0.1)):
            self._connection.interrupt()
            with suppress(FutureTimeoutError):
                running.exception(0.1)
                return
        self._lost = True
        if self._ends_process:
            why.show()
            sys.stdout.flush()
            os._exit(why.exit_code)

    @contextmanager
    def _marts(self) -> Iterator[None]:
        """Lend the marts, and start the time, for the question asked in the block."""
        busy: DatabaseBusyError | None = None
        try:
            attach_marts(self._connection, self.workspace, self._patience)
        except DatabaseBusyError as error:
            busy = error
        self._deadline = time.monotonic() + self._limits.seconds
        try:
            yield
        except TokenmartError as error:
            if busy and "Catalog Error" in error.message:
                raise busy from error
            raise
        finally:
            if not self._lost:
                detach_marts(self._connection, self.workspace)


@contextmanager
def _process_memory(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Limit the memory that this process may add, as Linux counts its data.

    DuckDB doesn't count long lists and texts against its own limit: `range(1, 1e9)` took 8 GB. With
    the bound they fail like any other want of memory. Other systems have no such bound.
    """
    status = Path("/proc/self/status")
    if sys.platform != "linux" or not status.is_file():
        yield
        return
    import resource

    limit = connection.execute("select current_setting('memory_limit')").fetchall()[0][0]
    number, unit = limit.split()
    data = re.search(r"VmData:\s+(\d+) kB", status.read_text())
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bound = int(data[1] if data else 0) * 1024 + int(float(number) * _UNITS[unit]) + _PYTHON_BYTES
    limits = [each for each in (bound, before, hard) if each != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, hard))
