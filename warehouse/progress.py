"""What a long run shows: a bar with ETA on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

Progress = Callable[[str, int], None]
"""Called with what is being done and how many units were finished since the last call."""

SECONDS_BETWEEN_LINES = 60.0
QUIET_SECONDS = 2.0
"""Work that takes less shows nothing."""


@contextmanager
def progress_bar(total: int, noun: str) -> Iterator[Progress]:
    """Show progress on stderr.

    Args:
        total: how many units there are, finished ones included.
        noun: what a unit is called.
    """
    from rich import progress as bars
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(total, noun)
        return
    with bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeElapsedColumn(),
        bars.TimeRemainingColumn(),
        console=console,
    ) as bar:
        handle = bar.add_task(noun, total=total)
        yield lambda what, units: bar.update(handle, description=what, advance=units)


def _lines(total: int, noun: str) -> Progress:
    """A line for each new subject, and one a minute while it stays the same."""
    started = said_at = time.monotonic()
    done, said = 0, ""

    def say(what: str, units: int) -> None:
        nonlocal done, said, said_at
        done += units
        label, now = what.split(":")[0], time.monotonic()
        if now - started < QUIET_SECONDS:
            return
        if label != said or now - said_at > SECONDS_BETWEEN_LINES:
            said, said_at = label, now
            click.echo(f"[{now - started:6.0f} s] {done}/{total} {noun}; now {what}", err=True)

    return say
