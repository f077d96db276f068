"""Compare scoring methods: how often an early score orders two runs as the final score does.

The decisions are those of the model `int_decision_pairs`. This module averages them, with intervals
over runs and benchmarks, and evaluates the best scoring method of some benchmarks on the others.
Each benchmark counts once: a target names either the validation or the test questions of a task. It
also compares the decisions of `int_planned_decisions`, which need no evaluation and choose the
larger run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np

from analysis.statistics.correlations import Flags, Floats
from plugins.benchmarks.e2lm.scores import open_problem
from plugins.benchmarks.model_sql import ModelSql
from plugins.benchmarks.refusal import refused
from plugins.benchmarks.scores.score_store import read_table
from plugins.benchmarks.scores.table_problem import TableProblem, find_table
from warehouse.paths import Workspace
from warehouse.terminal import counted

LEVEL = 0.95
SEED, RESAMPLES = 0, 10_000
"""Of the bootstrap."""

FEWEST_UNITS = 6
"""Fewest runs of an interval: that from the smallest to the largest of 5 values covers their median
with 1 - 2 / 2^5 = 94% at most."""


@dataclass(frozen=True)
class Decisions:
    """Agreement of early decisions with final ones, at one stage.

    methods, benchmarks: names; every scoring method has every benchmark.
    evaluated: number of scoring methods, counted from the first, that need an evaluation; the
        others rank runs by quantities known before training.
    agreement: `[methods, benchmarks, pairs]` in 0 … 1, NaN if a run has no score.
    first, second: `[pairs]` indices of the compared runs; runs: number of runs.
    related: `[pairs]`, whether both runs are of one family.
    """

    methods: tuple[str, ...]
    benchmarks: tuple[str, ...]
    evaluated: int
    agreement: Floats
    first: np.ndarray[Any, np.dtype[np.intp]]
    second: np.ndarray[Any, np.dtype[np.intp]]
    runs: int
    related: Flags


def compare_scoring_methods(
    name: str, workspace: Workspace, resamples: int = RESAMPLES
) -> dict[str, Any]:
    """Compare the scoring methods of a table problem's benchmarks at its early stages.

    Args:
        name: name or path of a problem of kind `table` with a target.
        workspace: the checkout with problem files and SQL models.
        resamples: number of resamples of each interval.

    Returns:
        JSON-ready: for each stage and scoring method, the decision accuracy with its interval over
        runs and benchmarks (None with fewer than `FEWEST_UNITS` runs, or if all decisions are right
        or all wrong), the difference from the target's scoring method, and the decision accuracy on
        pairs of one family. For each stage, also the decision accuracy of the scoring method that
        was chosen on the other benchmarks.

    Raises:
        TokenmartError: the problem is unknown or not a table, or has nothing to compare.
    """
    problem = find_table(name, workspace)
    if problem is None or problem.target is None or problem.predict.metrics:
        what = f"{name} is no table of runs over training with a target; name one of kind table"
        raise refused("--problem", what, "other-problem")
    brought = read_table(problem, workspace)
    with open_problem(problem.name, brought) as database:
        models = ModelSql(database, workspace)
        pairs = models.build("int_decision_pairs")
        planned = models.build("int_planned_decisions")
        stages = [_share_name(share) for share in problem.predict.shares]
        stages += list(problem.predict.sizes)
        decisions_of = {
            stage: _decisions(database, pairs, planned, problem, stage) for stage in stages
        }
    return {
        "problem": problem.name,
        "target": problem.target.metric,
        "final": problem.target.size or "final",
        "source": problem.table.source,
        "sha256": problem.table.sha256,
        "seed": SEED,
        "resamples": resamples,
        "notes": list(brought.notes),
        "stages": [
            _stage_record(stage, decisions, problem.target.metric, resamples)
            for stage, decisions in decisions_of.items()
        ],
    }


def _share_name(share: float) -> str:
    return f"{100 * share:g}%"


def _decisions(
    database: duckdb.DuckDBPyConnection,
    pairs: str,
    planned: str,
    problem: TableProblem,
    stage: str,
) -> Decisions:
    """Decisions at a stage, on the target's benchmarks that every scoring method has.

    A scoring method is left out if it has less than half of the benchmarks of the one with most.
    """
    rows = _agreements(database, pairs, problem, stage)
    methods, benchmarks = _shared({(row[0], row[1]) for row in rows})
    runs = sorted({row[2] for row in rows} | {row[3] for row in rows})
    if not benchmarks or len(runs) < 3:
        assert problem.target is not None
        raise refused(
            stage,
            f"{counted(len(runs), 'run')} and {counted(len(benchmarks), 'benchmark')} have every "
            f"scoring method there and {problem.target.metric} at the end; 3 runs and one "
            "benchmark are needed (a run without a checkpoint that early is left out)",
            "too-few-runs",
        )
    rows += (without := _agreements(database, planned, problem, stage))
    evaluated = len(methods)
    methods += sorted({row[0] for row in without if row[1] in benchmarks})
    first, second = np.triu_indices(len(runs), 1)
    place = {name: index for index, name in enumerate(runs)}
    pair = {(int(a), int(b)): i for i, (a, b) in enumerate(zip(first, second, strict=True))}
    agreement = np.full((len(methods), len(benchmarks), len(first)), np.nan)
    for metric, benchmark, one, other, value in rows:
        if metric in methods and benchmark in benchmarks and {one, other} <= place.keys():
            ends = sorted((place[one], place[other]))
            at = pair[ends[0], ends[1]]
            agreement[methods.index(metric), benchmarks.index(benchmark), at] = value
    families = dict(
        database.execute("select distinct model_id, family from benchmark_scores").fetchall()
    )
    kin = np.array([families.get(name, name) for name in runs])
    return Decisions(
        methods=tuple(methods),
        benchmarks=tuple(benchmarks),
        evaluated=evaluated,
        agreement=agreement,
        first=first,
        second=second,
        runs=len(runs),
        related=kin[first] == kin[second],
    )


def _agreements(
    database: duckdb.DuckDBPyConnection, decisions: str, problem: TableProblem, stage: str
) -> list[tuple[Any, ...]]:
    """Metric, benchmark, two runs and their agreement with the target, of a table of decisions."""
    assert problem.target is not None
    return database.execute(
        f"select metric, benchmark, subject, other_subject, agreement from {decisions}"
        " where kind = $kind and stage = $stage and later_metric = $metric"
        " and later_stage = $later and (len($benchmarks) = 0 or benchmark in (select"
        " unnest($benchmarks)))",
        {
            "kind": "size" if problem.predict.sizes else "share",
            "stage": stage,
            "metric": problem.target.metric,
            "later": problem.target.size or "final",
            "benchmarks": list(problem.target.benchmarks),
        },
    ).fetchall()


def _shared(measured: Collection[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """Methods with at least half of the benchmarks of the one with most; those they all have.

    Args:
        measured: method and benchmark.
    """
    on_benchmarks = Counter(method for method, _ in measured)
    most = max(on_benchmarks.values(), default=0)
    methods = sorted(name for name, count in on_benchmarks.items() if 2 * count >= most)
    having = Counter(benchmark for method, benchmark in measured if method in methods)
    return methods, sorted(name for name, count in having.items() if count == len(methods))


def _weighted(decisions: Decisions, runs: Floats, benchmarks: Floats) -> Floats:
    """`[methods, resamples]` decision accuracy with these counts of runs and benchmarks.

    A run that is drawn twice forms no pair with itself.
    """
    weights = runs[:, decisions.first] * runs[:, decisions.second]
    known = np.isfinite(decisions.agreement)
    sums = np.nan_to_num(decisions.agreement) @ weights.T
    with np.errstate(invalid="ignore", divide="ignore"):
        means = sums / (known @ weights.T)
    usable = np.isfinite(means) * benchmarks.T
    with np.errstate(invalid="ignore", divide="ignore"):
        result: Floats = (np.nan_to_num(means) * usable).sum(axis=1) / usable.sum(axis=1)
    return result


def _draw(generator: np.random.Generator, count: int, resamples: int) -> Floats:
    """`[resamples, count]` number of times that each element is drawn in a bootstrap."""
    return generator.multinomial(count, np.full(count, 1 / count), size=resamples).astype(float)


def _stage_record(
    stage: str,
    decisions: Decisions,
    target: str,
    resamples: int,
) -> dict[str, Any]:
    generator = np.random.default_rng(SEED)
    drawn = _weighted(
        decisions,
        _draw(generator, decisions.runs, resamples),
        _draw(generator, len(decisions.benchmarks), resamples),
    )
    enough = decisions.runs >= FEWEST_UNITS
    every = np.ones((1, len(decisions.benchmarks)))
    observed = _weighted(decisions, np.ones((1, decisions.runs)), every)[:, 0]
    # at this stage, the target's scoring method may have too few benchmarks
    of_target = decisions.methods.index(target) if target in decisions.methods else None
    within = decisions.agreement[:, :, decisions.related]
    rows = [
        {
            "scoring_method": method,
            "no_evaluation": index >= decisions.evaluated,
            "decision_accuracy": round(float(observed[index]), 6),
            # resamples of decisions that are all right, or all wrong, are all equal
            "interval": _percentiles(drawn[index]) if enough and 0 < observed[index] < 1 else None,
            "minus_target": None
            if of_target is None
            else round(float(observed[index] - observed[of_target]), 6),
            "minus_target_interval": _percentiles(drawn[index] - drawn[of_target])
            if enough and of_target is not None
            else None,
            "within_families": _mean(within[index]),
        }
        for index, method in enumerate(decisions.methods)
    ]
    rows.sort(key=lambda row: (-float(str(row["decision_accuracy"])), str(row["scoring_method"])))
    return {
        "stage": stage,
        "runs": decisions.runs,
        "pairs": len(decisions.first),
        "pairs_within_families": int(decisions.related.sum()),
        "benchmarks": list(decisions.benchmarks),
        "scoring_methods": rows,
        "held_out": _held_out(decisions, of_target),
    }


def _held_out(decisions: Decisions, of_target: int | None) -> dict[str, Any]:
    """Decision accuracy of each benchmark with the scoring method that is best on all others.

    If several are best, the first one by name is used."""
    by_benchmark = np.nanmean(decisions.agreement[: decisions.evaluated], axis=2)
    reached = np.empty(by_benchmark.shape[1])
    chosen = Counter[str]()
    for index in range(by_benchmark.shape[1]):
        others = np.delete(by_benchmark, index, axis=1)
        best = int(np.argmax(others.mean(axis=1))) if others.size else of_target or 0
        reached[index] = by_benchmark[best, index]
        chosen[decisions.methods[best]] += 1
    return {
        "decision_accuracy": round(float(reached.mean()), 6),
        "target_scoring_method": None
        if of_target is None
        else round(float(by_benchmark[of_target].mean()), 6),
        "chosen": dict(sorted(chosen.items())),
    }


def _percentiles(values: Floats) -> list[float]:
    """The percentile interval; resamples without a pair of different runs are left out."""
    tail = 100 * (1 - LEVEL) / 2
    return [round(float(value), 6) for value in np.nanpercentile(values, [tail, 100 - tail])]


def _mean(values: Floats) -> float | None:
    """The mean of what is known; None without any."""
    known = values[np.isfinite(values)]
    return round(float(known.mean()), 6) if known.size else None
