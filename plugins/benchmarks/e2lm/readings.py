"""Which reading of a benchmark, early on, decides between runs as the final score does?

The decisions come from the model `int_decision_pairs`; here they are averaged, with intervals over
runs and tasks, and the best reading is chosen on some tasks and evaluated on others. The decisions
of `int_planned_decisions` are compared as well: they need no evaluation and choose the larger run.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np

from analysis.statistics.correlations import Flags, Floats
from plugins.benchmarks.e2lm.scores import open_problem
from plugins.benchmarks.model_sql import ModelSql
from plugins.benchmarks.scores.table_problem import TableProblem, find_table, read_table
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace

LEVEL = 0.95
SPLIT = re.compile("(_val|_test|_[0-9]+shot|_zeroshot|_fewshot)+$")
"""Ends of the names of benchmarks that ask the same task: they are drawn and held out together."""


@dataclass(frozen=True)
class Decisions:
    """Agreement of early decisions with final ones, at one stage.

    readings, benchmarks: names; every reading has every benchmark.
    evaluated: how many of the readings, the first ones, were evaluated; the others rank runs by
        what was known before training.
    agreement: `[readings, benchmarks, pairs]` in 0 … 1, NaN where a run has no score.
    first, second: `[pairs]` indices of the runs compared; runs: how many there are.
    related: `[pairs]`, whether both are of one family.
    task: `[benchmarks]` index of the task that a benchmark asks.
    """

    readings: tuple[str, ...]
    benchmarks: tuple[str, ...]
    evaluated: int
    agreement: Floats
    first: np.ndarray[Any, np.dtype[np.intp]]
    second: np.ndarray[Any, np.dtype[np.intp]]
    runs: int
    related: Flags
    task: np.ndarray[Any, np.dtype[np.intp]]


def compare_readings(name: str, workspace: Workspace, seed: int, resamples: int) -> dict[str, Any]:
    """Compare the readings of a table problem's benchmarks at its early stages.

    Args:
        name: of a problem of kind `table` with a target, or its path.
        workspace: whose problem files and SQL models are used.
        seed: of the bootstrap.
        resamples: of each interval.

    Returns:
        JSON-ready: for each stage, the decision accuracy of each reading with its interval over
        runs and benchmarks, its distance to the target's own reading, the same on pairs of one
        family only, signal quality and signal-to-noise ratio, and what a reading chosen on the
        other benchmarks reaches.

    Raises:
        TokenmartError: no such problem, not a table, or nothing to compare in it.
    """
    problem = find_table(name, workspace)
    if problem is None or problem.target is None or problem.predict.metrics:
        what = "is no table of scores" if problem is None else "has no target"
        if problem is not None and problem.predict.metrics:
            what = "ranks models, not runs over training"
        raise TokenmartError(f"--problem {name}: it {what}; name a problem of kind table with one")
    with open_problem(problem.name, read_table(problem, workspace)) as database:
        models = ModelSql(database, workspace)
        pairs, signal = models.build("int_decision_pairs"), models.build("benchmark_signal")
        planned = models.build("int_planned_decisions")
        stages = [_share_name(share) for share in problem.predict.shares]
        stages += list(problem.predict.sizes)
        found = {stage: _decisions(database, pairs, planned, problem, stage) for stage in stages}
        quality = {
            stage: _quality(database, signal, decisions.benchmarks)
            for stage, decisions in found.items()
        }
    return {
        "problem": problem.name,
        "target": problem.target.metric,
        "final": problem.target.size or "final",
        "source": problem.table.source,
        "sha256": problem.table.sha256,
        "seed": seed,
        "resamples": resamples,
        "stages": [
            _stage_record(stage, decisions, problem.target.metric, quality[stage], seed, resamples)
            for stage, decisions in found.items()
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
    """Decisions at a stage, on the target's benchmarks that every reading has there.

    A reading of fewer than half as many benchmarks as the widest one is left out.
    """
    assert problem.target is not None
    target = problem.target

    def asked(decisions: str) -> list[tuple[Any, ...]]:
        return database.execute(
            f"select metric, benchmark, subject, other_subject, agreement from {decisions}"
            " where kind = $kind and stage = $stage and later_metric = $metric"
            " and later_stage = $later and (len($benchmarks) = 0 or benchmark in (select"
            " unnest($benchmarks)))",
            {
                "kind": "size" if problem.predict.sizes else "share",
                "stage": stage,
                "metric": target.metric,
                "later": target.size or "final",
                "benchmarks": list(target.benchmarks),
            },
        ).fetchall()

    rows = asked(pairs)
    measured = {(row[0], row[1]) for row in rows}
    on_benchmarks = Counter(reading for reading, _ in measured)
    most = max(on_benchmarks.values(), default=0)
    readings = sorted(name for name, count in on_benchmarks.items() if 2 * count >= most)
    having = Counter(benchmark for reading, benchmark in measured if reading in readings)
    benchmarks = sorted(name for name, count in having.items() if count == len(readings))
    runs = sorted({row[2] for row in rows} | {row[3] for row in rows})
    if not benchmarks or len(runs) < 3:
        raise TokenmartError(
            f"problem {problem.name}: {len(runs)} runs and {len(benchmarks)} benchmarks have every "
            f"reading at {stage} and {problem.target.metric} at the end; 3 runs and one benchmark "
            "are needed"
        )
    rows += (without := asked(planned))
    evaluated = len(readings)
    readings += sorted({row[0] for row in without})
    first, second = np.triu_indices(len(runs), 1)
    place = {name: index for index, name in enumerate(runs)}
    pair = {(int(a), int(b)): i for i, (a, b) in enumerate(zip(first, second, strict=True))}
    agreement = np.full((len(readings), len(benchmarks), len(first)), np.nan)
    for metric, benchmark, one, other, value in rows:
        if metric in readings and benchmark in benchmarks and {one, other} <= place.keys():
            ends = sorted((place[one], place[other]))
            at = pair[ends[0], ends[1]]
            agreement[readings.index(metric), benchmarks.index(benchmark), at] = value
    families = dict(
        database.execute("select distinct model_id, family from benchmark_scores").fetchall()
    )
    kin = np.array([families.get(name, name) for name in runs])
    return Decisions(
        readings=tuple(readings),
        benchmarks=tuple(benchmarks),
        evaluated=evaluated,
        agreement=agreement,
        first=first,
        second=second,
        runs=len(runs),
        related=kin[first] == kin[second],
        task=np.unique([SPLIT.sub("", name) for name in benchmarks], return_inverse=True)[1],
    )


@dataclass(frozen=True)
class Quality:
    """Signal of one reading: SQ `[runs, benchmarks]` and SNR `[benchmarks]`, NaN if undefined."""

    sq: Floats
    snr: Floats


def _quality(
    database: duckdb.DuckDBPyConnection, signal: str, benchmarks: tuple[str, ...]
) -> dict[str, Quality]:
    """By reading; all runs, whether or not they enter a decision."""
    rows = database.execute(
        f"select metric, benchmark, coalesce(model, ''), value from {signal}"
        " where statistic in ('sq', 'snr') and value is not null"
        " and benchmark in (select unnest($benchmarks))",
        {"benchmarks": list(benchmarks)},
    ).fetchall()
    runs = sorted({row[2] for row in rows if row[2]})
    found: dict[str, Quality] = {}
    for metric, benchmark, run, value in rows:
        if metric not in found:
            found[metric] = Quality(
                np.full((len(runs), len(benchmarks)), np.nan), np.full(len(benchmarks), np.nan)
            )
        at = benchmarks.index(benchmark)
        if run:
            found[metric].sq[runs.index(run), at] = value
        else:
            found[metric].snr[at] = value
    return found


def _quality_record(
    quality: Quality | None, decisions: Decisions, seed: int, resamples: int
) -> dict[str, Any]:
    """Mean SQ over runs and benchmarks, and median SNR over benchmarks.

    The interval of SQ resamples runs and tasks, that of SNR tasks: a spread over runs, drawn again
    from them, would only shrink.
    """
    record: dict[str, Any] = dict.fromkeys(("sq", "sq_interval", "snr", "snr_interval"))
    if quality is None:
        return record
    generator = np.random.default_rng(seed)
    tasks = _draw(generator, int(decisions.task.max()) + 1, resamples)[:, decisions.task]
    known = np.isfinite(quality.sq)
    if known.any():
        runs = _draw(generator, len(quality.sq), resamples)
        sums = ((runs @ np.nan_to_num(quality.sq)) * tasks).sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            means = sums / ((runs @ known) * tasks).sum(axis=1)
        record |= {
            "sq": _rounded(float(np.nanmean(quality.sq))),
            "sq_interval": _percentiles(means),
        }
    there = np.isfinite(quality.snr)
    if there.any():
        medians = _medians(quality.snr[there], tasks[:, there])
        record |= {"snr": _rounded(float(np.median(quality.snr[there])))}
        record |= {"snr_interval": _percentiles(medians)}
    return record


def _medians(values: Floats, counts: Floats) -> Floats:
    """`[resamples]` medians of `[values]`, each counted `[resamples, values]` times."""
    order = np.argsort(values)
    reached = np.cumsum(counts[:, order], axis=1)
    half = reached[:, -1:] / 2
    below = np.argmax(reached >= half, axis=1)
    above = np.argmax(reached > half, axis=1)
    medians: Floats = (values[order][below] + values[order][above]) / 2
    medians[half[:, 0] == 0] = np.nan
    return medians


def _weighted(decisions: Decisions, runs: Floats, benchmarks: Floats) -> Floats:
    """`[readings, resamples]` decision accuracy where runs and benchmarks have these counts.

    A run drawn twice makes no pair with itself.
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
    """`[resamples, count]` how often each of `count` things is drawn in a bootstrap."""
    return generator.multinomial(count, np.full(count, 1 / count), size=resamples).astype(float)


def _stage_record(
    stage: str,
    decisions: Decisions,
    target: str,
    quality: dict[str, Quality],
    seed: int,
    resamples: int,
) -> dict[str, Any]:
    tasks = int(decisions.task.max()) + 1
    generator = np.random.default_rng(seed)
    drawn = _weighted(
        decisions,
        _draw(generator, decisions.runs, resamples),
        _draw(generator, tasks, resamples)[:, decisions.task],
    )
    every = np.ones((1, len(decisions.benchmarks)))
    observed = _weighted(decisions, np.ones((1, decisions.runs)), every)[:, 0]
    own = decisions.readings.index(target)
    within = decisions.agreement[:, :, decisions.related]
    rows = [
        {
            "reading": reading,
            "no_evaluation": index >= decisions.evaluated,
            "decision_accuracy": round(float(observed[index]), 6),
            "interval": _percentiles(drawn[index]),
            "minus_target": round(float(observed[index] - observed[own]), 6),
            "minus_target_interval": _percentiles(drawn[index] - drawn[own]),
            "within_families": _rounded(np.nanmean(within[index])) if within.size else None,
            **_quality_record(quality.get(reading), decisions, seed, resamples),
        }
        for index, reading in enumerate(decisions.readings)
    ]
    rows.sort(key=lambda row: (-float(str(row["decision_accuracy"])), str(row["reading"])))
    return {
        "stage": stage,
        "runs": decisions.runs,
        "pairs": len(decisions.first),
        "pairs_within_families": int(decisions.related.sum()),
        "benchmarks": list(decisions.benchmarks),
        "tasks": tasks,
        "readings": rows,
        "held_out": _held_out(decisions, own),
    }


def _held_out(decisions: Decisions, own: int) -> dict[str, Any]:
    """Each task decided by the reading that is best on all others; ties: the first by name."""
    by_benchmark = np.nanmean(decisions.agreement[: decisions.evaluated], axis=2)
    reached = np.empty(by_benchmark.shape[1])
    chosen = Counter[str]()
    for index, task in enumerate(decisions.task):
        others = by_benchmark[:, decisions.task != task]
        best = int(np.argmax(others.mean(axis=1))) if others.size else own
        reached[index] = by_benchmark[best, index]
        chosen[decisions.readings[best]] += 1
    return {
        "decision_accuracy": round(float(reached.mean()), 6),
        "target_reading": round(float(by_benchmark[own].mean()), 6),
        "chosen": dict(sorted(chosen.items())),
    }


def _percentiles(values: Floats) -> list[float]:
    """The percentile interval; resamples without a pair of different runs are left out."""
    tail = 100 * (1 - LEVEL) / 2
    return [round(float(value), 6) for value in np.nanpercentile(values, [tail, 100 - tail])]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(float(value), 6)
