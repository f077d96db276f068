"""Limits of a question to DuckDB: its time, its memory, and Ctrl-C."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import TypeVar

import duckdb

from warehouse.errors import TokenmartError

_Result = TypeVar("_Result")
PATIENCE_SECONDS = 2.0
"""Seconds for a query to stop: DuckDB checks for an interrupt between blocks of rows only."""


@dataclass(frozen=True)
class Limits:
    """Limits of a query: wall-clock seconds (0 = no limit), memory in DuckDB's notation."""

    seconds: float = 600.0
    memory: str = "5GiB"


_BESIDE_DUCKDB = 2 << 30
"""Bytes for rows on their way to the terminal, and for Python itself."""
_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


@contextmanager
def process_memory(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Limit the memory that this process may add, as Linux counts its data.

    DuckDB doesn't count long lists and texts against its own limit: `range(1, 1e9)` took 8 GB. With
    the bound they fail like any other want of memory. Other systems have no such bound.
    """
    limit = connection.execute("select current_setting('memory_limit')").fetchall()[0][0]
    number, unit = re.fullmatch(r"([\d.]+) (\w+)", limit).groups()  # type: ignore[union-attr]
    status = Path("/proc/self/status")
    if sys.platform != "linux" or not status.is_file():
        yield
        return
    import resource

    data = re.search(r"VmData:\s+(\d+) kB", status.read_text())
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bound = int(data[1] if data else 0) * 1024 + int(float(number) * _UNITS[unit]) + _BESIDE_DUCKDB
    limits = [each for each in (bound, before, hard) if each != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, hard))


class OverTimeError(TokenmartError):
    """A query exceeded its time limit."""


class TimeLimit:
    """Runs the steps of one question within its time.

    Args:
        connection: where they run.
        seconds: how long they may take together; 0 = no limit.
        give_up: called when an interrupted step continues: functions that compute one large
            value never look for an interrupt. Without it the step is left behind, and the
            connection can't be used or closed any more (`lost`).
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        seconds: float,
        give_up: Callable[[TokenmartError], None] | None = None,
    ) -> None:
        self._connection = connection
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._give_up = give_up
        self.lost = False

    def run(self, call: Callable[..., _Result], *arguments: object) -> _Result:
        """Call in a thread: in the main one, DuckDB may hear Ctrl-C minutes later.

        Raises:
            OverTimeError: the time is over.
        """
        running: Future[_Result] = Future()

        def work() -> None:
            try:
                running.set_result(call(*arguments))
            except BaseException as error:
                running.set_exception(error)

        # a daemon, unlike the threads of an executor: Python's end doesn't wait for it
        Thread(target=work, daemon=True).start()
        left = max(self._deadline - time.monotonic(), 0) if self._seconds else None
        try:
            running.exception(left)
        except FutureTimeoutError:
            over = OverTimeError(
                f"sql: stopped after {self._seconds:g} seconds; give it more with --timeout "
                "SECONDS, 0 for no limit (in Python: limits=Limits(seconds=…))"
            )
            self._stop(running, over)
            raise over from None
        except KeyboardInterrupt:
            self._stop(running, TokenmartError("sql: interrupted; the query can't be stopped"))
            raise
        return running.result()

    def _stop(self, running: Future[_Result], why: TokenmartError) -> None:
        """Interrupt until the step ends: an interrupt that comes between two queries is lost."""
        for _ in range(round(PATIENCE_SECONDS / 0.1)):
            self._connection.interrupt()
            with suppress(FutureTimeoutError):
                running.exception(0.1)
                return
        self.lost = True
        if self._give_up is not None:
            self._give_up(why)
