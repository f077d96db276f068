"""What a choice of items was worth, in the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

NAMES = {
    "sq": "SQ",
    "monotonicity": "monotonicity",
    "autocorrelation": "autocorrelation",
    "cs": "CS",
    "weighted": "weighted SQ and CS",
    "decision_accuracy": "decision accuracy",
}


def print_curation(found: dict[str, Any]) -> None:
    """What the choice is worth, by statistic, and where the chosen items lie."""
    console = _console()
    view = Table(box=None, pad_edge=False, header_style="bold")
    view.add_column("on models not used for choosing")
    headings = ("all items", "random ones", "chosen", "chosen, where chosen", "optimism", "better")
    for heading in headings:
        view.add_column(heading, justify="right", no_wrap=True)
    for name, row in found["held_out"].items():
        if not row["compared"]:
            continue
        view.add_row(
            NAMES[name],
            *(_number(row[key]) for key in ("all", "random", "chosen", "in_sample")),
            "–" if row["optimism"] is None else f"{row['optimism']:+.3f}",
            f"{row['better']} of {row['compared']}",
        )
    console.print(view)
    for key, heading in (("by_subject", "subject"), ("by_length", "answer, characters")):
        if len(found[key]) < 2:
            continue
        view = Table(box=None, pad_edge=False, header_style="bold")
        view.add_column(heading)
        for column in ("items", "chosen", "mean score", "rise", "wobble"):
            view.add_column(column, justify="right")
        for row in found[key]:
            figures = (f"{row[name]:.3f}" for name in ("score", "rise", "wobble"))
            view.add_row(row["group"], str(row["items"]), f"{row['share_chosen']:.0%}", *figures)
        console.print()
        console.print(view)


def print_methods(methods: dict[str, dict[str, Any]]) -> None:
    """Each method's chosen items on models that had no part in the choice."""
    view = Table(box=None, pad_edge=False, header_style="bold")
    view.add_column("method (held out)")
    shown = [name for name in NAMES if any(row[name]["compared"] for row in methods.values())]
    for name in shown:
        view.add_column(NAMES[name], justify="right")
    first = next(iter(methods.values()))
    for label, key in (("all items", "all"), ("random items", "random")):
        view.add_row(label, *(_number(first[name][key]) for name in shown))
    for method, row in methods.items():
        view.add_row(method, *(_number(row[name]["chosen"]) for name in shown))
    console = _console()
    console.print()
    console.print(view)


def _console() -> Console:
    return Console(markup=False, emoji=False, width=110)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
