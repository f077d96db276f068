"""Resampling of models: paired bootstrap intervals, by point or by family, and hold-out splits.

A statistic takes `[rows, points]` columns and returns `[rows]` values, NaN where undefined.
Resamples with an undefined statistic are left out of the interval and counted.

`repeated_splits` chooses the best of many metrics on a part of the models and scores it on the
others. Directions are declared, so the choice on the training models is the metric with the largest
signed Spearman. What it is worth is measured on models the choice never saw: the mean over random
splits (repeated hold-out; Burman 1989). It describes the procedure of choosing; inference on the
chosen metric is in `analysis.statistics.simultaneous`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import NormalDist

import numpy as np

from analysis.statistics.correlations import (
    Flags,
    Floats,
    Indices,
    Interval,
    kendall,
    pearson,
    spearman,
    spearman_rows,
    unit_ranks,
)
from analysis.statistics.skipped import Skipped, mcd_skipped, mcd_skipped_rows, projection_skipped

Statistic = Callable[[Floats, Floats], Floats]

DEFAULT_RESAMPLES = 10_000
DEFAULT_SPLITS = 500
MINIMUM_TRAINING = 5
TEST_SHARE = 1 / 3

_TAILS = ((1.0 - 0.95) / 2.0, 1.0 - (1.0 - 0.95) / 2.0)
_ROWS_AT_ONCE = 4096
_DIGITS = 10
"""Correlations equal to this many digits are equal: the rest is rounding of the processor."""


@dataclass(frozen=True)
class Estimate:
    """A statistic with its percentile and BCa intervals at 95%."""

    value: float
    percentile: Interval
    bca: Interval


@dataclass(frozen=True, eq=False)
class Correlations:
    """Every coefficient of one metric against the target, each computed when it is first asked for.

    x: `[n]`, the metric; y: `[n]`, the target; seed: of the bootstrap and of the MCD filter.
    resamples: of each interval; all intervals use the same resamples.
    clusters: families to resample as wholes; None resamples models.
    """

    x: Floats = field(repr=False)
    y: Floats = field(repr=False)
    seed: int
    resamples: int = DEFAULT_RESAMPLES
    clusters: Sequence[str] | None = None

    @cached_property
    def pearson(self) -> float:
        """Pearson's r."""
        return pearson(self.x, self.y)

    @cached_property
    def kendall(self) -> float:
        """Kendall's tau-b."""
        return kendall(self.x, self.y)

    @cached_property
    def skipped(self) -> Skipped:
        """The MCD-filtered Spearman of the locked problem, and the points it keeps."""
        return mcd_skipped(self.x, self.y, self.seed)

    @cached_property
    def projection(self) -> Skipped:
        """The other statistic that goes by the name, Wilcox's."""
        return projection_skipped(self.x, self.y, self.seed)

    @cached_property
    def spearman(self) -> Estimate:
        """Spearman's rho with its intervals."""
        return self._estimate(spearman(self.x, self.y), spearman_rows)

    @cached_property
    def skipped_spearman(self) -> Estimate:
        """`skipped` with its intervals: the filter is refitted in every resample."""

        def skipped_rows(x: Floats, y: Floats) -> Floats:
            return mcd_skipped_rows(x, y, self.seed)

        return self._estimate(self.skipped.value, skipped_rows)

    @cached_property
    def _draws(self) -> list[Indices]:
        return draw(self.x.size, self.resamples, self.seed, self.clusters)

    def _estimate(self, value: float, statistic: Statistic) -> Estimate:
        replicates = replicate(statistic, self.x, self.y, self._draws)
        left_out = jackknife(statistic, self.x, self.y, self.clusters)
        return Estimate(
            value, percentile_interval(replicates), bca_interval(value, replicates, left_out)
        )


def draw(
    points: int, resamples: int, seed: int, clusters: Sequence[str] | None = None
) -> list[Indices]:
    """Draw resamples of n points with replacement, seeded with numpy's default generator.

    Args:
        points: n.
        resamples: how many to draw.
        seed: of the draws.
        clusters: one label per point; when given, whole clusters are drawn, as many as there
            are, so that resamples differ in size.

    Returns:
        Indices `[rows, size]`, one array for each size of a resample.
    """
    generator = np.random.default_rng(seed)
    if clusters is None:
        return [generator.integers(0, points, size=(resamples, points))]
    labels = sorted(set(clusters))
    members = [np.flatnonzero([label == c for c in clusters]) for label in labels]
    chosen = generator.integers(0, len(labels), size=(resamples, len(labels)))
    by_size: dict[int, list[Indices]] = {}
    for row in chosen:
        index = np.concatenate([members[cluster] for cluster in row])
        by_size.setdefault(index.size, []).append(index)
    return [np.stack(by_size[size]) for size in sorted(by_size)]


def replicate(statistic: Statistic, x: Floats, y: Floats, draws: list[Indices]) -> Floats:
    """The statistic on every resample, `[resamples]`, NaN where undefined."""
    parts = [
        statistic(x[rows], y[rows])
        for group in draws
        for rows in np.array_split(group, math.ceil(len(group) / _ROWS_AT_ONCE))
    ]
    return np.concatenate(parts)


def percentile_interval(replicates: Floats) -> Interval:
    """95% interval between the outer quantiles of the defined replicates."""
    defined = replicates[~np.isnan(replicates)]
    low, high = np.quantile(defined, _TAILS) if defined.size else (math.nan, math.nan)
    undefined = int(replicates.size - defined.size)
    return Interval(float(low), float(high), "percentile", undefined)


def bca_interval(estimate: float, replicates: Floats, jackknife: Floats) -> Interval:
    """Bias-corrected and accelerated 95% interval (Efron 1987).

    Args:
        estimate: the statistic on the data.
        replicates: `[resamples]`.
        jackknife: `[n or clusters]`, the statistic with one point or cluster left out.

    Returns:
        The interval; bounds are NaN when the estimate or the jackknife is undefined.
    """
    defined = replicates[~np.isnan(replicates)]
    left = jackknife[~np.isnan(jackknife)]
    normal = NormalDist()
    low = high = math.nan
    if defined.size and left.size > 2 and not math.isnan(estimate):
        # Ties with the estimate count half: resamples often repeat it exactly.
        tolerance = 1e-12
        below = float((defined < estimate - tolerance).mean())
        level_share = float((np.abs(defined - estimate) <= tolerance).mean())
        share = min(max(below + level_share / 2, 0.5 / defined.size), 1 - 0.5 / defined.size)
        bias = normal.inv_cdf(share)
        push = left.mean() - left
        scale = float((push**2).sum()) ** 1.5
        acceleration = float((push**3).sum()) / (6.0 * scale) if scale > 0 else 0.0
        bounds = []
        for probability in _TAILS:
            z = bias + normal.inv_cdf(probability)
            bounds.append(normal.cdf(bias + z / (1.0 - acceleration * z)))
        low, high = (float(bound) for bound in np.quantile(defined, bounds))
    return Interval(low, high, "bca", int(replicates.size - defined.size))


def jackknife(
    statistic: Statistic, x: Floats, y: Floats, clusters: Sequence[str] | None = None
) -> Floats:
    """The statistic with each point (or each cluster) left out in turn."""
    of_point = np.arange(x.size) if clusters is None else np.array(clusters)
    values = []
    for label in np.unique(of_point):
        rest = of_point != label
        if rest.any():  # with a single cluster nothing is left
            values.append(statistic(x[rest][None, :], y[rest][None, :])[0])
    return np.array(values)


@dataclass(frozen=True)
class Splits:
    """Repeated random train/test splits.

    tested: models in each test part; the choice is made on the others.
    chosen: `[K, splits]` variants with the largest rho on the training part, mostly one.
    train: `[splits]` rho of the choice there; test: `[splits]` its rho on the rest, the mean over
        equal ones: which of them comes first is no reason to choose it.
    variant_test: `[K]` mean test rho of each variant.
    baseline_test: `[splits]` test rho of the baseline variant, NaN without one.
    """

    tested: int
    chosen: Flags
    train: Floats
    test: Floats
    variant_test: Floats
    baseline_test: Floats

    @property
    def held_out(self) -> float:
        """Mean test correlation of the procedure."""
        return float(self.test.mean())

    @property
    def baseline_held_out(self) -> float:
        """Mean test correlation of the baseline; NaN without one."""
        return float(self.baseline_test.mean())

    @property
    def beats_baseline(self) -> float:
        """Share of the splits in which the choice does better than the baseline; ties half."""
        ahead = np.round(self.test - self.baseline_test, _DIGITS)
        return float((1.0 + np.sign(ahead)).mean() / 2)

    @property
    def optimism(self) -> float:
        """Mean training correlation minus mean test correlation of what was chosen."""
        return float(self.train.mean() - self.test.mean())


def repeated_splits(
    metrics: Floats,
    target: Floats,
    seed: int,
    splits: int = DEFAULT_SPLITS,
    baseline: int | None = None,
) -> Splits:
    """Choose on a part of the models, score on the rest, many times.

    The test part is a third of the models, but at least four, as long as five are left to
    train on: a correlation of fewer models is hardly informative.

    Args:
        metrics: `[K, n]`, oriented, complete.
        target: `[n]`.
        seed: of the splits.
        splits: how many.
        baseline: a variant scored on the same test models as the chosen one.
    """
    count = target.size
    test_size = min(max(4, round(count * TEST_SHARE)), count - MINIMUM_TRAINING)
    generator = np.random.default_rng(seed)
    order = np.argsort(generator.random((splits, count)), axis=1)
    train = np.zeros((splits, count), dtype=np.bool_)
    np.put_along_axis(train, order[:, test_size:], True, axis=1)
    # a metric that is constant on a part of the models ranks them not at all: 0, not unknown
    train_rho = np.nan_to_num(_rho_of_parts(metrics, target, train))
    test_rho = np.nan_to_num(_rho_of_parts(metrics, target, ~train))
    rounded = np.round(train_rho, _DIGITS)
    chosen = rounded == rounded.max(axis=0)
    return Splits(
        tested=test_size,
        chosen=chosen,
        train=train_rho.max(axis=0),
        test=(test_rho * chosen).sum(axis=0) / chosen.sum(axis=0),
        variant_test=test_rho.mean(axis=1),
        baseline_test=np.full(splits, np.nan) if baseline is None else test_rho[baseline],
    )


def _rho_of_parts(metrics: Floats, target: Floats, part: Flags) -> Floats:
    """Spearman of each variant on each part: `[K, n]`, `[n]`, `[splits, n]` → `[K, splits]`."""
    y = unit_ranks(np.broadcast_to(target, part.shape), part)
    result = np.empty((len(metrics), len(part)))
    for row, metric in enumerate(metrics):
        x = unit_ranks(np.broadcast_to(metric, part.shape), part)
        result[row] = (x * y).sum(axis=1)
    return result
