"""Progress of a long run: a bar with ETA on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import click


class Progress(Protocol):
    """The interface that a long run calls to report progress."""

    def __call__(self, what: str, units: int, work: float = 0.0, computed: bool = True) -> None:
        """Report what was done since the last call.

        Args:
            what: is being done, and of what: `model: document 3`.
            units: finished since.
            work: done since, in the unit of the total; of no meaning without one.
            computed: whether it took time: units that were there already don't count for the time
                left.
        """


SECONDS_BEFORE_SHOWN = 2.0
SECONDS_BETWEEN_LINES = 60.0


def no_progress(what: str, units: int, work: float = 0.0, computed: bool = True) -> None:
    """Show nothing."""


@dataclass
class _Done:
    """Completed part of a total, and the estimated time of the rest.

    work, total_work: as passed to `Progress`; units if no total of work is known.
    computed: the part of `work` that took time.
    """

    total: int
    noun: str
    total_work: float | None
    units: int = 0
    work: float = 0.0
    computed: float = 0.0
    what: str = ""
    begun: float = field(default_factory=time.monotonic)

    def add(self, what: str, units: int, work: float, computed: bool) -> None:
        self.what = what
        self.units += units
        done = float(units) if self.total_work is None else work
        self.work += done
        self.computed += done if computed else 0.0

    @property
    def all_work(self) -> float:
        return float(self.total) if self.total_work is None else self.total_work

    def seconds_left(self, now: float) -> float | None:
        """At the speed so far; None before anything was computed."""
        if self.computed <= 0:
            return None
        left = max(0.0, self.all_work - self.work)
        return left * (now - self.begun) / self.computed

    @property
    def share(self) -> float:
        """Of all work, at most 1."""
        return min(1.0, self.work / self.all_work) if self.all_work else 1.0


@contextmanager
def progress_bar(total: int, noun: str, work: float | None = None) -> Iterator[Progress]:
    """Show progress on standard error; nothing of work that ends within two seconds.

    The bars of libraries (downloads, loading of weights) are switched off meanwhile.

    Args:
        total: how many units there are, finished ones included.
        noun: what a unit is called, in the plural.
        work: how much work all units are, where they differ; the bar and the time left follow it.
    """
    from rich.console import Console

    console = Console(stderr=True)
    done = _Done(total, noun, work)
    shown = _bar(console, done) if console.is_terminal else _lines(done)
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
def _bar(console: Any, done: _Done) -> Iterator[Progress]:
    from rich import progress as bars

    bar = bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.TaskProgressColumn(),
        bars.TextColumn("{task.fields[units]}"),
        bars.TimeElapsedColumn(),
        bars.TextColumn("{task.fields[left]}"),
        console=console,
    )
    handle = bar.add_task(done.noun, total=done.all_work, units="", left="")
    lock = threading.Lock()

    def report(what: str, units: int, work: float = 0.0, computed: bool = True) -> None:
        with lock:
            done.add(what, units, work, computed)
            bar.update(
                handle,
                description=what,
                completed=done.share * done.all_work,
                units=f"{done.units}/{done.total} {done.noun}",
                left=_left(done),
            )

    with _later(bar.start, bar.stop):
        yield report


def _left(done: _Done) -> str:
    seconds = done.seconds_left(time.monotonic())
    if seconds is None:
        return ""
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"about {seconds:.0f} s left"
    return f"about {minutes} min left" if minutes < 120 else f"about {minutes / 60:.1f} h left"


@contextmanager
def _lines(done: _Done) -> Iterator[Progress]:
    """A line for each new subject, and one a minute while it stays the same."""
    lines = _Lines(done)
    with _later(lines.start, lambda: None):
        yield lines


class _Lines:
    def __init__(self, done: _Done) -> None:
        self.done = done
        self.said, self.said_at = "", 0.0
        self.started = False
        self.lock = threading.Lock()

    def __call__(self, what: str, units: int, work: float = 0.0, computed: bool = True) -> None:
        with self.lock:
            self.done.add(what, units, work, computed)
            if self.started:
                self._say()

    def start(self) -> None:
        with self.lock:
            self.started = True
            if self.done.what:
                self._say()

    def _say(self) -> None:
        done, now = self.done, time.monotonic()
        label = done.what.split(":")[0]
        if label != self.said or now - self.said_at > SECONDS_BETWEEN_LINES:
            self.said, self.said_at = label, now
            share = "" if done.total_work is None else f"{done.share:.0%}, "
            left = f", {_left(done)}" if done.total_work is not None and _left(done) else ""
            click.echo(
                f"[{now - done.begun:6.0f} s] {share}{done.units}/{done.total} {done.noun}{left}; "
                f"now {done.what}",
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
