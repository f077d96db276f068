"""The lead of a metric over a baseline, both named beforehand.

Both correlations share the target and the models, so they are dependent. Two things are computed:

* The interval of the difference of Spearman's rho: a paired bootstrap that keeps metric, baseline
  and target of a model together and draws whole series (percentile method; Efron & Tibshirani 1993,
  section 13.3).
* The one-sided p-value: the difference of the two Fisher z over its standard error
  (`simultaneous`), over all models or within families, whichever of the two differences has the
  smaller standard error. The standard error over all models is widened by the design effect of
  families and series; that within families costs one model a family.

The bootstrap gives no p: where families share half of the variance, it calls 10% of equal pairs
different. For the best of many metrics, `simultaneous.p_above` pays for the choice.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from analysis.statistics.correlations import Floats, Interval, number, spearman_rows
from analysis.statistics.resampling import (
    DEFAULT_RESAMPLES,
    LEAST_DRAWN,
    draw,
    percentile_interval,
    replicate,
)
from analysis.statistics.simultaneous import difference_of_z, joint_errors

MINIMUM_SERIES_OF_P = 5
"""With fewer, the correlation within series can't be estimated."""


@dataclass(frozen=True)
class Lead:
    """Spearman of a metric minus that of the baseline.

    interval: of it, by the bootstrap, at 95%, two-sided; NaN below `LEAST_DRAWN` series.
    p: one-sided, that the metric doesn't lead; NaN below `MINIMUM_SERIES_OF_P`.
    within: whether p is of the difference within families.
    series: how many there are.
    """

    value: float
    interval: Interval
    p: float
    within: bool
    series: int

    @property
    def record(self) -> dict[str, Any]:
        """As JSON-ready values."""
        low, high = self.interval.low, self.interval.high
        return {
            "value": number(self.value),
            "ci95": None if math.isnan(low) else [number(low), number(high)],
            "p_one_sided": number(self.p),
            "p_within_families": self.within,
            "series": self.series,
        }


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

    Of `[n]` oriented, complete columns; whole series are resampled.
    """
    value = float(_difference(metric[None], baseline[None], target[None])[0])
    labels = [str(label) for label in series]
    count = len(set(labels))
    p, within = lead_p(metric, baseline, target, families, series)
    if count < LEAST_DRAWN:
        unknown = Interval(math.nan, math.nan, "too few series")
        return Lead(value, unknown, p, within, count)

    def statistic(rows: Floats, targets: Floats) -> Floats:
        models = rows.astype(np.intp)
        return _difference(metric[models], baseline[models], targets)

    index = np.arange(target.size, dtype=np.float64)
    found = replicate(statistic, index, target, draw(target.size, resamples, seed, labels))
    return Lead(value, percentile_interval(found), p, within, count)


def lead_p(
    metric: Floats,
    baseline: Floats,
    target: Floats,
    families: Sequence[Hashable],
    series: Sequence[Hashable],
) -> tuple[float, bool]:
    """One-sided p-value that a metric doesn't lead, and whether it is of the difference within.

    Of `[n]` oriented, complete columns; each series is of one family.
    """
    if len(set(series)) < MINIMUM_SERIES_OF_P:
        return math.nan, False
    both = np.stack([metric, baseline])
    overall = difference_of_z(joint_errors(both, target, [families, series]), 0, 1)
    inside = difference_of_z(joint_errors(both, target, [series], families), 0, 1)
    within = inside[1] < overall[1]
    gap, error = inside if within else overall
    if math.isnan(gap):
        return math.nan, False
    # two with equal rankings have a difference without error
    return (NormalDist().cdf(-gap / error) if error > 0 else 1.0), within


def _difference(metric: Floats, baseline: Floats, target: Floats) -> Floats:
    return np.asarray(spearman_rows(metric, target) - spearman_rows(baseline, target))
