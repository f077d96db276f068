"""Work in other threads: storing what was computed, and preparing what comes next."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Prefetch(Generic[Item, Result]):
    """Results of a call for each item in turn; the next one can be computed early, in a thread.

    The process may end before that thread: the call must leave nothing half written.
    """

    def __init__(self, call: Callable[[Item], Result], items: Iterable[Item]) -> None:
        self._call, self._items = call, iter(items)
        self._next: Future[Result] | None = None

    def start(self) -> None:
        """Start the next one, if there is one and it was not started."""
        if self._next is not None:
            return
        for item in self._items:
            future = self._next = Future()
            threading.Thread(target=self._run, args=(item, future), daemon=True).start()
            return

    def _run(self, item: Item, future: Future[Result]) -> None:
        try:
            future.set_result(self._call(item))
        except BaseException as error:
            future.set_exception(error)

    def take(self) -> Result:
        """The next result, or its exception; waits for it."""
        self.start()
        assert self._next is not None, "there is no further item"
        future, self._next = self._next, None
        return future.result()

    def close(self) -> None:
        """Wait for a call that was started, and drop its result or error."""
        if self._next is not None:
            self._next.exception()


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
