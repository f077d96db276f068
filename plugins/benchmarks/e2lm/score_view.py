"""Print signal scores as a table, with the reasons for missing scores."""

from __future__ import annotations

from collections.abc import Iterator

from plugins.benchmarks.e2lm.score import Entry, SignalScores
from plugins.benchmarks.e2lm.scores import FEWEST_PAIRS
from warehouse.terminal import (
    Column,
    left_out_notes,
    print_columns,
    print_notes,
    terminal_console,
)

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
"""Heading → statistic, and whether a narrow terminal leaves it out."""


def print_scores(found: SignalScores, wide: bool = False) -> None:
    """Print a row per model and benchmark, and the reasons for missing parts of the weighted score.

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
    lines = [*_tied(rows), *_reasons(rows), *_empty(rows), *left_out_notes(left_out)]
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
    """Reasons why weighted scores are undefined, each with the first row that has it."""
    places: dict[str, list[str]] = {}
    for model, benchmark, entry in rows:
        reason = entry["reasons"].get("weighted_score")
        if reason:
            places.setdefault(reason, []).append(f"{model}, {benchmark}")
    for reason, found in list(places.items())[:MOST_REASONS]:
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        yield f"no weighted score for {found[0]}{more}: {reason}"


def _empty(rows: list[tuple[str, str, Entry]]) -> Iterator[str]:
    """Reasons for columns without any value, and the stage and pairs of decision accuracies."""
    empty: dict[str, list[str]] = {}
    for heading, name in (("RC", "rc"), ("CS", "cs"), ("decides", "decision_accuracy")):
        if all(entry.get(name) is None for _, _, entry in rows):
            for reason in {entry["reasons"].get(name): None for _, _, entry in rows}:
                empty.setdefault(reason or "undefined", []).append(heading)
        elif heading == "decides":
            pairs = {entry["decision_pairs"] for _, _, entry in rows if entry["decision_pairs"]}
            least, most = min(pairs), max(pairs)
            yield (
                "decides: decision accuracy at the last early checkpoint (at the smallest size if "
                "no two runs have several checkpoints); number of pairs: "
                f"{f'{least:g} to ' * (least < most)}{most:g}"
                + f"; with fewer than {FEWEST_PAIRS}, it is mostly chance"
                * (least < FEWEST_PAIRS)
            )
    if all(entry.get("snr") is None for _, _, entry in rows):
        reasons = rows[0][2]["reasons"]
        known = (reasons.get(name) for name in ("noise_sd", "noise", "signal", "snr"))
        empty.setdefault(next(filter(None, known), "undefined"), []).append("SNR")
    for reason, headings in empty.items():
        yield f"no value of {', '.join(headings)}: {reason}"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:g}" if float(value).is_integer() else f"{value:.3g}"
