"""What a submission states besides the result: metrics tested, and preregistration."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.preregistration.preregistered import preregistered_metrics
from analysis.ranking.leaderboard import interval_record, number
from analysis.statistics.after_choice import winner_interval
from analysis.statistics.permutation import exchangeable_strata, max_test
from warehouse.metrics.tries import tries

if TYPE_CHECKING:
    from analysis.ranking.metric_table import MetricColumn, MetricTable
    from warehouse.paths import Workspace
    from warehouse.problem.spec import Problem


def claims_record(
    problem: Problem,
    workspace: Workspace,
    table: MetricTable,
    column: MetricColumn,
    seed: int,
    as_of: str = "",
) -> dict[str, Any]:
    """Tries, adjusted p-values, the interval that allows for the choice, the pre-registration.

    Args:
        problem: its models and groups.
        workspace: where the record of tries and of pre-registrations is.
        table: of the problem.
        column: the one submitted.
        seed: of the permutations.
        as_of: count what was tried until then; empty for now.
    """
    moment = as_of or datetime.now(timezone.utc).isoformat(timespec="microseconds")
    tried = [entry for entry in tries(workspace, problem.name) if entry.first_seen <= moment]
    rows = [column.values] + [
        np.array([entry.values.get(model.model_id, np.nan) for model in table.models])
        for entry in tried
    ]
    metrics = np.stack(rows)
    series = list(zip(table.families, table.kinds, strict=True))
    strata = exchangeable_strata(table.families, series)
    free = max_test(metrics, table.target, seed)
    within = max_test(metrics, table.target, seed, strata=strata, blocks=series)
    whole = metrics[np.isfinite(metrics).all(axis=1) & (np.ptp(metrics, axis=1) > 0)]
    interval = winner_interval(whole, table.target, [table.families, table.kinds], seed, chosen=0)
    return {
        "as_of": moment,
        "tried": len(tried),
        "p_adjusted": number(float(free.p_adjusted[0])),
        "p_adjusted_within_families": number(float(within.p_adjusted[0])),
        "spearman_ci95_after_choice": interval_record(interval.interval),
        "families": len(set(table.families)),
        "kinds": len(set(table.kinds)),
        "preregistration": preregistration_record(problem, workspace, column, moment),
    }


def preregistration_record(
    problem: Problem, workspace: Workspace, column: MetricColumn, as_of: str
) -> dict[str, Any] | None:
    """The oldest entry that names this metric, and what has changed since; None without one.

    An entry that a later one replaced comes last.
    """
    said_of = preregistered_metrics(workspace, problem)
    for said in sorted(said_of, key=lambda said: said.replaced):
        if said.metric.name == column.name and said.entry.recorded_at <= as_of:
            return {
                "number": said.entry.number,
                "sha256": said.entry.sha256,
                "recorded_at": said.entry.recorded_at,
                "before_labels": said.entry.before_labels,
                "metrics": len(said.entry.metrics),
                "direction": said.metric.direction,
                "changed_since": list(said.changed),
            }
    return None
