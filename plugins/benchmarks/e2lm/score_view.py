"""Print signal scores: a table, and why values are missing or uncertain."""

from __future__ import annotations

from collections.abc import Iterator

from plugins.benchmarks.e2lm.reasons import REASONS
from plugins.benchmarks.e2lm.score import Entry, SignalScores
from plugins.benchmarks.e2lm.scores import FEWEST_PAIRS
from warehouse.terminal import Column, counted, print_columns, print_notes, terminal_console

MOST_ROWS = 10
_COLUMNS = {
    "SQ": "sq",
    "RC": "rc",
    "CS": "cs",
    "weighted": "weighted_score",
    "decision\naccuracy": "decision_accuracy",
    "SNR": "snr",
}
"""Heading → statistic."""

_Row = tuple[str, str, Entry]


def print_scores(signals: SignalScores, explain: bool = False) -> None:
    """Print a row per model and benchmark, the ten with the highest weighted score (else SQ).

    Args:
        found: the statistics.
        explain: print all rows, and the reasons of all statistics instead of those shown.
    """
    console = terminal_console()
    rows = [
        (model, benchmark, entry)
        for model, entries in signals.entries.items()
        for benchmark, entry in entries.items()
    ]
    has_scores = any(entry["weighted_score"] is not None for *_, entry in rows)
    by = "weighted_score" if has_scores else "sq"
    rows.sort(key=lambda row: (row[2][by] is None, -(row[2][by] or 0), row[:2]))
    shown = rows if explain else rows[:MOST_ROWS]
    columns = [
        Column("model", [model for model, _, _ in shown], text=True),
        Column("benchmark", [benchmark for _, benchmark, _ in shown], text=True),
    ]
    for heading, name in _COLUMNS.items():
        values = [entry.get(name) for *_, entry in shown]
        columns.append(Column(heading, ["–" if v is None else f"{v:.3f}" for v in values]))
    print_columns(console, columns, wide=explain)
    notes = [*_few_pairs(rows), *_tied(rows), *_reasons(rows, explain)]
    if more := len(rows) - len(shown):
        notes.append(f"--explain: {counted(more, 'more row')}, reasons of all statistics.")
    print_notes(console, notes, "dim")


def _few_pairs(rows: list[_Row]) -> Iterator[str]:
    pairs = [row[2]["decision_pairs"] for row in rows if row[2].get("decision_pairs")]
    if pairs and min(pairs) < FEWEST_PAIRS:
        yield (
            f"Decision accuracy of {min(pairs):g} pairs of runs: with fewer than {FEWEST_PAIRS}, "
            "it is mostly chance."
        )


def _tied(rows: list[_Row]) -> Iterator[str]:
    """How much SQ depends on the order of equal scores."""
    ranges = [
        (entry["sq"] - entry["sq_low"], model, benchmark, entry)
        for model, benchmark, entry in rows
        if entry.get("sq_low") is not None and f"{entry['sq_low']:.4f}" != f"{entry['sq']:.4f}"
    ]
    if ranges:
        _, model, benchmark, entry = max(ranges, key=lambda spread: spread[0])
        yield (
            f"SQ of {counted(len(ranges), 'row')} depends on the order of equal scores, which "
            f"numpy's sort leaves open; shown is the highest. Most: {model}, {benchmark}, "
            f"{entry['sq_low']:.4f} to {entry['sq']:.4f}."
        )


def _reasons(rows: list[_Row], explain: bool) -> Iterator[str]:
    """Each reason with its statistics and the number of rows."""
    places: dict[str, dict[str, int]] = {}
    for _, _, entry in rows:
        for name, code in entry["reasons"].items():
            if explain or name in _COLUMNS.values():
                places.setdefault(code, {}).setdefault(name, 0)
                places[code][name] += 1
    for code, names in places.items():
        count = counted(max(names.values()), "row")
        yield f"{', '.join(names)}: {REASONS.get(code, code)} ({count})"
