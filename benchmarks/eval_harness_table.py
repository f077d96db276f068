"""The tables of RESULTS.md about lm-evaluation-harness, from eval_harness.json."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from marked_tables import ROOT, marked, table

OUT = ROOT / "benchmarks" / "eval_harness.json"
BLOCK = "benchmarks/eval_harness.json"

ALIKE = 1e-6
"""Goal: largest difference of an accuracy, an exact match or a Brier score."""
RELATIVE = 1e-4
"""Goal: largest relative difference of every other number."""
GOALS = {
    "one letter": 0.8,
    "one letter, 5-shot": 0.8,
    "two choices": 0.8,
    "several texts": 0.8,
    "generation, 5-shot": 1.0,
}
"""Our time over the harness's, at most."""


def section(record: dict[str, Any]) -> str:
    """Numbers and times, with the markers of RESULTS.md."""
    models = record["models"]
    forms = sorted({each["task"] for model in models for each in model["numbers"]})
    lines = [
        f"`python benchmarks/eval_harness.py --measure --write` (lm_eval {record['lm_eval']}, "
        f"{record['processor']}, float32, one thread, {sum(m['minutes'] for m in models):.0f} min "
        "of processor time): "
        f"{models[0]['tasks']} tasks and {models[0]['groups']} group, on real checkpoints of "
        "minilong.",
        "",
        *table(
            {
                "model": "{model}",
                "numbers:": "{numbers}",
                "empty, with a reason:": "{empty}",
                "largest difference, accuracies (goal ≤ 1e-6):": "{alike:.1e}",
                "largest relative difference, other metrics (goal ≤ 1e-4):": "{relative:.1e}",
                "numbers equal after import:": "{imported}",
            },
            map(equality, models),
        ),
        "",
        f"Tasks: {', '.join(f'`{name}`' for name in forms)}.",
        "",
        "The next table has the time of all requests of some tasks, without loading the models. "
        "The ratio is the median over repetitions of Tokenmart's time divided by the harness's, in "
        "processor time and, in brackets, in elapsed time.",
        "",
        *table(
            {
                "requests": "{kind}",
                "model": "{model}",
                "number:": "{requests}",
                "harness, s (batch):": "{harness} ({harness_batch})",
                "ours, s:": "{ours}",
                "ratio:": "**{ratio_processor:.2f}** ({ratio_clock:.2f})",
                "goal:": "≤ {goal}",
            },
            timings(models),
        ),
    ]
    return marked(BLOCK, lines)


def equality(model: dict[str, Any]) -> dict[str, Any]:
    """How far a model's numbers are from the harness's."""
    alike, relative, imported, empty = [0.0], [0.0], 0, 0
    for each in model["numbers"]:
        theirs, ours = each["harness"], each["tokenmart"]
        imported += is_equal(each["imported"], theirs)
        if ours is None:
            empty += bool(each["reason"])
        elif is_accuracy_like(each["metric"]):
            alike.append(abs(ours - theirs))
        else:
            relative.append(abs(ours - theirs) / (abs(theirs) or 1))
    return {
        "model": model["model"],
        "numbers": len(model["numbers"]),
        "empty": empty,
        "alike": max(alike),
        "relative": max(relative),
        "imported": imported,
    }


def is_equal(one: float | None, other: float) -> bool:
    """Whether two numbers differ in the last digits at most."""
    return one is not None and abs(one - other) <= 1e-12 * max(1, abs(other))


def is_accuracy_like(metric: str) -> bool:
    """Whether a metric is a share, of which a difference is compared as it is."""
    return metric.startswith(("acc", "exact", "brier"))


def timings(models: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A row for each kind of requests and model."""
    for kind, goal in GOALS.items():
        for model in models:
            found = model["times"][kind]
            shown = {
                name: ", ".join(f"{turn[side]['processor']:.1f}" for turn in found["turns"])
                for name, side in (("harness", "harness"), ("ours", "tokenmart"))
            }
            yield {**found, **shown, "kind": kind, "model": model["model"], "goal": goal}
