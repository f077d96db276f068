"""Simultaneous inference for all metrics of a problem: every metric ever tested counts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from analysis.ranking.metric_table import MetricTable
from analysis.statistics.bootstrap import Interval
from analysis.statistics.correlations import Floats
from analysis.statistics.simultaneous import (
    JointErrors,
    adjusted_p,
    critical_value,
    interval_after_choice,
    joint_errors,
    joint_errors_within,
    single_p,
    smallest_claimed,
)

CLAIM_LEVEL = 0.05
"""A metric tracks the target with an adjusted p below it, that is, a 95% interval above 0."""

UNKNOWN = Interval(math.nan, math.nan, 0.95, "after choice", 0, 0)


@dataclass(frozen=True, eq=False)
class Inference:
    """Correlations of all metrics tested, in the order of `table.everything`.

    A metric tracks the target when its interval excludes 0 over all models or within families.
    Each of the two errs in at most 2.5% of studies, both together in at most 5%.

    overall: over all models; within: of the differences inside families, where families have
        several models.
    critical, within_critical: standard errors that the intervals reach down.
    p, p_within: `[K]` adjusted for all K, NaN where untested; p_single: as if tested alone.
    least_rho: from which the interval over all models excludes 0.
    """

    overall: JointErrors
    within: JointErrors
    critical: float
    within_critical: float
    p: Floats
    p_within: Floats
    p_single: Floats
    least_rho: float

    @property
    def tested(self) -> int:
        """Number of metrics tested that have a p."""
        return int(self.overall.tested.sum())

    def rho(self, row: int) -> float:
        """Spearman over all models that have a value; NaN where undefined or too few."""
        return float(self.overall.rho[row])

    def interval(self, row: int) -> Interval:
        """95% interval of rho that allows for the choice."""
        return _interval(self.overall, row, self.critical)

    def within_interval(self, row: int) -> Interval:
        """The same of rho within families."""
        return _interval(self.within, row, self.within_critical)

    def evidence(self, row: int) -> tuple[str, ...]:
        """The comparisons in which a metric's interval excludes 0; empty if it doesn't track the
        target.
        """
        found = (("over all models", self.p[row]), ("within families", self.p_within[row]))
        return tuple(where for where, p in found if p < CLAIM_LEVEL)


def infer(table: MetricTable) -> Inference:
    """Correlate all metrics tested for a problem with its target."""
    metrics = np.stack([column.oriented for column in table.everything])
    return infer_columns(metrics, table)


def infer_columns(metrics: Floats, table: MetricTable) -> Inference:
    """The same for `[K, models]` oriented columns, NaN where missing."""
    overall = joint_errors(metrics, table.target, [table.families, table.kinds])
    within = joint_errors_within(metrics, table.target, table.families, table.kinds)
    critical = critical_value(overall)
    return Inference(
        overall=overall,
        within=within,
        critical=critical,
        within_critical=critical_value(within),
        p=adjusted_p(overall),
        p_within=adjusted_p(within),
        p_single=single_p(overall),
        least_rho=smallest_claimed(overall, critical),
    )


def _interval(errors: JointErrors, row: int, critical: float) -> Interval:
    if not errors.tested[row]:
        return UNKNOWN
    best = bool(errors.rho[row] >= np.nanmax(errors.rho) - 1e-10)
    return interval_after_choice(errors, row, critical, best)
