"""Progress of a long run: a bar with the time left on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Protocol

import click


class Progress(Protocol):
    """The interface that a long run calls to report progress."""

    def __call__(self, what: str, units: int, computed: bool = True) -> None:
        """Report what was done since the last call.

        Args:
            what: the step reported, and of what: `model: document 3`.
            units: finished since.
            computed: whether it took time: units that were there already don't count for the time
                left.
        """


SECONDS_BEFORE_SHOWN = 2.0
SECONDS_BETWEEN_LINES = 30.0


def no_progress(what: str, units: int, computed: bool = True) -> None:
    """Show nothing."""


@contextmanager
def progress_bar(total: int, noun: str, completed: int = 0) -> Iterator[Progress]:
    """Show progress on standard error; without a terminal, nothing of the first two seconds.

    The bars of libraries (downloads, loading of weights) are switched off meanwhile.

    Args:
        total: how many units there are, finished ones included.
        noun: what a unit is called, in the plural.
        completed: units that earlier runs have done; the caller reports them as not computed when
            it comes to them, and until then they are shown as done.
    """
    report = _Report(total, noun, completed)
    with without_library_bars(), report.bar:
        yield report


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
    """What is done of a total, kept by a bar of rich, which is drawn on a terminal only.

    `there` is what earlier runs have done and the caller has not reported yet.
    """

    def __init__(self, total: int, noun: str, completed: int) -> None:
        from rich import progress
        from rich.console import Console

        # rich takes a file for a terminal where the shell has FORCE_COLOR
        self.on_terminal = sys.stderr.isatty()
        self.bar = progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            progress.TaskProgressColumn(),
            progress.TextColumn("{task.fields[units]}"),
            progress.TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not self.on_terminal,
            speed_estimate_period=3600,
            transient=True,
        )
        self.total, self.noun = total, noun
        self.units, self.earlier = 0, completed
        task = self.bar.add_task("", total=total, completed=0, units="")
        self.task = self.bar.tasks[task]
        self.task.completed = completed
        self.begun, self.label, self.line_at = time.monotonic(), "", 0.0

    def __call__(self, what: str, units: int, computed: bool = True) -> None:
        self.units += units
        advance = units
        if not computed:
            known = min(units, self.earlier)
            # without a sample of the speed
            self.task.completed += units - known
            self.earlier -= known
            advance = 0
        finished = f"{self.units + self.earlier}/{self.total} {self.noun}"
        self.bar.update(self.task.id, advance=advance, description=what, units=finished)
        if not self.on_terminal:
            self._show_line(what, finished)

    def _show_line(self, what: str, finished: str) -> None:
        """A line for each new subject, and one each 30 s while it stays the same."""
        now, label = time.monotonic(), what.split(":")[0]
        if now - self.begun < SECONDS_BEFORE_SHOWN:
            return
        if label != self.label or now - self.line_at > SECONDS_BETWEEN_LINES:
            self.label, self.line_at = label, now
            left = self.task.time_remaining
            remains = "" if left is None else f", {timedelta(seconds=round(left))} left"
            click.echo(f"[{now - self.begun:6.0f} s] {finished}{remains}; {what}", err=True)
