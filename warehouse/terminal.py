"""Terminal output: tables that fit, notes, and counts."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from warehouse.errors import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PIPED_WIDTH = 150
"""Columns where output is no terminal and COLUMNS isn't set."""

_GAP = 2
NARROWEST = 16
"""Columns below which COLUMNS is ignored."""
LONGEST_UNFOLDED = 20
"""Characters of the longest name that is never folded."""


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
    """The value of COLUMNS if a table fits it, else the terminal's width; None without either."""
    given = os.environ.get("COLUMNS", "")
    if given.isascii() and given.isdecimal() and len(given) < 6 and int(given) >= NARROWEST:
        return int(given)
    if sys.stdout.isatty():
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    return None


def terminal_console() -> Console:
    """A console as wide as the terminal; where there is none, as COLUMNS or `PIPED_WIDTH`."""
    from rich.console import Console

    # with a height, too, rich asks neither the terminal nor COLUMNS
    width = terminal_width() or PIPED_WIDTH
    return Console(markup=False, emoji=False, highlight=False, width=width, height=25)


def print_notes(console: Console, lines: Iterable[str], style: str = "") -> None:
    """Print sentences, wrapped at the terminal's width; where there is none, a line each."""
    has_width = terminal_width() is not None
    for line in lines:
        console.print(visible(line), style=style, soft_wrap=not has_width)


def print_columns(
    console: Console,
    columns: Sequence[Column],
    title: str = "",
    wide: bool = False,
    last_is_total: bool = False,
) -> list[str]:
    """Print a table as wide as the console.

    Columns marked `extra` are left out where the table is too wide with them, then text is folded.
    Numbers are never folded: if the table is still too wide, lines exceed the terminal.

    Args:
        wide: show all columns, however wide.
        last_is_total: whether the last row is a sum of the others.

    Returns:
        Headings of the columns that were left out; `left_out_notes` names them.
    """
    if not wide and sum(map(_width, columns)) + _GAP * (len(columns) - 1) > console.width:
        left_out = [column.heading.replace("\n", " ") for column in columns if column.extra]
        columns = [column for column in columns if not column.extra]
    else:
        left_out = []
    if title:
        console.print(visible(title), style="bold")
    table = _table(_foldable(columns, console.width), last_is_total)
    least = sum(column.min_width or 0 for column in table.columns) + _GAP * (len(columns) - 1)
    width, console.width = console.width, max(console.width, least)
    console.print(table)
    console.width = width
    return left_out


def left_out_notes(headings: Sequence[str], remedy: str = "--wide") -> list[str]:
    """A note that names the columns for which the terminal is too narrow, if there are any."""
    return [f"not shown ({remedy}): {', '.join(headings)}"] if headings else []


def _width(column: Column) -> int:
    from rich.cells import cell_len

    lines = [*column.heading.split("\n"), *(visible(cell) for cell in column.cells)]
    return max(map(cell_len, lines))


def _foldable(columns: Sequence[Column], width: int) -> Sequence[Column]:
    """With a space before the `@` of names too long for the only text column, where they fold."""
    from rich.cells import cell_len

    texts = [column for column in columns if column.text]
    if len(texts) != 1:
        return columns
    numbers = sum(_width(column) for column in columns if not column.text)
    room = width - numbers - _GAP * (len(columns) - 1)
    cells = [
        cell.replace("@", " @") if cell_len(visible(cell)) > room else cell
        for cell in texts[0].cells
    ]
    return [replace(column, cells=cells) if column.text else column for column in columns]


def _table(columns: Sequence[Column], last_is_total: bool) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        words = " ".join([*column.heading.split("\n"), *map(visible, column.cells)]).split()
        longest = max(map(len, words), default=0)
        table.add_column(
            column.heading,
            justify="left" if column.text else "right",
            no_wrap=not column.text,
            overflow="fold",
            min_width=min(longest, LONGEST_UNFOLDED) if column.text else _width(column),
        )
    rows = list(zip(*(column.cells for column in columns), strict=True))
    for number, row in enumerate(rows):
        total = last_is_total and number == len(rows) - 1
        table.add_row(*(Text(visible(cell)) for cell in row), style="bold" if total else "")
    return table
