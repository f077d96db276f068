"""Tables of `tokenmart e2lm scoring-methods`: scoring methods by decision accuracy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from plugins.benchmarks.e2lm.scoring_methods import FEWEST_UNITS
from warehouse.terminal import (
    Column,
    counted,
    left_out_notes,
    print_columns,
    print_notes,
    terminal_console,
)


def print_scoring_methods(compared: list[dict[str, Any]], wide: bool = False) -> None:
    """Print a table for each problem and stage: scoring methods, best first.

    Args:
        found: results of `compare_scoring_methods`.
        wide: show all columns, however narrow the terminal is.
    """
    console = terminal_console()
    left_out: list[str] = []
    for problem in compared:
        for stage in problem["stages"]:
            rows, chosen = stage["scoring_methods"], stage["held_out"]["chosen"]
            names = [r["scoring_method"] + ", no evaluation" * r["no_evaluation"] for r in rows]
            intervals = [_interval(row["minus_target_interval"], "+") for row in rows]
            columns = [
                Column("scoring method", names, text=True),
                Column("decision\naccuracy", [_value(r["decision_accuracy"], ".3f") for r in rows]),
                Column("95% CI", [_interval(row["interval"], "") for row in rows]),
                Column("minus\ntarget's", [_value(r["minus_target"], "+.3f") for r in rows]),
                Column("95% CI", intervals),
                Column(
                    "in family", [_value(r["within_families"], ".2f") for r in rows], extra=True
                ),
                Column(
                    "chosen", [f"{chosen.get(r['scoring_method'], 0)}×" for r in rows], extra=True
                ),
            ]
            title = f"{problem['problem']}, {stage['stage']}"
            left_out = print_columns(console, columns, title, wide) or left_out
            print_notes(console, [*_held_out(stage), *_few(stage)], "dim")
        print_notes(console, [f"{problem['problem']}: {note}" for note in problem["notes"]], "dim")
    print_notes(console, left_out_notes(left_out), "dim")


def _held_out(stage: dict[str, Any]) -> Iterator[str]:
    """Decision accuracy of a scoring method that was chosen on the other tasks."""
    evaluated = [row for row in stage["scoring_methods"] if not row["no_evaluation"]]
    if len(stage["benchmarks"]) > 1 and len(evaluated) > 1:
        held_out = stage["held_out"]
        of_target = _value(held_out["target_scoring_method"], ".3f")
        yield (
            "held out, the scoring method that is best on the other benchmarks: "
            f"{held_out['decision_accuracy']:.3f} (target's: {of_target})"
        )


def _few(stage: dict[str, Any]) -> Iterator[str]:
    """How much one pair counts, if few runs were compared."""
    if stage["runs"] < FEWEST_UNITS:
        yield (
            f"{counted(stage['runs'], 'run')} make {counted(stage['pairs'], 'pair')}: too few for "
            "an interval; the value is mostly chance"
        )


def _value(value: float | None, form: str) -> str:
    return "–" if value is None else f"{value:{form}}"


def _interval(bounds: list[float] | None, sign: str) -> str:
    return "–" if bounds is None else f"{bounds[0]:{sign}.2f} to {bounds[1]:{sign}.2f}"
