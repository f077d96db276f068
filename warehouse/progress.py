"""Progress of a long run: a bar with ETA on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import click


class Progress(Protocol):
    """The interface that a long run calls to report progress."""

    def __call__(self, what: str, units: int, work: float = 0.0, computed: bool = True) -> None:
        """Report what was done since the last call.

        Args:
            what: is being done, and of what: `model: document 3`; with `units`, what was finished.
            units: finished since.
            work: done since, in the unit of the total; of no meaning without one.
            computed: whether it took time: units that were there already don't count for the time
                left.
        """


SECONDS_BEFORE_SHOWN = 2.0
SECONDS_BETWEEN_LINES = 30.0
SECONDS_OF_SPEED = 10.0
"""Seconds of computing from which a speed, and with it the time left, is known."""


def no_progress(what: str, units: int, work: float = 0.0, computed: bool = True) -> None:
    """Show nothing."""


@contextmanager
def progress_bar(
    total: int, noun: str, work: float | None = None, there: tuple[int, float] = (0, 0.0)
) -> Iterator[Progress]:
    """Show progress on standard error; nothing of work that ends within two seconds.

    The bars of libraries (downloads, loading of weights) are switched off meanwhile.

    Args:
        total: how many units there are, finished ones included.
        noun: what a unit is called, in the plural.
        work: how much work all units are, where they differ; the bar and the time left follow it.
        there: units, and their work, that earlier runs have done; the caller reports them as not
            computed when it comes to them, and until then they are shown as done.
    """
    from rich.console import Console

    console = Console(stderr=True)
    # rich takes a file for a terminal where the shell has FORCE_COLOR
    on_terminal = sys.stderr.isatty()
    report = (
        _Bar(total, noun, work, there, console) if on_terminal else _Lines(total, noun, work, there)
    )
    timer = threading.Timer(SECONDS_BEFORE_SHOWN, report.start)
    timer.daemon = True
    timer.start()
    with without_library_bars():
        try:
            yield report
        finally:
            timer.cancel()
            timer.join()
            report.stop()


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


class _Report:
    """What is done of a total; shown from `start` on.

    `work` is counted as passed to `Progress`, in units if no total of work is known; `computed` is
    the part of it that took time, since `computing`, when the first of it was reported: loading
    and the first tokens say nothing of the speed. `there` is what of both earlier runs have done
    and the caller has not reported yet.
    """

    def __init__(self, total: int, noun: str, work: float | None, there: tuple[int, float]) -> None:
        self.total, self.noun, self.has_work = total, noun, work is not None
        self.all_work = float(total) if work is None else work
        self.units, self.work, self.computed, self.what = 0, 0.0, 0.0, ""
        self.finished = False
        self.there = there
        self.begun = time.monotonic()
        self.computing: float | None = None
        self.started = False
        self.lock = threading.Lock()

    def __call__(self, what: str, units: int, work: float = 0.0, computed: bool = True) -> None:
        with self.lock:
            done = work if self.has_work else float(units)
            if not (computed and units):
                self.what, self.finished = what, False
            elif self.finished or self._is_end(what):
                self.what, self.finished = what, True
            self.units += units
            self.work += done
            if computed and done and self.computing is None:
                self.computing = time.monotonic()
            elif computed:
                self.computed += done
            else:
                self.there = max(0, self.there[0] - units), max(0.0, self.there[1] - done)
            if self.started:
                self.show()

    def _is_end(self, what: str) -> bool:
        """Whether nothing is running once this is finished: it may be stored behind the next."""
        of_another = what.partition(":")[0] != self.what.partition(":")[0]
        return of_another or what == self.what.partition(",")[0]

    def start(self) -> None:
        with self.lock:
            self.started = True
            if self.what:
                self.show()

    def show(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        """Nothing to end."""

    @property
    def share(self) -> float:
        return min(1.0, (self.work + self.there[1]) / self.all_work) if self.all_work else 1.0

    @property
    def left(self) -> str:
        """The time left at the measured speed; empty before there is one."""
        passed = time.monotonic() - (self.computing or time.monotonic())
        if self.computed <= 0 or passed < SECONDS_OF_SPEED:
            return ""
        seconds = (1 - self.share) * self.all_work * passed / self.computed
        minutes = round(seconds / 60)
        if minutes < 2:
            return f"about {seconds:.0f} s left"
        return f"about {minutes} min left" if minutes < 120 else f"about {minutes / 60:.1f} h left"


class _Bar(_Report):
    """A bar on a terminal."""

    def __init__(
        self, total: int, noun: str, work: float | None, there: tuple[int, float], console: Any
    ) -> None:
        from rich import progress as bars

        super().__init__(total, noun, work, there)
        self.bar = bars.Progress(
            bars.TextColumn("{task.description}"),
            bars.BarColumn(),
            bars.TaskProgressColumn(),
            bars.TextColumn("{task.fields[units]}"),
            bars.TimeElapsedColumn(),
            bars.TextColumn("{task.fields[left]}"),
            console=console,
        )
        self.handle = self.bar.add_task(noun, total=self.all_work, units="", left="")

    def start(self) -> None:
        self.bar.start()
        super().start()

    def show(self) -> None:
        self.bar.update(
            self.handle,
            description=self.what,
            completed=self.share * self.all_work,
            units=f"{self.units + self.there[0]}/{self.total} {self.noun}",
            left=self.left,
        )

    def stop(self) -> None:
        if self.started:
            self.bar.stop()


class _Lines(_Report):
    """A line for each new subject, and one each 30 s while it stays the same, reported or not."""

    label, said_at = "", 0.0

    def start(self) -> None:
        self.ended = threading.Event()
        threading.Thread(target=self._repeat, daemon=True).start()
        super().start()

    def _repeat(self) -> None:
        while not self.ended.wait(min(1.0, SECONDS_BETWEEN_LINES)):
            with self.lock:
                if self.what:
                    self.show()

    def stop(self) -> None:
        if self.started:
            self.ended.set()

    def show(self) -> None:
        now, label = time.monotonic(), self.what.split(":")[0]
        if label != self.label or now - self.said_at > SECONDS_BETWEEN_LINES:
            self.label, self.said_at = label, now
            share = f"{self.share:.0%}, " if self.has_work else ""
            left = f", {self.left}" if self.has_work and self.left else ""
            click.echo(
                f"[{now - self.begun:6.0f} s] {share}{self.units + self.there[0]}/{self.total} "
                f"{self.noun}{left}; {'finished' if self.finished else 'now'} {self.what}",
                err=True,
            )
