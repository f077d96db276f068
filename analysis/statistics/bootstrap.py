"""Correlations with the target and their paired bootstrap intervals, by point or by family.

A statistic takes `[rows, points]` columns and returns `[rows]` values, NaN where undefined.
Resamples with an undefined statistic are left out of the interval and counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import NormalDist

import numpy as np

from analysis.statistics.correlations import (
    Floats,
    Indices,
    kendall,
    pearson,
    spearman,
    spearman_rows,
)
from analysis.statistics.skipped import Skipped, mcd_skipped, mcd_skipped_rows, projection_skipped

Statistic = Callable[[Floats, Floats], Floats]

DEFAULT_RESAMPLES = 10_000
_ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class Interval:
    """A confidence interval; `low` and `high` are NaN when no resample was usable.

    resamples: drawn in all; degenerate: those with an undefined statistic, left out.
    """

    low: float
    high: float
    level: float
    method: str
    resamples: int
    degenerate: int


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

    @property
    def n(self) -> int:
        """Number of models."""
        return self.x.size

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
    def _draws(self) -> Draws:
        return draw(self.n, self.resamples, self.seed, self.clusters)

    def _estimate(self, value: float, statistic: Statistic) -> Estimate:
        return bootstrap_estimate(value, statistic, self.x, self.y, self._draws, self.clusters)


@dataclass(frozen=True)
class Draws:
    """Resampled point indices, grouped by how many points a resample has.

    groups: arrays `[rows, points]`; one group unless families of different size are drawn.
    """

    groups: tuple[Indices, ...]

    @property
    def resamples(self) -> int:
        """Number of resamples over all groups."""
        return sum(len(group) for group in self.groups)


def draw(points: int, resamples: int, seed: int, clusters: Sequence[str] | None = None) -> Draws:
    """Draw resamples of `points` points with replacement.

    Args:
        points: n.
        resamples: how many to draw.
        seed: of numpy's default generator.
        clusters: one label per point; when given, whole clusters are drawn, as many as there
            are, so that resamples differ in size.
    """
    generator = np.random.default_rng(seed)
    if clusters is None:
        return Draws((generator.integers(0, points, size=(resamples, points)),))
    labels = sorted(set(clusters))
    members = [np.flatnonzero([label == c for c in clusters]) for label in labels]
    chosen = generator.integers(0, len(labels), size=(resamples, len(labels)))
    by_size: dict[int, list[Indices]] = {}
    for row in chosen:
        index = np.concatenate([members[cluster] for cluster in row])
        by_size.setdefault(index.size, []).append(index)
    return Draws(tuple(np.stack(by_size[size]) for size in sorted(by_size)))


def bootstrap_estimate(
    value: float,
    statistic: Statistic,
    x: Floats,
    y: Floats,
    draws: Draws,
    clusters: Sequence[str] | None = None,
) -> Estimate:
    """A statistic's value on `[n]` columns with both of its intervals, from the same resamples.

    Args:
        value: the statistic on the data.
        statistic: in its batch form.
        x: `[n]`.
        y: `[n]`.
        draws: the resamples.
        clusters: what the resamples drew as wholes, left out as wholes by the jackknife too.
    """
    replicates = replicate(statistic, x, y, draws)
    left_out = jackknife(statistic, x, y, clusters)
    return Estimate(
        value=value,
        percentile=percentile_interval(replicates),
        bca=bca_interval(value, replicates, left_out),
    )


def replicate(statistic: Statistic, x: Floats, y: Floats, draws: Draws) -> Floats:
    """The statistic on every resample, `[resamples]`, NaN where undefined."""
    parts = [
        statistic(x[rows], y[rows])
        for group in draws.groups
        for rows in np.array_split(group, math.ceil(len(group) / _ROWS_AT_ONCE))
    ]
    return np.concatenate(parts)


def percentile_interval(replicates: Floats, level: float = 0.95) -> Interval:
    """Interval between the outer quantiles of the defined replicates."""
    defined = replicates[~np.isnan(replicates)]
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(defined, [tail, 1.0 - tail]) if defined.size else (math.nan, math.nan)
    return Interval(
        low=float(low),
        high=float(high),
        level=level,
        method="percentile",
        resamples=replicates.size,
        degenerate=int(replicates.size - defined.size),
    )


def bca_interval(
    estimate: float, replicates: Floats, jackknife: Floats, level: float = 0.95
) -> Interval:
    """Bias-corrected and accelerated interval (Efron 1987).

    Args:
        estimate: the statistic on the data.
        replicates: `[resamples]`.
        jackknife: `[n or clusters]`, the statistic with one point or cluster left out.
        level: nominal coverage.

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
        for probability in ((1.0 - level) / 2.0, (1.0 + level) / 2.0):
            z = bias + normal.inv_cdf(probability)
            bounds.append(normal.cdf(bias + z / (1.0 - acceleration * z)))
        low, high = (float(bound) for bound in np.quantile(defined, bounds))
    return Interval(
        low=low,
        high=high,
        level=level,
        method="bca",
        resamples=replicates.size,
        degenerate=int(replicates.size - defined.size),
    )


def jackknife(
    statistic: Statistic, x: Floats, y: Floats, clusters: Sequence[str] | None = None
) -> Floats:
    """The statistic with each point (or each cluster) left out in turn."""
    of_point = np.arange(x.size) if clusters is None else np.array(clusters)
    values = []
    for label in np.unique(of_point):
        rest = of_point != label
        values.append(statistic(x[rest][None, :], y[rest][None, :])[0])
    return np.array(values)
