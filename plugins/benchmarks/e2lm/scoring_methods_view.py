"""Tables of `tokenmart e2lm scoring-methods`: scoring methods by decision accuracy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from plugins.benchmarks.e2lm.scores import FEWEST_PAIRS
from plugins.benchmarks.e2lm.scoring_methods import FEWEST_UNITS
from warehouse.terminal import (
    Column,
    left_out_notes,
    print_columns,
    print_notes,
    terminal_console,
)

FEW_RUNS = 10
"""With fewer runs, a note on the number of pairs is printed below the table."""

MOST_NAMES = 4


def print_scoring_methods(found: list[dict[str, Any]], wide: bool = False) -> None:
    """Print a table for each problem and stage: scoring methods, best first.

    Args:
        found: results of `compare_scoring_methods`.
        wide: show all columns, however narrow the terminal is.
    """
    console = terminal_console()
    left_out: list[str] = []
    for problem in found:
        for stage in problem["stages"]:
            rows, chosen = stage["scoring_methods"], stage["held_out"]["chosen"]
            methods = [row["scoring_method"] for row in rows]
            names = [r["scoring_method"] + ", no evaluation" * r["no_evaluation"] for r in rows]
            minus_target = [_interval(row["minus_target_interval"]) for row in rows]
            columns = [
                Column("scoring method", names, text=True),
                Column("decision\naccuracy", [f"{row['decision_accuracy']:.3f}" for row in rows]),
                Column("95% CI", [_interval(row["interval"], "") for row in rows]),
                Column(
                    "minus\ntarget's",
                    ["–" if (m := row["minus_target"]) is None else f"{m:+.3f}" for row in rows],
                ),
                Column("95% CI", minus_target),
                *(
                    Column(heading, [_or_dash(row[name]) for row in rows], extra=True)
                    for heading, name in (
                        ("in family", "within_families"), ("SQ", "sq"), ("SNR", "snr"),
                    )
                ),
                Column("chosen", [f"{chosen.get(name, 0)}×" for name in methods], extra=True),
            ]  # fmt: skip
            title = f"{problem['problem']}, {stage['stage']}"
            left_out = print_columns(console, columns, title, wide) or left_out
            console.print()
    print_notes(console, _held_out(found))
    notes = [*_notes(found), *_not_compared(found), *_few_runs(found)]
    if "in family" not in left_out:
        notes += _few_in_family(found)
    if not {"SQ", "SNR"} <= set(left_out):
        notes.append(
            "SQ: mean over runs and benchmarks; SNR: median over benchmarks. in family: decision "
            "accuracy of the pairs of one family. chosen: tasks for which the scoring method is "
            "the best one on all other tasks"
        )
    print_notes(console, [*notes, *left_out_notes(left_out)], "dim")


def _held_out(found: list[dict[str, Any]]) -> Iterator[str]:
    """Decision accuracy of a scoring method that was chosen on the other tasks, for each stage."""
    for problem in found:
        for stage in problem["stages"]:
            evaluated = [row for row in stage["scoring_methods"] if not row["no_evaluation"]]
            if stage["tasks"] > 1 and len(evaluated) > 1:
                held_out = stage["held_out"]
                reached, own = held_out["decision_accuracy"], held_out["target_scoring_method"]
                target = "has no value" if own is None else f"{own:.3f}"
                yield (
                    f"{problem['problem']}, {stage['stage']}: held out, the scoring method that is "
                    f"best on the other tasks: {reached:.3f} (target's: {target})"
                )


def _notes(found: list[dict[str, Any]]) -> Iterator[str]:
    for problem in found:
        yield from (f"{problem['problem']}: {note}" for note in problem["notes"])


def _not_compared(found: list[dict[str, Any]]) -> Iterator[str]:
    """Runs, scoring methods and benchmarks that are left out, with the stages if only at some."""
    because = {
        "runs": "no checkpoint that early, or no final score by the target's scoring method",
        "recipes": "not trained at both sizes",
        "scoring methods": "on less than half of the benchmarks",
        "benchmarks": "not scored by every compared scoring method and the target's",
    }
    for problem in found:
        stages: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for stage in problem["stages"]:
            for key, names in stage["left_out"].items():
                of_recipes = key == "runs" and problem["final"] != "final"
                what = "recipes" if of_recipes else key.replace("_", " ")
                if names:
                    stages.setdefault((what, tuple(names)), []).append(stage["stage"])
        for (what, names), where in stages.items():
            more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
            at = "" if len(where) == len(problem["stages"]) else f", {', '.join(where)}"
            yield (
                f"{problem['problem']}{at}: {what} left out: "
                f"{', '.join(names[:MOST_NAMES])}{more} ({because[what]})"
            )


def _few_runs(found: list[dict[str, Any]]) -> Iterator[str]:
    """Notes on the effect of one pair and one run, if few runs were compared."""
    for problem in found:
        for stage in problem["stages"]:
            if stage["runs"] < FEW_RUNS:
                pairs, tasks = stage["pairs"], stage["tasks"]
                few = f"; with fewer than {FEWEST_UNITS} runs, it has no interval"
                yield (
                    f"{problem['problem']}, {stage['stage']}: {stage['runs']} runs make {pairs} "
                    f"{'pair' if pairs == 1 else 'pairs'} on {tasks} "
                    f"{'task' if tasks == 1 else 'tasks'}: one pair on one task changes a decision "
                    f"accuracy by {1 / (pairs * tasks):.3f}, and one run by up to "
                    f"{2 / stage['runs']:.3f}{few * (stage['runs'] < FEWEST_UNITS)}"
                )


def _few_in_family(found: list[dict[str, Any]]) -> Iterator[str]:
    """Notes on decision accuracies of few pairs of one family."""
    for problem in found:
        for stage in problem["stages"]:
            pairs = stage["pairs_within_families"]
            if 0 < pairs < FEWEST_PAIRS:
                yield (
                    f"{problem['problem']}, {stage['stage']}: in family: "
                    f"{pairs} {'pair' if pairs == 1 else 'pairs'}; with fewer than {FEWEST_PAIRS}, "
                    "it is mostly chance"
                )


def _or_dash(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _interval(bounds: list[float] | None, sign: str = "+") -> str:
    if bounds is None:
        return "–"
    return f"{bounds[0]:{sign}.2f} to {bounds[1]:{sign}.2f}"
