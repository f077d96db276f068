"""Rows of a plain table from scores that `tokenmart eval` measured or that were imported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import duckdb

from plugins.benchmarks.scores.checkpoint_names import Checkpoint, checkpoint_of
from plugins.benchmarks.scores.harness_results import HarnessResults, ScoreRow, sorted_rows
from plugins.benchmarks.scores.metric_directions import direction_of
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.problem.models import ModelSpec
from warehouse.problem.spec import load_problem
from warehouse.sql.connection import connect_read_only

_BUILD = "tokenmart dbt run --select tag:benchmarks"


def evaluated_scores(
    problem: str, workspace: Workspace, directions: Mapping[str, str] | None = None
) -> HarnessResults:
    """The scores of a problem's benchmarks, for tasks and groups.

    A benchmark is named by its condition (`arc_easy-0shot`), a metric with its filter unless that
    is `none`. A model's step and tokens are read from its full id, otherwise from its revision.

    Args:
        problem: name or path of a problem file.
        workspace: a checkout with a built database.
        directions: metric → higher or lower, if neither table nor name states it.

    Raises:
        TokenmartError: the problem is unknown or has no scores, or the direction of a metric is
            unknown.
        StorageError: there is no database yet, or dbt is writing it.
    """
    chosen = load_problem(problem, workspace)
    with connect_read_only(workspace) as connection:
        try:
            rows = connection.execute(
                """
                select model_id, condition, metric, filter, value, stderr, reason
                from eval_metrics where problem = ? and part = 'all' order by all
                """,
                [chosen.name],
            ).fetchall()
            better = dict(
                connection.execute(
                    """
                    select metric, any_value(better) from (
                        select metric, better from eval_metric_catalog
                        union all
                        select metric, better from stg_eval_scores
                        where problem = ? and better is not null
                    ) group by metric having count(distinct better) = 1
                    """,
                    [chosen.name],
                ).fetchall()
            )
        except duckdb.CatalogException as error:
            raise TokenmartError(
                f"{workspace.database}: has no eval_metrics yet; run `{_BUILD}`"
            ) from error
    better |= directions or {}
    found: list[ScoreRow] = []
    notes = []
    named = _checkpoints(chosen.models)
    for model_id, condition, metric, filter_name, value, stderr, reason in rows:
        if value is None:
            notes.append(f"{model_id}, {condition}: {metric} left out ({reason or 'no value'})")
            continue
        direction = better.get(metric) or direction_of(metric)
        if direction is None:
            raise TokenmartError(
                f"{condition}: neither the task nor the name of {metric} states whether higher or "
                f"lower values are better; add --direction {metric}=higher or lower"
            )
        model, step, tokens = named.get(model_id, (model_id, None, None))
        found.append(
            {
                "model": model,
                "step": step,
                "tokens": tokens,
                "benchmark": condition,
                "metric": metric if filter_name == "none" else f"{metric},{filter_name}",
                "direction": direction,
                "score": value,
                "stderr": stderr,
                "parameters": None,
            }
        )
    if not found:
        raise TokenmartError(
            f"problem {chosen.name}: no score of a benchmark is built; run `tokenmart eval`, then "
            f"`{_BUILD}`"
        )
    return HarnessResults(sorted_rows(found), tuple(notes))


def _checkpoints(
    models: Sequence[ModelSpec],
) -> dict[str, tuple[str, int | None, float | None]]:
    """Model id → name of its run, step and tokens; two that would be one keep their full ids."""
    read = [(model, _checkpoint(model)) for model in models]
    rests: dict[str, set[str]] = {}
    for _, each in read:
        rests.setdefault(each.model, set()).add(each.rest)
    found = {
        model.model_id: (
            f"{each.model}@{each.rest}" if each.rest and len(rests[each.model]) > 1 else each.model,
            each.step,
            each.tokens,
        )
        for model, each in read
    }
    counts = Counter(found.values())
    for model in models:
        name, step, tokens = found[model.model_id]
        if counts[name, step, tokens] > 1:
            found[model.model_id] = model.full_id, step, tokens
    return found


def _checkpoint(model: ModelSpec) -> Checkpoint:
    """The checkpoint that a model is by its full id, else by its revision."""
    by_name = checkpoint_of(model.full_id, None)
    by_revision = checkpoint_of(
        model.full_id, {"revision": getattr(model.source, "revision", None)}
    )
    assert by_name is not None and by_revision is not None
    counted = by_name.step is not None or by_name.tokens is not None
    return by_name if counted else by_revision
