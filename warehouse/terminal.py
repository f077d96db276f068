"""Terminal output: tables that fit, notes, and counts."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warehouse.errors import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PIPED_WIDTH = 150
"""Columns where output is no terminal and COLUMNS isn't set."""

_GAP = 2
NARROWEST_TEXT = 16
"""Columns below which a column of text isn't folded further."""
_INDENT = "  "
"""Before the continuation of a broken name."""


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
    if given.isascii() and given.isdecimal() and len(given) < 6 and int(given) >= NARROWEST_TEXT:
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

    Columns marked `extra` are left out where the table is too wide with them, then names are
    broken as `broken` does. Numbers and words of headings are never broken: if the table is still
    too wide, lines exceed the terminal.

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
    table = _table(columns, console.width, last_is_total)
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


def _table(columns: Sequence[Column], width: int, last_is_total: bool) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    cells = []
    for column, room in zip(columns, _widths(columns, width), strict=True):
        shown = [visible(cell) for cell in column.cells]
        if column.text:
            shown = [broken(cell, room) for cell in shown]
        cells.append(shown)
        table.add_column(
            column.heading,
            justify="left" if column.text else "right",
            no_wrap=not column.text,
            overflow="fold",
            min_width=room,
            max_width=room,
        )
    rows = list(zip(*cells, strict=True))
    for number, row in enumerate(rows):
        total = last_is_total and number == len(rows) - 1
        table.add_row(*map(Text, row), style="bold" if total else "")
    return table


def _widths(columns: Sequence[Column], width: int) -> list[int]:
    """Widths of the columns: of text, as wide as fits, and as wide as its longest part if it can.

    The widest columns of text are narrowed first.
    """
    whole = [_width(column) for column in columns]
    least = [_longest_part(column) if column.text else 0 for column in columns]
    widths = whole
    for parts in (least, [0] * len(columns)):
        for most in range(max(whole, default=0), NARROWEST_TEXT - 1, -1):
            widths = [
                max(min(full, most), part) if column.text else full
                for column, full, part in zip(columns, whole, parts, strict=True)
            ]
            if sum(widths) + _GAP * (len(widths) - 1) <= width:
                return widths
    return widths


def _longest_part(column: Column) -> int:
    """Width of the longest part of a column's names and words that isn't broken."""
    words = [word for line in column.heading.split("\n") for word in line.split(" ")]
    for cell in column.cells:
        for word in visible(cell).split():
            first, *rest = re.split(f"{_STRONG}|{_WEAK}", word)
            words += [first, *(_INDENT + part for part in rest)]
    return max(map(len, words), default=0)


_STRONG = "(?<=/)|(?=@)"
_WEAK = "(?<=_)|(?<=[^\\W_]-)"
"""Where names are broken: after `/` and before `@`, else after `_` and `-`."""


def broken(text: str, width: int) -> str:
    """A text on lines of this width, between words; a longer name is broken and indented.

    A name is broken after `/` and before `@`, and after `_` and `-` only where the part between is
    longer than a line.
    """
    lines: list[str] = []
    for word in text.split(" "):
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines += [word] if len(word) <= width else _lines_of_name(word, width)
    return "\n".join(lines)


def _lines_of_name(name: str, width: int) -> list[str]:
    lines = [""]
    for part in re.split(_STRONG, name):
        whole = len(_INDENT + part) <= width
        for piece in [part] if whole else re.split(_WEAK, part):
            if lines[-1] and len(lines[-1] + piece) > width:
                lines.append(_INDENT)
            lines[-1] += piece
    return lines
