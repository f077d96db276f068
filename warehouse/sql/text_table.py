"""Rows as a text table that fits a terminal: numbers whole, long texts cut, headings on lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import zip_longest
from typing import Any

from warehouse.errors import visible

_WIDEST_CELL = 80
_NARROWEST_TEXT = 12
_GAP = 2


@dataclass(frozen=True)
class TextTable:
    """A table as lines, and what it leaves out.

    lines: without line ends.
    hidden: names of columns that aren't shown, from the right.
    cut: whether a text is shortened (…).
    """

    lines: list[str]
    hidden: tuple[str, ...] = ()
    cut: bool = False


def text_table(
    names: Sequence[str], rows: Sequence[Sequence[Any]], width: int | None, whole: bool = False
) -> TextTable:
    """Arrange rows under their columns' names.

    Too wide a table gets headings on several lines, then shorter texts, then fewer columns.

    Args:
        names: of the columns.
        rows: values; numbers are aligned right, those with a fraction at six digits.
        width: columns of the terminal; None for a table as wide as it is.
        whole: never shorten a text; otherwise one has at most 80 characters.
    """
    heads = [_cell(name) for name in names]
    columns = [[_cell(row[place]) for row in rows] for place in range(len(heads))]
    values = [[row[place] for row in rows] for place in range(len(heads))]
    numeric = [
        bool(rows) and all(isinstance(value, int | float | Decimal | None) for value in column)
        for column in values
    ]
    is_text = [any(isinstance(value, str | list | dict) for value in column) for column in values]
    inside = [max(map(_width, column), default=0) for column in columns]
    most = [
        min(cells, _WIDEST_CELL) if text and not whole else cells
        for cells, text in zip(inside, is_text, strict=True)
    ]
    widths = [max(cells, _width(head)) for cells, head in zip(most, heads, strict=True)]
    if width is not None and _total(widths) > width:
        widths = _narrowed(most, [max(map(_width, _parts(head))) for head in heads], is_text, width)
    shown = len(widths)
    above = [_on_lines(head, wide)[::-1] for head, wide in zip(heads, widths, strict=False)]
    lines = [_line(line, widths, numeric) for line in zip_longest(*above, fillvalue="")][::-1]
    lines.append((" " * _GAP).join("─" * wide for wide in widths))
    fitted = list(map(_fitted, columns[:shown], widths))
    lines += [_line(row, widths, numeric) for row in zip(*fitted, strict=True)]
    if not rows:
        lines.append("(no rows)")
    cut = any(cells > wide for cells, wide in zip(inside, widths, strict=False))
    return TextTable(lines, tuple(heads[shown:]), cut)


def _narrowed(
    most: Sequence[int], least: Sequence[int], is_text: Sequence[bool], width: int
) -> list[int]:
    """Widths of as many columns as fit, from the left; texts as wide as they can then be."""
    for shown in range(len(most), 0, -1):
        for cap in range(max(*most, _NARROWEST_TEXT), _NARROWEST_TEXT - 1, -1):
            widths = [
                max(min(cells, cap) if text else cells, head)
                for cells, head, text in zip(most[:shown], least, is_text, strict=False)
            ]
            if _total(widths) <= width:
                return widths
    return [max(most[0], least[0])]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _parts(name: str) -> list[str]:
    """A column's name, divided after `_`."""
    return re.findall(r"[^_]*_+|[^_]+", name) or [name]


def _on_lines(name: str, width: int) -> list[str]:
    """A column's name on as few lines of this width as its parts need."""
    first, *rest = _parts(name)
    lines = [first]
    for part in rest:
        if _width(lines[-1] + part) <= width:
            lines[-1] += part
        else:
            lines.append(part)
    return lines


def _line(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    padded = []
    for cell, wide, right in zip(cells, widths, numeric, strict=False):
        space = " " * (wide - _width(cell))
        padded.append(space + cell if right else cell + space)
    return (" " * _GAP).join(padded).rstrip()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float | Decimal):
        return f"{float(value):.6g}"
    return visible(str(value)).replace("\n", "\\n").replace("\t", "\\t")


def _width(text: str) -> int:
    """Columns of a terminal: characters of Chinese, Japanese and Korean take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _fitted(cells: Sequence[str], width: int) -> list[str]:
    """A column's cells, cut at the end; in the middle where more of them then stay distinct."""
    cut = {cell for cell in cells if _width(cell) > width}
    ways = ({cell: _fit(cell, width, ending) for cell in cut} for ending in _endings(width))
    best = next(ways)
    for fitted in ways:
        if len(set(best.values())) == len(cut):
            break
        if len(set(fitted.values())) > len(set(best.values())):
            best = fitted
    return [best.get(cell, cell) for cell in cells]


def _endings(width: int) -> list[int]:
    """Characters to keep of a cell's end, in the order of trial: none, half, more, all."""
    return [0, *range((width - 1) // 2, width)]


def _fit(text: str, width: int, ending: int = 0) -> str:
    """The text within this width, with `ending` columns of its end."""
    start = width - 1 - ending
    if text.isascii():
        return f"{text[:start]}…{text[len(text) - ending :]}"
    from rich.cells import set_cell_size

    end = set_cell_size(text[::-1], ending).rstrip()[::-1]
    return f"{set_cell_size(text, start).rstrip()}…{end}"
