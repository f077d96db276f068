"""Gather the data of pairs of models on the same items, from the marts that dbt built."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from warehouse.errors import TokenmartError, did_you_mean
from warehouse.paths import Workspace
from warehouse.sql.connection import connect_read_only

BUILD = "tokenmart dbt run --select tag:benchmarks"

PREFERRED = ("acc_norm", "acc", "exact_match", "f1", "bits_per_byte", "perplexity")
"""Default metrics of a page; the first one that a task has is used."""


@dataclass(frozen=True)
class Pair:
    """Two models on the items that both answered; columns of `eval_pairs`."""

    model: str
    other: str
    items: int
    clusters: int
    value: float
    other_value: float
    difference: float
    stderr: float | None
    wins: int
    ties: int
    losses: int
    smallest_difference: float | None
    items_needed: int | None
    is_distinguishable: bool


@dataclass(frozen=True)
class SampledTwice:
    """A model whose items were answered more than once; columns of `eval_noise`."""

    model: str
    answers: int
    stderr: float
    prediction_stderr: float
    data_stderr: float


@dataclass(frozen=True)
class TaskPairs:
    """All pairs of a task by one metric.

    models: best first. better: `higher` or `lower`, None if it is not stated.
    """

    condition: str
    metric: str
    filter: str
    better: str | None
    models: tuple[str, ...]
    pairs: tuple[Pair, ...]
    noise: tuple[SampledTwice, ...]


def gather_pairs(problem: str, metric: str | None, workspace: Workspace) -> tuple[TaskPairs, ...]:
    """The pairs of each task of a problem.

    Args:
        problem: name of the problem.
        metric: the metric; None for the first one of `PREFERRED` that a task has.
        workspace: the checkout with the database.

    Raises:
        TokenmartError: no results are built for this problem, or no task has the metric.
        StorageError: there is no database yet, or dbt is writing it.
    """
    with connect_read_only(workspace) as database:
        try:
            found = database.execute(
                "select condition, metric, filter from eval_pairs where problem = $problem"
                " group by all order by all",
                {"problem": problem},
            ).fetchall()
        except duckdb.CatalogException as error:
            raise TokenmartError(
                f"{workspace.database}: has no pairs of models yet; run `{BUILD}`"
            ) from error
        if not found:
            raise TokenmartError(
                f"--problem {problem}: no two models have answered the same items; run `tokenmart "
                f"eval` for at least two models, then `{BUILD}`"
            )
        known = sorted({name for _, name, _ in found})
        if metric is not None and metric not in known:
            raise TokenmartError(
                f"--metric {metric}: no task of {problem} has it; {did_you_mean(metric, known)}"
                f"its metrics: {', '.join(known)}"
            )
        tasks = []
        for condition in dict.fromkeys(condition for condition, _, _ in found):
            of_task = [row[1:] for row in found if row[0] == condition]
            names = [name for name, _ in of_task]
            wanted = [metric] if metric else [*PREFERRED, *names]
            chosen = next((name for name in wanted if name in names), None)
            tasks += [
                _task(database, problem, condition, name, filter_name)
                for name, filter_name in of_task
                if name == chosen
            ]
        return tuple(tasks)


def _task(
    database: duckdb.DuckDBPyConnection, problem: str, condition: str, metric: str, filter_name: str
) -> TaskPairs:
    key = {"problem": problem, "condition": condition, "metric": metric, "filter": filter_name}
    rows = database.execute(
        """
        select
            model_id, other_model_id, items, clusters, value, other_value, difference, stderr,
            wins, ties, losses, smallest_difference, items_needed, is_distinguishable, better
        from eval_pairs
        where problem = $problem
            and condition = $condition
            and metric = $metric
            and filter = $filter
        order by model_id, other_model_id
        """,
        key,
    ).fetchall()
    pairs = tuple(Pair(*row[:-1]) for row in rows)
    better = rows[0][-1]
    values: dict[str, float] = {}
    for pair in pairs:
        values[pair.model], values[pair.other] = pair.value, pair.other_value
    sign = 1 if better == "lower" else -1
    noise = database.execute(
        """
        select model_id, answers, stderr, prediction_stderr, data_stderr
        from eval_noise
        where problem = $problem and condition = $condition and filter = $filter
        order by model_id
        """,
        {name: value for name, value in key.items() if name != "metric"},
    ).fetchall()
    return TaskPairs(
        condition=condition,
        metric=metric,
        filter=filter_name,
        better=better,
        models=tuple(sorted(values, key=lambda name: (sign * values[name], name))),
        pairs=pairs,
        noise=tuple(SampledTwice(*row) for row in noise) if metric == "exact_match" else (),
    )
