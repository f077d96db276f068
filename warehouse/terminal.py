"""Terminal output: tables that fit, notes, and counts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import click

from warehouse.errors import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PIPED_WIDTH = 150
"""Columns where output is no terminal and COLUMNS isn't set."""

LEAST_TEXT = 20
"""Characters of a text column, at least."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        heading: above it; may have line breaks.
        cells: one a row, as they are shown.
        text: aligned left, and folded on a narrow terminal; numbers are never folded.
        extra: shown only where the whole table fits, or with --wide.
    """

    heading: str
    cells: Sequence[str]
    text: bool = False
    extra: bool = False


def counted(number: int, noun: str) -> str:
    """A number of things: `1 model`, `1,200 models`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: Sequence[str], most: int = 3, noun: str = "") -> str:
    """The first names, and how many more there are: `a, b, c and 2 more`, `… and 2 more models`."""
    count = len(names) - most
    more = counted(count, f"more {noun}") if noun else f"{count:,} more"
    return ", ".join(names[:most]) + (f" and {more}" if count > 0 else "")


def file_size(size: int) -> str:
    """A number of bytes in the unit of a file listing: `36 kB`, `1.6 MB`."""
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"


def terminal_width() -> int | None:
    """COLUMNS, else the terminal's width; None without either."""
    return get_terminal_size((0, 0)).columns or None


def terminal_console() -> Console:
    """A console as wide as the terminal; where there is none, as COLUMNS or `PIPED_WIDTH`."""
    from rich.console import Console

    # with a height, too, rich asks neither the terminal nor COLUMNS
    width = terminal_width() or PIPED_WIDTH
    return Console(markup=False, emoji=False, highlight=False, width=width, height=25)


def print_records(records: Iterable[Mapping[str, Any]]) -> None:
    """Print a list of records as JSON, the form of each `--json` of `warehouse.options.RECORDS`.

    Records of a command have the same names. Values are texts, numbers, truth values, null, or
    lists of these; docs/reference/records.schema.json describes them.
    """
    click.echo(json.dumps(list(records), indent=1, allow_nan=False))


def print_notes(console: Console, lines: Iterable[str], style: str = "") -> None:
    """Print sentences, wrapped at the terminal's width; where there is none, a line each."""
    for line in lines:
        console.print(visible(line), style=style, soft_wrap=terminal_width() is None)


def print_columns(
    console: Console,
    columns: Sequence[Column],
    title: str = "",
    wide: bool = False,
    last_is_total: bool = False,
) -> list[str]:
    """Print a table; without columns marked `extra` where it is wider than the console with them.

    Args:
        wide: show all columns, however wide.
        last_is_total: whether the last row is a sum of the others.

    Returns:
        Headings of the columns that were left out; `left_out_notes` names them.
    """
    table = _table(columns, last_is_total)
    unbounded = console.options.update(width=100_000)
    left_out = []
    if not wide and console.measure(table, options=unbounded).maximum > console.width:
        left_out = [column.heading.replace("\n", " ") for column in columns if column.extra]
        table = _table([column for column in columns if not column.extra], last_is_total)
    if title:
        console.print(visible(title), style="bold")
    console.print(table, crop=False)
    return left_out


def left_out_notes(headings: Sequence[str], remedy: str = "--wide") -> list[str]:
    """A note that names the columns for which the terminal is too narrow, if there are any."""
    return [f"not shown ({remedy}): {', '.join(headings)}"] if headings else []


def _table(columns: Sequence[Column], last_is_total: bool) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        lines = [*column.heading.split("\n"), *map(visible, column.cells)]
        table.add_column(
            column.heading,
            justify="left" if column.text else "right",
            no_wrap=not column.text,
            overflow="fold",
            # numbers are never folded: where the table is too wide even so, its lines are
            min_width=min(max(map(len, lines)), LEAST_TEXT if column.text else PIPED_WIDTH),
        )
    rows = list(zip(*(column.cells for column in columns), strict=True))
    for number, row in enumerate(rows, start=1):
        style = "bold" if last_is_total and number == len(rows) else ""
        table.add_row(*(Text(visible(cell)) for cell in row), style=style)
    return table
