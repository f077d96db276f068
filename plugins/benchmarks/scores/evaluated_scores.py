"""Scores that `tokenmart eval` measured or that were imported."""

from __future__ import annotations

import duckdb

from plugins.benchmarks.refusal import refused
from plugins.benchmarks.scores.collected import Collected, Score
from warehouse.paths import Workspace
from warehouse.problem.spec import load_problem
from warehouse.sql.connection import connect_read_only

_BUILD = "tokenmart dbt run --select tag:benchmarks"


def evaluated_scores(problem: str, workspace: Workspace) -> Collected:
    """The scores of a problem's benchmarks, for tasks and groups.

    A benchmark is named by its condition (`arc_easy-0shot`), a metric with its filter unless that
    is `none`, a checkpoint by the full id of its model and its revision.

    Args:
        problem: name or path of a problem file.
        workspace: a checkout with a built database.

    Raises:
        TokenmartError: the problem is unknown or has no scores.
        StorageError: there is no database yet, or dbt is writing it.
    """
    chosen = load_problem(problem, workspace)
    names = {}
    for model in chosen.models:
        revision = str(getattr(model.source, "revision", None) or "main")
        known = revision == "main" or revision in model.full_id
        names[model.model_id] = model.full_id if known else f"{model.full_id},revision={revision}"
    with connect_read_only(workspace) as connection:
        try:
            rows = connection.execute(
                """
                with directions as (
                    select
                        metric,
                        any_value(better) as better
                    from (
                        select metric, better from eval_metric_catalog
                        union all
                        select metric, better from stg_eval_scores
                        where problem = $problem and better is not null
                    )
                    group by metric
                    having count(distinct better) = 1
                )

                select model_id, condition, metric, filter, value, stderr, reason, better
                from eval_metrics
                left join directions using (metric)
                where problem = $problem and part = 'all'
                order by all
                """,
                {"problem": chosen.name},
            ).fetchall()
        except duckdb.CatalogException as error:
            what = f"has no eval_metrics yet; run `{_BUILD}`"
            raise refused(workspace.database, what, "not-built") from error
    notes = [
        f"{model_id}, {condition}: {metric} left out ({reason or 'no value'})"
        for model_id, condition, metric, _, value, _, reason, _ in rows
        if value is None
    ]
    found = [
        Score(
            name=names.get(model_id, model_id),
            benchmark=condition,
            metric=metric if filter_name == "none" else f"{metric},{filter_name}",
            direction=better,
            value=value,
            stderr=stderr,
        )
        for model_id, condition, metric, filter_name, value, stderr, _, better in rows
        if value is not None
    ]
    if not found:
        what = f"no score of a benchmark is built; run `tokenmart eval`, then `{_BUILD}`"
        raise refused(chosen.name, what, "no-score")
    return Collected(found, notes)
