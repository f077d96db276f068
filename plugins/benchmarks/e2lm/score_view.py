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
    lines = [*_tied(rows), *_reasons(rows)]
    if len(rows) > MOST_ROWS:
        lines.insert(
            0, f"and {len(rows) - MOST_ROWS} more rows: see --model, or all of them with --out"
        )
    for line in lines:
        console.print(visible(line), style="dim", highlight=False)


def _tied(rows: list[tuple[str, str, Entry]]) -> Iterator[str]:
    """Where SQ depends on the order of equal scores, widest range first."""
    ranges = [
        (entry["sq_high"] - entry["sq_low"], f"{model}, {benchmark}", entry)
        for model, benchmark, entry in rows
        if entry.get("sq_low") is not None and _shown(entry["sq_low"]) != _shown(entry["sq_high"])
    ]
    if not ranges:
        return
    yield (
        f"SQ of {len(ranges)} of {len(rows)} rows depends on the order of equal scores. Here the "
        "earlier checkpoint comes first, which gives the highest SQ. The competition's notebook "
        "uses numpy's default sort, whose order of equal scores depends on the processor. The "
        "range over all orders:"
    )
    ranges.sort(key=lambda found: (-found[0], found[1]))
    for _, name, entry in ranges[:MOST_REASONS]:
        yield f"  {name}: {_shown(entry['sq_low'])} to {_shown(entry['sq_high'])}"
    if len(ranges) > MOST_REASONS:
        yield f"  and {len(ranges) - MOST_REASONS} more (sq_low and sq_high in --json)"


def _shown(value: float) -> str:
    return f"{value:.4f}"


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
