"""Results of `tokenmart e2lm curate`: the chosen items next to all and to random ones.

A table in the terminal, and a task's items.jsonl with the chosen items only.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warehouse.errors import TokenmartError
from warehouse.terminal import Column, print_columns, terminal_console
from warehouse.text_file import parse_json, text_lines

NAMES = {
    "sq": "SQ",
    "monotonicity": "monotonicity",
    "autocorrelation": "autocorrelation",
    "cs": "CS",
    "weighted": "weighted SQ and CS",
    "decision_accuracy": "decision accuracy",
}


def print_curation(found: dict[str, Any]) -> None:
    """Print statistics of the chosen items on held-out models, and the items by group."""
    rows = {NAMES[name]: row for name, row in found["held_out"].items() if row["compared"]}
    optimism = [row["optimism"] for row in rows.values()]
    console = terminal_console()
    columns = [
        Column("on held-out models", list(rows), text=True),
        *(
            Column(heading, [_number(row[key]) for row in rows.values()])
            for heading, key in (
                ("all\nitems", "all"),
                ("random\nitems", "random"),
                ("chosen", "chosen"),
                ("chosen,\nin sample", "in_sample"),
            )
        ),
        Column("optimism", ["–" if each is None else f"{each:+.3f}" for each in optimism]),
        Column("better", [f"{row['better']} of {row['compared']}" for row in rows.values()]),
    ]
    print_columns(console, columns)
    for key, heading in (("by_subject", "subject"), ("by_length", "answer, characters")):
        groups = found[key]
        if len(groups) < 2:
            continue
        console.print()
        columns = [
            Column(heading, [row["group"] for row in groups], text=True),
            Column("items", [str(row["items"]) for row in groups]),
            Column("chosen", [f"{row['share_chosen']:.0%}" for row in groups]),
            *(
                Column(name, [f"{row[field]:.3f}" for row in groups])
                for name, field in (("mean score", "score"), ("rise", "rise"), ("noise", "wobble"))
            ),
        ]
        print_columns(console, columns)


def print_methods(methods: dict[str, dict[str, Any]]) -> None:
    """Print each method's chosen items on held-out models."""
    first = next(iter(methods.values()))
    columns = [
        Column("method (held out)", ["all items", "random items", *methods], text=True),
        *(
            Column(
                heading.replace(" ", "\n", 1),
                [
                    *(_number(first[name][key]) for key in ("all", "random")),
                    *(_number(row[name]["chosen"]) for row in methods.values()),
                ],
            )
            for name, heading in NAMES.items()
            if any(row[name]["compared"] for row in methods.values())
        ),
    ]
    console = terminal_console()
    console.print()
    print_columns(console, columns)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def chosen_lines(path: Path, items: Sequence[Any]) -> str:
    """The lines of the chosen items, in the file's order.

    Args:
        path: JSON lines; the first is item 0.
        items: numbers of items.

    Raises:
        TokenmartError: it can't be read, a line is no JSON, or an item has no line.
    """
    lines = []
    for place, line in text_lines(path):
        parse_json(line, place)
        lines.append(line.rstrip("\r\n"))
    numbers = set()
    for item in items:
        text = str(item)
        if not (text.isascii() and text.isdecimal() and int(text) < len(lines)):
            raise TokenmartError(
                f"{path}: has no line for item {item!r}, only {len(lines)} lines, for items 0 "
                f"to {len(lines) - 1}; name the file that the scored task reads"
            )
        numbers.add(int(text))
    return "".join(f"{lines[number]}\n" for number in sorted(numbers))
