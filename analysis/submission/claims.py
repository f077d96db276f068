"""Disclosures of a submission: metrics tested, and preregistration."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.preregistration.preregistered import preregistered_metrics
from analysis.ranking.inference import infer_columns
from analysis.ranking.leaderboard import interval_record, number
from analysis.statistics.correlations import settled
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
    as_of: str = "",
) -> dict[str, Any]:
    """Number of metrics tested, adjusted p-values, the interval that allows for the choice,
    preregistration.

    p_adjusted is simultaneous for all metrics tested and widened by the design effect of
    families and series; p_adjusted_within_families is the same of the ranks less family means.

    Args:
        problem: its models and groups.
        workspace: with the records of metrics tested and of preregistrations.
        table: of the problem.
        column: the one submitted.
        as_of: count metrics tested until then; empty for now.
    """
    moment = as_of or datetime.now(timezone.utc).isoformat(timespec="microseconds")
    tried = [entry for entry in tries(workspace, problem.name) if entry.first_seen <= moment]
    lower = {(c.metric, c.variant) for c in table.everything if c.direction == "lower"}
    rows = [column.oriented]
    for entry in tried:
        values = [entry.values.get(model.model_id, np.nan) for model in table.models]
        sign = -1.0 if (entry.metric, entry.variant) in lower else 1.0
        rows.append(settled(sign * np.array(values)))
    inference = infer_columns(np.stack(rows), table)
    return {
        "as_of": moment,
        "tried": len(tried),
        "p_adjusted": number(float(inference.p[0])),
        "p_adjusted_within_families": number(float(inference.p_within[0])),
        "spearman_ci95_after_choice": interval_record(inference.interval(0)),
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
