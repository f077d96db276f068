"""What the frozen tables say of the target: scores, their errors, and its parts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.ranking.leaderboard import number
from analysis.ranking.metric_table import MetricTable
from warehouse.problem.recall_target import RecallTarget
from warehouse.problem.spec import Problem

if TYPE_CHECKING:
    import duckdb

    from analysis.statistics.correlations import Floats
    from warehouse.problem.kinds import Ranked


def target_figures(
    connection: duckdb.DuckDBPyConnection, table: MetricTable, problem: Ranked
) -> dict[str, Any]:
    """Scores of the target, and how large their errors are against the spread of the models.

    `mean_stderr_apart` is what the errors would be if tasks and lengths had contexts of their own.
    """
    models = {model.model_id: model for model in table.models}
    scores = connection.execute(
        "select model_id, score, stderr from downstream_scores where task = 'overall'"
        " order by score desc, model_id"
    ).fetchall()
    scores = [row for row in scores if row[0] in models]
    kinds = connection.execute(
        "select kind, length, avg(score) from"
        " (select model_id, kind, length, sum(score * items) / sum(items) as score"
        "  from downstream_depths group by all) group by all order by all"
    ).fetchall()
    spreads = connection.execute(
        "select kind, stddev_samp(score) from"
        " (select model_id, kind, sum(score * items) / sum(items) as score"
        "  from downstream_depths group by all) group by all order by all"
    ).fetchall()
    contexts = connection.execute("select max(contexts) from downstream_depths").fetchone()
    apart = connection.execute(
        "select model_id, sqrt(sum(stderr ** 2)) / count(*) from downstream_scores"
        " where list_contains($lengths, try_cast(regexp_extract(task, '_(\\d+)$', 1) as bigint))"
        " group by all",
        {"lengths": list(_counted(problem))},
    ).fetchall()
    alone = np.array([error for model, error in apart if model in models], dtype=float)
    values = np.array([row[1] for row in scores])
    errors = np.array([math.nan if row[2] is None else row[2] for row in scores])
    return {
        "contexts": None if contexts is None else contexts[0],
        "lengths": sorted({row[1] for row in kinds}),
        "tasks": sorted({row[0] for row in kinds}),
        "means": [
            {"task": kind, "length": length, "mean": number(mean)} for kind, length, mean in kinds
        ],
        "spreads": {kind: number(spread) for kind, spread in spreads},
        "models": [
            {
                "model": models[model].full_id,
                "family": models[model].family,
                "score": number(score),
                "stderr": None if error is None else number(error),
            }
            for model, score, error in scores
        ],
        "spread": number(float(values.std(ddof=1))),
        "mean_stderr": number(float(np.sqrt((errors**2).mean()))),
        "mean_stderr_apart": number(float(np.sqrt((alone**2).mean()))) if len(alone) else None,
    }


def parts_of_target(
    connection: duckdb.DuckDBPyConnection, table: MetricTable, problem: Ranked
) -> dict[str, dict[str, Floats]]:
    """Scores of the models at each length (all tasks the same), and in each task at those counted.

    Both are empty where the project didn't measure the target.
    """
    counted = _counted(problem)
    rows = connection.execute(
        "select model_id, regexp_extract(task, '^(.*)_\\d+$', 1) as kind,"
        " regexp_extract(task, '_(\\d+)$', 1)::int as length, score from downstream_scores"
        " where regexp_matches(task, '_\\d+$') order by all"
    ).fetchall()
    scores: dict[str, dict[str, dict[str, list[float]]]] = {"lengths": {}, "tasks": {}}
    for model, kind, length, score in rows if counted else ():
        scores["lengths"].setdefault(str(length), {}).setdefault(model, []).append(score)
        if length in counted:
            # the single key's items are stored as `recall`
            name = "single_key" if kind == "recall" else kind
            scores["tasks"].setdefault(name, {}).setdefault(model, []).append(score)
    ids = [model.model_id for model in table.models]
    return {
        what: {
            name: np.array([np.mean(of.get(model, np.nan)) for model in ids])
            for name, of in sorted(parts.items(), key=lambda part: (len(part[0]), part[0]))
        }
        for what, parts in scores.items()
    }


def _counted(problem: Ranked) -> tuple[int, ...]:
    """Lengths that the overall score averages; none where the project didn't measure it."""
    target = problem.target if isinstance(problem, Problem) else None
    return target.counted_lengths if isinstance(target, RecallTarget) else ()
