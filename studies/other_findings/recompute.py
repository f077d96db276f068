"""Recompute the other figures of docs/findings from committed tables, with NumPy alone.

Nothing of Tokenmart is imported.

    python studies/other_findings/recompute.py      # writes figures.json

minimerge: from the share of right answers of each entry, task and round (`accuracy` of
benchmarks/minimerge.json). Four small models: from the signal quality of each set of items
(benchmarks/curate_series.json); the answers to single items are not committed, so that the signal
quality itself is recomputed from its two parts only.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent
BENCHMARKS = FOLDER.parents[1] / "benchmarks"
SEED = 0
DRAWS = 10_000

Floats = np.ndarray[Any, np.dtype[np.float64]]


def overall(rounds: Sequence[Floats]) -> Floats:
    """`[…, entries]` scores from each round's shares of right answers, `[…, tasks, entries]`.

    A win rate is the share of the other entries that an entry beats; a tie counts one half. A score
    is the mean over rounds of the geometric mean over tasks.
    """
    scores = []
    for right in rounds:
        wins = (1 + np.sign(right[..., :, None] - right[..., None, :])) / 2
        rates = (wins.sum(axis=-1) - 0.5) / (right.shape[-1] - 1)
        scores.append(rates.prod(axis=-2) ** (1 / right.shape[-2]))
    found: Floats = np.mean(scores, axis=0)
    return found


def merges() -> dict[str, Any]:
    """Scores of the nine entries, and the share of binomial draws in which one is above another.

    Draws of the entries are independent. Entries answer the same items, so the paired draws of
    `tokenmart dbt run` vary less.
    """
    rows = json.loads((BENCHMARKS / "minimerge.json").read_text("utf-8"))["accuracy"]
    entries = sorted({row["entry"] for row in rows})
    random = np.random.default_rng(SEED)
    shares, draws = [], []
    for name in sorted({row["round"] for row in rows}):
        own = [row for row in rows if row["round"] == name]
        tasks = sorted({row["task"] for row in own})
        right, items = np.zeros((2, len(tasks), len(entries)))
        for row in own:
            at = tasks.index(row["task"]), entries.index(row["entry"])
            right[at], items[at] = row["accuracy"], row["items"]
        shares.append(right)
        draws.append(random.binomial(items.astype(int), right, (DRAWS, *right.shape)) / items)
    score, drawn = overall(shares), overall(draws)
    order = [int(place) for place in np.argsort(-score, kind="stable")]
    alone = [place for place in order if entries[place].endswith("-alone")]
    merged = [place for place in order if place not in alone]
    experts = [place for place in alone if entries[place] != "smollm2-alone"]
    return {
        "score": {entries[place]: float(score[place]) for place in order},
        "least_merge_minus_best_expert": float(score[merged].min() - score[experts].max()),
        "merges_above_experts": float(
            (drawn[:, merged].min(axis=1) > drawn[:, experts].max(axis=1)).mean()
        ),
        "above": {
            f"{entries[one]} > {entries[other]}": float(
                (
                    (drawn[:, one] > drawn[:, other]) + 0.5 * (drawn[:, one] == drawn[:, other])
                ).mean()
            )
            for number, one in enumerate(order[:4])
            for other in order[number + 1 : 4]
        },
    }


def chosen_items() -> dict[str, Any]:
    """Held-out signal quality (SQ) of chosen items, and the part of the gain that is optimism."""
    found = {}
    record = json.loads((BENCHMARKS / "curate_series.json").read_text("utf-8"))
    for method, row in record["scoring_methods"].items():
        of = row["held_out"]
        quality = {
            name: (of["monotonicity"][name] + of["autocorrelation"][name]) / 2
            for name in ("all", "chosen", "in_sample")
        }
        gain = quality["in_sample"] - quality["all"]
        found[method] = {
            **quality,
            "gain": quality["chosen"] - quality["all"],
            "optimism_share": (quality["in_sample"] - quality["chosen"]) / gain,
        }
    return found


def figures() -> dict[str, Any]:
    """Every figure, JSON-ready."""
    return {"minimerge": merges(), "four_small_models": chosen_items()}


def main() -> None:
    """Write figures.json to the folder of this file."""
    text = json.dumps(figures(), indent=1)
    (FOLDER / "figures.json").write_text(text + "\n", "utf-8")
    print(text)


if __name__ == "__main__":
    main()
