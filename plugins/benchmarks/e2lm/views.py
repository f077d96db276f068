"""Tables of `tokenmart e2lm`: signal scores with what is missing, and scoring methods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from plugins.benchmarks.e2lm.score import Entry, SignalScores
from warehouse.terminal import Column, left_out_notes, print_columns, print_notes, terminal_console

MOST_ROWS = 40
MOST_REASONS = 5
_COLUMNS = {
    "checkpoints": ("early_checkpoints", True),
    "SQ": ("sq", False),
    "RC": ("rc", False),
    "CS": ("cs", False),
    "weighted": ("weighted_score", False),
    "decides": ("decision_accuracy", False),
    "SNR": ("snr", True),
}
"""Heading → statistic, and whether it is left out on a narrow terminal."""

FEW_RUNS = 10
"""With fewer runs, how few pairs they make is printed below the table."""


def print_scores(found: SignalScores, wide: bool = False) -> None:
    """Print a row per model and benchmark, and why a part of the weighted score is missing.

    Args:
        found: the statistics.
        wide: show all columns, however narrow the terminal is.
    """
    console = terminal_console()
    rows = [
        (model, benchmark, entry)
        for model, entries in found.entries.items()
        for benchmark, entry in entries.items()
    ]
    shown = rows[:MOST_ROWS]
    left_out = print_columns(
        console,
        [
            Column("model", [model for model, _, _ in shown], text=True),
            Column("benchmark", [benchmark for _, benchmark, _ in shown], text=True),
            *(
                Column(heading, [_number(entry.get(name)) for _, _, entry in shown], extra=extra)
                for heading, (name, extra) in _COLUMNS.items()
            ),
        ],
        wide=wide,
    )
    lines = [*_tied(rows), *_reasons(rows), *left_out_notes(left_out)]
    if len(rows) > MOST_ROWS:
        lines.insert(
            0, f"and {len(rows) - MOST_ROWS} more rows: see --model, or all of them with --out"
        )
    print_notes(console, lines, "dim")


def _tied(rows: list[tuple[str, str, Entry]]) -> Iterator[str]:
    """Rows whose SQ depends on the order of equal scores, widest range first."""
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
    """Why a weighted score is undefined, each reason once, with the first row concerned."""
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


def print_readings(found: list[dict[str, Any]], wide: bool = False) -> None:
    """Print a table for each problem and stage: scoring methods, best first.

    Args:
        found: from `compare_readings`.
        wide: show all columns, however narrow the terminal is.
    """
    console = terminal_console()
    left_out: list[str] = []
    for problem in found:
        for stage in problem["stages"]:
            rows, chosen = stage["readings"], stage["held_out"]["chosen"]
            names = [r["reading"] + ", no evaluation" * r["no_evaluation"] for r in rows]
            minus_target = [_interval(row["minus_target_interval"]) for row in rows]
            columns = [
                Column("scoring method", names, text=True),
                Column("decides", [f"{row['decision_accuracy']:.3f}" for row in rows]),
                Column("95% CI", [_interval(row["interval"], "") for row in rows]),
                Column("minus\ntarget's", [f"{row['minus_target']:+.3f}" for row in rows]),
                Column("95% CI", minus_target),
                *(
                    Column(heading, [_or_dash(row[name]) for row in rows], extra=True)
                    for heading, name in (
                        ("in family", "within_families"), ("SQ", "sq"), ("SNR", "snr"),
                    )
                ),
                Column("chosen", [f"{chosen.get(r['reading'], 0)}×" for r in rows], extra=True),
            ]  # fmt: skip
            title = f"{problem['problem']}, {stage['stage']}"
            left_out = print_columns(console, columns, title, wide) or left_out
            console.print()
    print_notes(console, [*_few_runs(found), *left_out_notes(left_out)], "dim")


def _few_runs(found: list[dict[str, Any]]) -> Iterator[str]:
    """Notes on the effect of one pair and one run, if few runs were compared."""
    for problem in found:
        for stage in problem["stages"]:
            if stage["runs"] < FEW_RUNS:
                pairs, tasks = stage["pairs"], stage["tasks"]
                yield (
                    f"{problem['problem']}, {stage['stage']}: {stage['runs']} runs make {pairs} "
                    f"{'pair' if pairs == 1 else 'pairs'} on {tasks} "
                    f"{'task' if tasks == 1 else 'tasks'}: one pair on one task changes a decision "
                    f"accuracy by {1 / (pairs * tasks):.3f}, and one run by up to "
                    f"{2 / stage['runs']:.3f}"
                )


def _or_dash(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _interval(bounds: list[float], sign: str = "+") -> str:
    return f"{bounds[0]:{sign}.2f} to {bounds[1]:{sign}.2f}"
