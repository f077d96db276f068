"""Tests of metrics that were named beforehand: against the target, and against a baseline.

**Permutation test.** Models are not exchangeable: families share levels, and models of a series
(doses of one treatment, checkpoints of one run) follow each other. The target is therefore permuted
within families only (`strata`) and by whole series (`blocks`) of equally many models: the test is
exact for what is exchangeable, and a series of 3 models is not with one of 2. Several metrics are
tested together: each is compared with the largest rho over all of them in every permutation (max
statistic; Westfall & Young 1993).

**Lead over the baseline.** Both correlations share the target and the models, so they are
dependent. Two things are computed:

* The interval of the difference of Spearman's rho: a paired bootstrap that keeps metric, baseline
  and target of a model together and draws whole series (percentile method; Efron & Tibshirani 1993,
  section 13.3).
* The one-sided p-value: the difference of the two Fisher z over its standard error
  (`simultaneous`), over all models or within families, whichever of the two differences has the
  smaller standard error. The standard error over all models is widened by the design effect of
  families and series; that within families costs one model a family.

The bootstrap gives no p: where families share half of the variance, it calls 10% of equal pairs
different. The p-value calls 3 to 6% different, at more power (benchmarks/statistics_selection.py).
For the best of many metrics, `simultaneous.p_above` pays for the choice.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from analysis.statistics.correlations import (
    Floats,
    Indices,
    Interval,
    codes,
    number,
    spearman_rows,
    unit_ranks,
)
from analysis.statistics.formats import span
from analysis.statistics.resampling import DEFAULT_RESAMPLES, draw, percentile_interval, replicate
from analysis.statistics.simultaneous import difference_of_z, joint_errors, joint_errors_within

DEFAULT_PERMUTATIONS = 10_000
MINIMUM_SERIES = 8
"""Fewer are too few to draw from: the bootstrap over them is too short."""

MINIMUM_SERIES_OF_P = 5
"""With fewer, the correlation within series can't be estimated."""

_ROUNDING = 1e-10
"""Correlations closer than this are equal: the difference is rounding of the processor."""


def exchangeable_strata(families: Sequence[str], series: Sequence[Hashable]) -> list[str]:
    """Within which group the series of each model may change places with others.

    The group is the series of as many models in the family, or in all families with one series
    only: given their number, these are exchangeable among themselves.
    """
    of_family = Counter(family for family, _ in set(zip(families, series, strict=True)))
    models = Counter(series)
    return [
        f"{f'family {family}' if of_family[family] > 1 else 'families of one series'}, "
        f"series of {models[one]}"
        for family, one in zip(families, series, strict=True)
    ]


def arrangements(strata: Sequence[str], blocks: Sequence[Hashable]) -> int:
    """Number of orders that `permuted_indices` can draw; no p-value is below one over it."""
    of_stratum = Counter(stratum for stratum, _ in set(zip(strata, blocks, strict=True)))
    return math.prod(map(math.factorial, of_stratum.values()))


def permuted_indices(
    points: int,
    permutations: int,
    seed: int,
    strata: Sequence[str] | None = None,
    blocks: Sequence[Hashable] | None = None,
) -> Indices:
    """`[permutations, points]` random orders.

    Args:
        points: n.
        permutations: how many.
        seed: of the orders.
        strata: `[n]` labels; points stay within theirs.
        blocks: `[n]` labels; the points of one block (within a stratum) stay together and in
            order. The blocks of a stratum have equally many points (`exchangeable_strata`).
    """
    generator = np.random.default_rng(seed)
    labels = codes([""] * points if strata is None else strata)
    block_codes = codes(range(points) if blocks is None else blocks)
    keys = generator.random((permutations, points))
    order = np.empty((permutations, points), dtype=np.intp)
    for label in range(labels.max() + 1):
        members = np.flatnonzero(labels == label)
        members = members[np.argsort(block_codes[members], kind="stable")]
        own = codes(block_codes[members].tolist())
        # one key a block, that of its first place: a stable sort keeps its points in order
        drawn = keys[:, members[np.unique(own, return_index=True)[1]]][:, own]
        order[:, members] = members[np.argsort(drawn, axis=1, kind="stable")]
    return order


def directed_test(
    metrics: Floats,
    target: Floats,
    seed: int,
    permutations: int = DEFAULT_PERMUTATIONS,
    strata: Sequence[str] | None = None,
    blocks: Sequence[Hashable] | None = None,
) -> Floats:
    """One-sided p-values that `[K, n]` metrics named beforehand rise with the target.

    The metrics are oriented and complete; strata and blocks are those of `permuted_indices`.

    Returns:
        `[K]`, each against the largest rho of all K; NaN for a constant metric.
    """
    order = permuted_indices(target.size, permutations, seed, strata, blocks)
    orders = np.vstack([np.arange(target.size), order])
    rho = _unit(metrics) @ _unit(target[orders]).T
    largest = np.sort(np.nan_to_num(rho[:, 1:], nan=-1.0).max(axis=0))
    reaching = permutations - np.searchsorted(largest, np.nan_to_num(rho[:, 0]) - _ROUNDING)
    return np.where(np.isnan(rho[:, 0]), np.nan, (1 + reaching) / (permutations + 1))


def _unit(values: Floats) -> Floats:
    return unit_ranks(values, np.ones(values.shape, dtype=np.bool_))


@dataclass(frozen=True)
class Lead:
    """Spearman of a metric minus that of the baseline.

    interval: of it, by the bootstrap, at 95%, two-sided; NaN below `MINIMUM_SERIES`.
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
    def text(self) -> str:
        """The interval and the p, where there are enough series for them."""
        if math.isnan(self.p):
            return f"{self.series} series are too few for a CI or a p"
        interval = (
            f"{self.series} series are too few for a CI"
            if math.isnan(self.interval.low)
            else f"95% CI {span(self.interval)}, paired bootstrap over {self.series} series"
        )
        return f"{interval}; one-sided p {'within families ' if self.within else ''}{self.p:.4f}"

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
    if count < MINIMUM_SERIES:
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
    inside = difference_of_z(joint_errors_within(both, target, families, series), 0, 1)
    within = inside[1] < overall[1]
    gap, error = inside if within else overall
    if math.isnan(gap):
        return math.nan, False
    # two with equal rankings have a difference without error
    return (NormalDist().cdf(-gap / error) if error > 0 else 1.0), within


def _difference(metric: Floats, baseline: Floats, target: Floats) -> Floats:
    return np.asarray(spearman_rows(metric, target) - spearman_rows(baseline, target))
