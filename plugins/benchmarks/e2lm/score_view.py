"""Print signal scores: verdict, a table, and the notes that change what a reader would conclude."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

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
    "decides": "decision_accuracy",
    "SNR": "snr",
}
"""Heading → statistic."""
_DEFINITIONS = (
    "SQ: signal quality, whether early scores rise steadily. RC: whether later checkpoints rank "
    "the runs as early ones do. CS: lead of runs on science data over runs on web data.",
    "decides: share of pairs of runs that the last early checkpoint orders as the last one does. "
    "SNR: spread of the final scores over the noise of the last checkpoints.",
    "Formulas: docs/explanation/signal_of_benchmarks.md",
)

_Row = tuple[str, str, Entry]


def print_scores(found: SignalScores, explain: bool = False) -> None:
    """Print a row per model and benchmark, the ten with the highest weighted score (else SQ).

    Args:
        found: the statistics.
        explain: print all rows, definitions, and every reason and note.
    """
    console = terminal_console()
    rows = [
        (model, benchmark, entry)
        for model, entries in found.entries.items()
        for benchmark, entry in entries.items()
    ]
    ranked_by = "weighted_score" if any(_has(row, "weighted_score") for row in rows) else "sq"
    rows.sort(key=lambda row: (not _has(row, ranked_by), -(row[2].get(ranked_by) or 0), row[:2]))
    shown = rows if explain else rows[:MOST_ROWS]
    print_notes(console, [_verdict(rows, ranked_by)])
    columns = {
        heading: [_number(entry.get(name)) for _, _, entry in shown]
        for heading, name in _COLUMNS.items()
        if any(_has(row, name) for row in rows)
    }
    print_columns(
        console,
        [
            Column("model", [_cut(model, explain) for model, _, _ in shown], text=True),
            Column("benchmark", [_cut(benchmark, explain) for _, benchmark, _ in shown], text=True),
            *(Column(heading, values) for heading, values in columns.items()),
        ],
        wide=explain,
    )
    notes = [*_missing(rows), *_few_pairs(rows), *_tied(rows)]
    if explain:
        lines = [*_DEFINITIONS, *notes, *_every_reason(rows), *found.notes]
    else:
        lines = notes[:3]
        more = [f"{len(rows) - len(shown)} more rows"] * (len(rows) > len(shown))
        more += [f"{counted(len(found.notes), 'note')} on the table"] * bool(found.notes)
        lines.append(f"--explain: {', '.join([*more, 'definitions, every reason'])}.")
    print_notes(console, lines, "dim")


def _verdict(rows: list[_Row], name: str) -> str:
    """The benchmarks with the highest mean over models."""
    found: dict[str, list[float]] = {}
    for row in rows:
        if _has(row, name):
            found.setdefault(row[1], []).append(row[2][name])
    means = sorted(((fmean(each), benchmark) for benchmark, each in found.items()), reverse=True)
    heading = next(heading for heading, each in _COLUMNS.items() if each == name)
    if not means:
        return f"No {heading} of {counted(len(rows), 'row')}."
    best = ", ".join(f"{benchmark} {mean:.3f}" for mean, benchmark in means[:3])
    models = counted(len({row[0] for row in rows}), "model")
    return f"Highest {heading}, mean over {models}: {best} (of {counted(len(means), 'benchmark')})."


def _has(row: _Row, name: str) -> bool:
    return row[2].get(name) is not None


def _cut(name: str, explain: bool) -> str:
    return name if explain or len(name) <= 20 else f"{name[:19]}…"


def _missing(rows: list[_Row]) -> Iterator[str]:
    """Columns without any value, and why the first row has none."""
    empty: dict[str, list[str]] = {}
    for heading, name in _COLUMNS.items():
        if not any(_has(row, name) for row in rows):
            empty.setdefault(rows[0][2]["reasons"].get(name, ""), []).append(heading)
    if empty:
        listed = (
            f"{', '.join(names)} ({REASONS.get(code, code)})" for code, names in empty.items()
        )
        yield f"Undefined: {'; '.join(listed)}."


def _few_pairs(rows: list[_Row]) -> Iterator[str]:
    pairs = [row[2]["decision_pairs"] for row in rows if row[2].get("decision_pairs")]
    if pairs and min(pairs) < FEWEST_PAIRS:
        yield (
            f"decides rests on {min(pairs):g} pairs of runs; with fewer than {FEWEST_PAIRS}, it is "
            "mostly chance."
        )


def _tied(rows: list[_Row]) -> Iterator[str]:
    """How much SQ depends on the order of equal scores."""
    ranges = [
        (entry["sq_high"] - entry["sq_low"], model, benchmark, entry)
        for model, benchmark, entry in rows
        if entry.get("sq_low") is not None and f"{entry['sq_low']:.4f}" != f"{entry['sq']:.4f}"
    ]
    if ranges:
        _, model, benchmark, entry = max(ranges, key=lambda found: found[0])
        yield (
            f"SQ of {counted(len(ranges), 'row')} depends on the order of equal scores, which "
            f"numpy's sort leaves open; shown is the highest. Most: {model}, {benchmark}, "
            f"{entry['sq_low']:.4f} to {entry['sq_high']:.4f}."
        )


def _every_reason(rows: list[_Row]) -> Iterator[str]:
    """Each reason with its statistics and the number of rows."""
    places: dict[str, dict[str, int]] = {}
    for _, _, entry in rows:
        for name, code in entry["reasons"].items():
            places.setdefault(code, {}).setdefault(name, 0)
            places[code][name] += 1
    for code, names in places.items():
        yield f"{', '.join(names)}: {REASONS.get(code, code)} ({max(names.values())} rows)"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:g}" if float(value).is_integer() else f"{value:.3f}"
