"""A question to DuckDB that can be stopped: by Ctrl-C, when its time is over or memory ends."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeVar

import duckdb

from warehouse.errors import TokenmartError

_Result = TypeVar("_Result")
PATIENCE_SECONDS = 2.0
"""How long a query may take to stop: DuckDB looks for an interrupt between blocks of rows only."""


@dataclass(frozen=True)
class Limits:
    """What one question may take: wall-clock seconds (0 = no limit), memory as DuckDB writes it."""

    seconds: float = 600.0
    memory: str = "5GiB"


_BESIDE_DUCKDB = 2 << 30
"""Bytes for rows on their way to the terminal, and for Python itself."""
_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


@contextmanager
def process_memory(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Bound what this process may take beyond what it has, as Linux counts its data.

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
    """A question took longer than it may."""


class Watch:
    """Looks after one question.

    Args:
        connection: where it runs.
        seconds: how long it may take; 0 = no limit.
        give_up: called when it was interrupted and goes on: functions that compute one large value
            never look for an interrupt. Without it `run` raises and leaves the query behind;
            the connection can't be used or closed any more (`lost`).
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        seconds: float,
        give_up: Callable[[TokenmartError], None] | None = None,
    ) -> None:
        self._connection = connection
        self._seconds = seconds
        self._give_up = give_up
        self._ended = Event()
        self._running: Future[Any] | None = None
        self.expired = False
        self.lost = False

    def __enter__(self) -> Watch:
        if self._seconds:
            Thread(target=self._wait, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def run(self, call: Callable[..., _Result], *arguments: object) -> _Result:
        """Call in a thread: DuckDB doesn't look at signals, Ctrl-C would wait for its end.

        Raises:
            OverTimeError: the time is over.
        """
        running: Future[_Result] = Future()

        def work() -> None:
            try:
                result = call(*arguments)
            except BaseException as error:
                with suppress(InvalidStateError):
                    running.set_exception(error)
            else:
                with suppress(InvalidStateError):
                    running.set_result(result)

        self._running = running
        # a daemon, unlike the threads of an executor: Python's end doesn't wait for it
        Thread(target=work, daemon=True).start()
        try:
            return running.result()
        except KeyboardInterrupt:
            self._connection.interrupt()
            try:
                running.exception(PATIENCE_SECONDS)
            except FutureTimeoutError:
                self._lose(TokenmartError("sql: interrupted; the query itself can't be stopped"))
            raise
        except duckdb.Error as error:
            raise self.explained(error) from error

    def interrupt(self) -> None:
        """Stop what is being computed."""
        Thread(target=self._stop, args=(TokenmartError("interrupted"),), daemon=True).start()

    def explained(self, error: Exception) -> Exception:
        """The error, or that the time is over."""
        return self._over_time() if self.expired else error

    def _wait(self) -> None:
        if not self._ended.wait(self._seconds):
            self.expired = True
            self._stop(self._over_time())

    def _stop(self, why: TokenmartError) -> None:
        """Interrupt until the question ends: one that comes between two steps goes unheard."""
        for _ in range(round(PATIENCE_SECONDS / 0.1)):
            self._connection.interrupt()
            if self._ended.wait(0.1):
                return
        self._lose(why)

    def _lose(self, why: TokenmartError) -> None:
        self.lost = True
        if self._give_up is not None:
            self._give_up(why)
        if self._running is not None:
            with suppress(InvalidStateError):
                self._running.set_exception(why)

    def _over_time(self) -> OverTimeError:
        return OverTimeError(
            f"sql: stopped after {self._seconds:g} seconds; give it more with --timeout SECONDS, "
            "0 for no limit (in Python: limits=Limits(seconds=…))"
        )
