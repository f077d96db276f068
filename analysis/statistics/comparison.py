"""A metric against a baseline on the same models: is its correlation with the target higher?

Both correlations share the target and the models, so they are dependent: the bootstrap draws
models and keeps metric, baseline and target of each together (paired). Models of a series (doses
of one treatment, checkpoints of one run) follow each other and are drawn as wholes. Its one-sided
p-value is the share of resamples in which the metric doesn't lead, ties half (percentile method;
Efron & Tibshirani 1993, section 16.4).

Drawing series leaves out that families share levels: where they share half of the variance, 10% of
equal pairs are called different. The p-value reported is therefore the larger of that of the
bootstrap and that of the difference of Fisher's z, whose variance the design effect of families and
series widens (`simultaneous`): 2 to 5% of equal pairs then.

It holds for a metric named beforehand. For the best of many, `simultaneous.p_above` pays for the
choice. Simulated, type I errors and power, in benchmarks/statistics_selection.py.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.statistics.bootstrap import (
    DEFAULT_RESAMPLES,
    Interval,
    draw,
    percentile_interval,
    replicate,
)
from analysis.statistics.correlations import Floats, spearman_rows
from analysis.statistics.simultaneous import joint_errors, p_above

MINIMUM_SERIES = 8
"""Fewer are too few to draw from: the bootstrap over them is too short."""


@dataclass(frozen=True)
class Lead:
    """Spearman of a metric minus that of the baseline.

    interval: of it, by the bootstrap, at 95%, two-sided.
    p: one-sided, that the metric doesn't lead, the larger of two; both NaN with fewer than
        `MINIMUM_SERIES`.
    series: how many were drawn from.
    """

    value: float
    interval: Interval
    p: float
    series: int


def lead_over(
    metric: Floats,
    baseline: Floats,
    target: Floats,
    families: Sequence[Hashable],
    series: Sequence[Hashable],
    seed: int,
    resamples: int = DEFAULT_RESAMPLES,
) -> Lead:
    """By how much a metric correlates better with the target than the baseline does.

    Args:
        metric: `[n]`, oriented, complete.
        baseline: `[n]`, likewise.
        target: `[n]`.
        families: of each model.
        series: of each model.
        seed: of the resamples.
        resamples: how many.
    """
    value = float(_difference(metric[None], baseline[None], target[None])[0])
    labels = [str(label) for label in series]
    count = len(set(labels))
    if count < MINIMUM_SERIES:
        unknown = Interval(math.nan, math.nan, 0.95, "too few series", 0, 0)
        return Lead(value, unknown, math.nan, count)

    def statistic(rows: Floats, targets: Floats) -> Floats:
        models = rows.astype(np.intp)
        return _difference(metric[models], baseline[models], targets)

    index = np.arange(target.size, dtype=np.float64)
    found = replicate(statistic, index, target, draw(target.size, resamples, seed, labels))
    defined = np.round(found[~np.isnan(found)], 10)
    behind = float((defined < 0).sum() + 0.5 * (defined == 0).sum())
    errors = joint_errors(np.stack([metric, baseline]), target, [families, series])
    p = max((1 + behind) / (defined.size + 1), float(p_above(errors, 1)[0]))
    return Lead(value, percentile_interval(found), p, count)


def _difference(metric: Floats, baseline: Floats, target: Floats) -> Floats:
    return np.asarray(spearman_rows(metric, target) - spearman_rows(baseline, target))
