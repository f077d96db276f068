"""Signal scores as a table in the terminal, with what is missing for the others."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from plugins.benchmarks.e2lm.score import Entry, SignalScores
from warehouse.errors import visible
from warehouse.terminal import print_whole

MOST_ROWS = 40
MOST_REASONS = 5
_COLUMNS = {
    "SQ": "sq",
    "RC": "rc",
    "CS": "cs",
    "weighted": "weighted_score",
    "decides": "decision_accuracy",
    "SNR": "snr",
}


def print_scores(found: SignalScores) -> None:
    """A row per model and benchmark, and why a part of the weighted score is missing."""
    console = Console(markup=False, emoji=False, width=None if sys.stdout.isatty() else 120)
    view = Table(box=None, pad_edge=False, header_style="bold")
    view.add_column("model", overflow="fold")
    view.add_column("benchmark", overflow="fold")
    for heading in ("checkpoints", *_COLUMNS):
        view.add_column(heading, justify="right", no_wrap=True)
    rows = [
        (model, benchmark, entry)
        for model, entries in found.entries.items()
        for benchmark, entry in entries.items()
    ]
    for model, benchmark, entry in rows[:MOST_ROWS]:
        values = (_number(entry.get(name)) for name in ("early_checkpoints", *_COLUMNS.values()))
        view.add_row(visible(model), visible(benchmark), *values)
    print_whole(console, view)
    lines = [*_reasons(rows)]
    if len(rows) > MOST_ROWS:
        lines.insert(
            0, f"and {len(rows) - MOST_ROWS} more rows: see --model, or all of them with --out"
        )
    for line in lines:
        console.print(visible(line), style="dim", highlight=False)


def _reasons(rows: list[tuple[str, str, Entry]]) -> Iterator[str]:
    """Why a weighted score is undefined, each reason once, with the first that it holds for."""
    places: dict[str, list[str]] = {}
    for model, benchmark, entry in rows:
        reason = entry["reasons"].get("weighted_score")
        if reason:
            places.setdefault(reason, []).append(f"{model}, {benchmark}")
    for reason, found in list(places.items())[:MOST_REASONS]:
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        yield f"no weighted score for {found[0]}{more}: {reason}"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:g}" if float(value).is_integer() else f"{value:.3g}"
