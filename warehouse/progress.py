"""What a long run shows: a bar with ETA on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

Progress = Callable[[str, int], None]
"""Called with what is being done and how many units were finished since the last call."""

SECONDS_BEFORE_SHOWN = 2.0
SECONDS_BETWEEN_LINES = 60.0


def no_progress(what: str, units: int) -> None:
    """Show nothing."""


@contextmanager
def progress_bar(total: int, noun: str) -> Iterator[Progress]:
    """Show progress on standard error; nothing of work that ends within two seconds.

    The bars of libraries (downloads, loading of weights) are switched off meanwhile.

    Args:
        total: how many units there are, finished ones included.
        noun: what a unit is called, in the plural.
    """
    from rich.console import Console

    console = Console(stderr=True)
    shown = _bar(console, total, noun) if console.is_terminal else _lines(total, noun)
    with without_library_bars(), shown as progress:
        yield progress


@contextmanager
def without_library_bars() -> Iterator[None]:
    """Switch off the bars of tqdm, which transformers, huggingface_hub and gguf all draw with."""
    try:
        from tqdm.std import tqdm  # type: ignore[import-untyped]
    except ImportError:
        yield
        return
    original = tqdm.__init__

    def disabled(bar: Any, *args: Any, **options: Any) -> None:
        original(bar, *args, **{**options, "disable": True})

    tqdm.__init__ = disabled
    try:
        yield
    finally:
        tqdm.__init__ = original


@contextmanager
def _bar(console: Any, total: int, noun: str) -> Iterator[Progress]:
    from rich import progress as bars

    bar = bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeElapsedColumn(),
        bars.TimeRemainingColumn(),
        console=console,
    )
    handle = bar.add_task(noun, total=total)
    with _later(bar.start, bar.stop):
        yield lambda what, units: bar.update(handle, description=what, advance=units)


@contextmanager
def _lines(total: int, noun: str) -> Iterator[Progress]:
    """A line for each new subject, and one a minute while it stays the same."""
    lines = _Lines(total, noun)
    with _later(lines.start, lambda: None):
        yield lines


class _Lines:
    def __init__(self, total: int, noun: str) -> None:
        self.total, self.noun = total, noun
        self.begun = time.monotonic()
        self.done, self.what = 0, ""
        self.said, self.said_at = "", 0.0
        self.started = False
        self.lock = threading.Lock()

    def __call__(self, what: str, units: int) -> None:
        with self.lock:
            self.done += units
            self.what = what
            if self.started:
                self._say()

    def start(self) -> None:
        with self.lock:
            self.started = True
            if self.what:
                self._say()

    def _say(self) -> None:
        label, now = self.what.split(":")[0], time.monotonic()
        if label != self.said or now - self.said_at > SECONDS_BETWEEN_LINES:
            self.said, self.said_at = label, now
            click.echo(
                f"[{now - self.begun:6.0f} s] {self.done}/{self.total} {self.noun}; "
                f"now {self.what}",
                err=True,
            )


@contextmanager
def _later(start: Callable[[], None], stop: Callable[[], None]) -> Iterator[None]:
    """Call `start` in two seconds and `stop` at the end; neither when the block ends before."""
    begun = threading.Event()

    def begin() -> None:
        begun.set()
        start()

    timer = threading.Timer(SECONDS_BEFORE_SHOWN, begin)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if begun.is_set():
            stop()
