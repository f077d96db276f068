"""What a terminal shows: whole tables, and numbers of things."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def counted(number: int, noun: str) -> str:
    """A number of things: `1 model`, `1,200 models`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def print_whole(console: Console, table: Table) -> None:
    """Print a table; where a terminal is too narrow its lines run on, and no heading is cut."""
    from rich.measure import Measurement

    unbounded = console.options.update(max_width=10_000)
    console.width = max(console.width, Measurement.get(console, unbounded, table).maximum)
    console.print(table)
