"""A task's items.jsonl with the chosen items only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plugins.benchmarks.json_files import parse_json, text_lines
from plugins.benchmarks.refusal import refused


def chosen_lines(path: Path, items: Sequence[Any]) -> str:
    """The lines of the chosen items, in the file's order.

    Args:
        path: JSON lines; the first line is item 0.
        items: numbers of items.

    Raises:
        TokenmartError: the file can't be read, a line is not JSON, or an item has no line.
    """
    lines = []
    for place, line in text_lines(path):
        parse_json(line, place)
        lines.append(line.rstrip("\r\n"))
    numbers = set()
    for item in items:
        text = str(item)
        if not (text.isascii() and text.isdecimal() and int(text) < len(lines)):
            raise refused(
                path,
                f"no line for item {item!r}, only for items 0 to {len(lines) - 1}; name the file "
                "that the scored task reads",
                "no-line",
            )
        numbers.add(int(text))
    return "".join(f"{lines[number]}\n" for number in sorted(numbers))
