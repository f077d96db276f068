"""Storing what is scored, next to the computation of what comes after it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Background:
    """Runs jobs in order in one thread, at most one waiting; leaving the block waits for all.

    A job's exception is raised by the next `check`, `finish`, `submit` or the end of the block.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "store")
        self._last: Future[None] | None = None

    def __enter__(self) -> Background:
        return self

    def check(self) -> None:
        """Raise what a finished job raised, without waiting for a running one."""
        if self._last is not None and self._last.done():
            self.finish()

    def submit(self, job: Callable[[], None]) -> None:
        """Wait for the job before, then start this one."""
        self.finish()
        self._last = self._pool.submit(job)

    def finish(self) -> None:
        """Wait for the running job."""
        last, self._last = self._last, None
        if last is not None:
            last.result()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.finish()
        finally:
            # also after an interrupt: a unit that is computed gets stored
            self._pool.shutdown(wait=True)
