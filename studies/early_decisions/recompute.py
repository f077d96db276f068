"""Recompute every figure of this study from data/published, with NumPy and PyArrow alone.

Nothing of Tokenmart is imported: `tokenmart e2lm scoring-methods` is checked by a second
implementation.

    python studies/early_decisions/recompute.py     # writes figures.json
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

FOLDER = Path(__file__).parent
PUBLISHED = FOLDER.parents[1] / "data" / "published"
SEED = 0
RESAMPLES = 10_000
CLOSE = 2.0
"""Pairs of runs whose compute differs by at most this factor are also evaluated separately."""

DCLM_CORE = (
    "agi_eval_lsat_ar",
    "arc_challenge",
    "arc_easy",
    "bigbench_cs_algorithms",
    "bigbench_dyck_languages",
    "bigbench_language_identification",
    "bigbench_operators",
    "bigbench_qa_wikidata",
    "bigbench_repeat_copy_logic",
    "boolq",
    "commonsense_qa",
    "copa",
    "coqa",
    "hellaswag",
    "hellaswag_zeroshot",
    "jeopardy",
    "lambada_openai",
    "openbook_qa",
    "piqa",
    "squad",
    "winograd",
    "winogrande",
)
PYTHIA_TASKS = ("arc_challenge", "arc_easy", "lambada_openai", "logiqa", "piqa", "sciq",
                "winogrande", "wsc")  # fmt: skip

OLMO_TASKS = (
    "arc_challenge_test",
    "arc_easy_test",
    "boolq_val",
    "csqa_val",
    "hellaswag_val",
    "mmlu_humanities_test",
    "mmlu_other_test",
    "mmlu_social_sciences_test",
    "mmlu_stem_test",
    "openbookqa_test",
    "piqa_val",
    "socialiqa_val",
    "winogrande_val",
)
"""Each task once: the table has seven of them as validation and as test questions."""

PARTS = ("single", "mean")
"""Decisions on single tasks, and on the mean over tasks."""

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Table:
    """Oriented scores (higher is better) of runs over training, and the planned compute.

    scores: run, benchmark, scoring method → `(tokens, score)` by tokens.
    compute: `[runs]` parameters × tokens at the end of the run. size: `[runs]` parameters.
    """

    runs: list[str]
    scores: dict[tuple[str, str, str], list[tuple[float, float]]]
    compute: Floats
    size: Floats

    def early(self, method: str, benchmark: str, share: float) -> Floats:
        """`[runs]` the last score at up to `share` of each run's tokens; NaN if there is none."""
        scores = []
        for run in self.runs:
            series = self.scores.get((run, benchmark, method), [])
            until = share * series[-1][0] * (1 + 1e-9) if series else 0.0
            scores.append(next((s for tokens, s in reversed(series) if tokens <= until), np.nan))
        return np.array(scores)


def table(name: str) -> Table:
    """Read one published table of scores over training."""
    scores: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    planned: dict[str, tuple[float, float]] = {}
    for row in pq.read_table(PUBLISHED / f"{name}.parquet").to_pylist():
        sign = -1 if row["direction"] == "lower" else 1
        key = (row["model"], row["benchmark"], row["metric"])
        scores.setdefault(key, []).append((row["tokens"], sign * row["score"]))
        _, tokens = planned.get(row["model"], (0.0, 0.0))
        planned[row["model"]] = (row["parameters"], max(tokens, row["tokens"]))
    for series in scores.values():
        series.sort()
    runs = sorted(planned)
    size, tokens = np.array([planned[run] for run in runs], dtype=float).T
    return Table(runs, scores, size * tokens, size)


def agreement(early: Floats, final: Floats) -> Floats:
    """`[runs, runs]`: 1 if both order a pair in the same way, otherwise 0; 0.5 for one tie."""
    one, other = (np.sign(v[:, None] - v[None, :]) for v in (early, final))
    return (1 + one * other) / 2


def share(matrix: Floats, mask: np.ndarray[Any, np.dtype[np.bool_]] | None = None) -> float:
    """Mean over the pairs of different runs in `mask`."""
    pairs = np.triu(np.ones(matrix.shape, dtype=bool), 1)
    return float(matrix[pairs if mask is None else pairs & mask].mean())


def interval(
    matrices: Sequence[Floats], mask: np.ndarray[Any, np.dtype[np.bool_]] | None = None
) -> list[float]:
    """95% percentile interval of the first minus the second (if given), with resampled runs.

    Over the pairs of different runs in `mask`, which is symmetric.
    """
    random = np.random.default_rng(SEED)
    runs = len(matrices[0])
    counts = random.multinomial(runs, np.full(runs, 1 / runs), RESAMPLES).astype(float)
    # a run that is drawn twice makes no pair with itself
    wanted = ~np.eye(runs, dtype=bool) & (True if mask is None else mask)
    pairs = ((counts @ wanted) * counts).sum(axis=1)
    apart = [np.where(wanted, matrix, 0.0) for matrix in matrices]
    means = [((counts @ matrix) * counts).sum(axis=1) / pairs for matrix in apart]
    return [float(q) for q in np.quantile(means[0] - sum(means[1:]), [0.025, 0.975])]


def over_training(
    name: str, methods: Sequence[str], final: str, shares: Sequence[float], tasks: Sequence[str]
) -> dict[str, Any]:
    """Decision accuracy on single tasks and on their mean, and rankings without an evaluation.

    Args:
        name: name of the table. methods: compared scoring methods. final: scoring method of the
        final score. shares: shares of training. tasks: the tasks of the mean.
    """
    data = table(name)
    asked = list(tasks)
    tasks = [b for b in asked
             if all((run, b, m) in data.scores for run in data.runs for m in methods)]  # fmt: skip
    last = {b: data.early(final, b, 1.0) for b in tasks}
    mean = np.mean([data.early(final, b, 1.0) for b in asked], axis=0)
    ratio = data.compute[:, None] / data.compute[None, :]
    close = np.maximum(ratio, 1 / ratio) <= CLOSE * (1 + 1e-9)

    def decided(early: dict[str, Floats]) -> dict[str, Floats]:
        return {
            "single": np.mean([agreement(early[b], last[b]) for b in tasks], axis=0),
            "mean": agreement(np.mean([early[b] for b in tasks], axis=0), mean),
        }

    def minus(one: dict[str, Floats], other: dict[str, Floats]) -> dict[str, Any]:
        differences = {}
        for part, first, second in ((p, decided(one)[p], decided(other)[p]) for p in PARTS):
            differences[part] = [share(first) - share(second), *interval([first, second])]
        return differences

    def row(early: dict[str, Floats]) -> dict[str, Any]:
        single, whole = decided(early).values()
        return {
            "single": share(single),
            "single_interval": interval([single]),
            "single_close": share(single, close),
            "single_close_interval": interval([single], close),
            "mean": share(whole),
            "mean_interval": interval([whole]),
        }

    planned = dict.fromkeys(tasks, data.compute)
    early = {(f"{100 * at:g}%", method): {b: data.early(method, b, at) for b in tasks}
             for at in shares for method in methods}  # fmt: skip
    return {
        "runs": len(data.runs),
        "sizes": len(np.unique(data.size)),
        "tasks": len(tasks),
        "tasks_in_the_mean": len(asked),
        "close_pairs": int(np.triu(close, 1).sum()),
        "without_evaluation": {
            "parameters_x_tokens": row(planned),
            "parameters": row(dict.fromkeys(tasks, data.size)),
        },
        "stages": {
            stage: {method: row(early[stage, method]) for method in methods} for stage, _ in early
        },
        "compute_minus": {
            stage: {method: minus(planned, early[stage, method]) for method in methods}
            for stage, _ in early
        },
        "first_minus_second": {
            stage: minus(early[stage, methods[0]], early[stage, methods[1]]) for stage, _ in early
        },
    }


def over_sizes() -> dict[str, Any]:
    """DCLM: decision accuracy of 400M and 1B models for the order of data recipes at 7B."""
    scores: dict[tuple[str, str, str, str], list[float]] = {}
    for row in pq.read_table(PUBLISHED / "dclm.parquet").to_pylist():
        if row["recipe"] is not None:
            sign = -1 if row["direction"] == "lower" else 1
            key = (row["size"], row["metric"], row["benchmark"], row["recipe"])
            scores.setdefault(key, []).append(sign * row["score"])
    figures_of: dict[str, Any] = {}
    for size in ("400M-1x", "1B-1x"):
        for method in ("accuracy", "task_loss"):
            large = {key[3] for key in scores if key[:2] == ("7B-1x", "accuracy")}
            recipes = sorted(large & {key[3] for key in scores if key[:2] == (size, method)})
            tasks = [b for b in DCLM_CORE
                     if all((size, method, b, recipe) in scores for recipe in recipes)]  # fmt: skip

            def score(at: str, how: str, task: str, names: list[str] = recipes) -> Floats:
                return np.array([np.mean(scores[at, how, task, name]) for name in names])

            final = {b: score("7B-1x", "accuracy", b) for b in DCLM_CORE}
            early = {b: score(size, method, b) for b in tasks}
            whole = agreement(
                np.mean(list(early.values()), axis=0), np.mean(list(final.values()), axis=0)
            )
            matrices = [agreement(early[b], final[b]) for b in tasks]
            single = np.mean(matrices, axis=0)
            figures_of[f"{size} {method}"] = {
                "recipes": len(recipes),
                "tasks": len(tasks),
                "tasks_at_most_half": sum(share(matrix) <= 0.5 for matrix in matrices),
                "single": share(single),
                "mean": share(whole),
                "mean_interval": interval([whole]),
            }
    return figures_of


def figures() -> dict[str, Any]:
    """Every figure of the page, JSON-ready."""
    return {
        "olmo": over_training(
            "olmo_ladder", ("bpb", "accuracy"), "accuracy", (0.05, 0.1, 0.25), OLMO_TASKS
        ),
        "pythia": over_training("pythia", ("acc", "acc_norm"), "acc", (0.1, 0.25), PYTHIA_TASKS),
        "dclm": over_sizes(),
    }


def main() -> None:
    """Write figures.json to the folder of this file."""
    text = json.dumps(figures(), indent=1)
    (FOLDER / "figures.json").write_text(text + "\n", "utf-8")
    print(text)


if __name__ == "__main__":
    main()
