"""Intervals for Spearman's rho when models come in families.

Models of one family resemble each other, so n models carry less information than n independent
ones. The bootstrap over models ignores that and its interval is too short; the bootstrap over
families needs more than a handful of them (both: see benchmarks/statistics_coverage.py).

`family_interval` is for the correlation over all models. It widens the usual interval (Fisher's
z with the standard error of Bonett & Wright 2000) by the square root of a design effect
(Moulton 1986; Dutilleul 1993 for correlations): 1 + (sum of squared family sizes / n − 1) ×
product of two intraclass correlations. The product is the largest of metric × target,
metric × what it leaves unexplained of the target, and target × what it leaves of the metric: a
single estimate from few families is often too small. It holds its level when metric and target are
related equally within and between families. Where these two relations differ, rho itself depends on
which families were drawn, and four families can't say how much.

`within_families` is for another number, the correlation of differences inside families, and
holds its level whatever happens between them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from analysis.statistics.bootstrap import Interval
from analysis.statistics.correlations import Floats, Indices

MINIMUM_MODELS = 5


@dataclass(frozen=True)
class WithinFamilies:
    """Correlation of the ranks inside families, pooled; NaN where undefined."""

    value: float
    interval: Interval


def family_interval(x: Floats, y: Floats, families: Sequence[str], level: float = 0.95) -> Interval:
    """Interval for Spearman's rho of `[n]` columns over all models.

    Args:
        x: the metric.
        y: the target.
        families: the family of each model.
        level: nominal coverage.

    Returns:
        The interval; NaN bounds with a constant column, fewer than `MINIMUM_MODELS` models or a
        single family, which carries no information about another.
    """
    if not x.size:
        return _interval(math.nan, math.nan, level)
    labels = np.unique(np.array(families), return_inverse=True)[1]
    rank_x, rank_y = _centred_ranks(x), _centred_ranks(y)
    rho = _cosine(rank_x, rank_y)
    if x.size < MINIMUM_MODELS or labels.max() == 0 or math.isnan(rho):
        return _interval(math.nan, math.nan, level)
    error = math.sqrt(design_effect(rank_x, rank_y, labels) * fisher_variance(rho, x.size))
    return _interval(half_swap(rho, x.size), error, level)


def within_families(
    x: Floats, y: Floats, families: Sequence[str], level: float = 0.95
) -> WithinFamilies:
    """Partial correlation of the ranks of `[n]` columns given the family, with its interval."""
    if not x.size:
        return WithinFamilies(math.nan, _interval(math.nan, math.nan, level))
    labels = np.unique(np.array(families), return_inverse=True)[1]
    rank_x, rank_y = _centred_ranks(x), _centred_ranks(y)
    rho = _cosine(rank_x - _family_means(rank_x, labels), rank_y - _family_means(rank_y, labels))
    # Each family takes one mean away, as the grand mean does in the plain correlation.
    count = x.size - int(labels.max())
    if count < MINIMUM_MODELS or math.isnan(rho):
        return WithinFamilies(rho, _interval(math.nan, math.nan, level))
    error = math.sqrt(fisher_variance(rho, count))
    return WithinFamilies(rho, _interval(half_swap(rho, count), error, level))


def design_effect(x: Floats, y: Floats, groups: Indices) -> float:
    """Factor by which the correlation's variance exceeds that of independent models."""
    return float(design_effects(x[None, :], y, groups)[0])


def design_effects(x: Floats, y: Floats, groups: Indices) -> Floats:
    """`design_effect` of each row of `[K, n]` centred ranks with `[n]` centred ranks."""
    sizes = np.bincount(groups)
    excess = float((sizes**2).sum()) / y.size - 1.0
    targets = np.broadcast_to(y, x.shape)
    slope = (x * targets).sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        rest_x = x - slope / (y @ y) * targets
        rest_y = targets - slope / (x * x).sum(axis=1, keepdims=True) * x
    in_x, in_y, in_rest_x, in_rest_y = (
        intraclass_rows(rows, groups) for rows in (x, targets, rest_x, rest_y)
    )
    product = np.maximum(in_x * in_y, np.maximum(in_x * in_rest_y, in_y * in_rest_x))
    return np.asarray(1.0 + excess * product)


def intraclass(values: Floats, groups: Indices) -> float:
    """Share of the variance between families: the ANOVA estimate, 0 to 1.

    0 where every model is a family of its own: there is nothing to share.
    """
    return float(intraclass_rows(values[None, :], groups)[0])


def intraclass_rows(values: Floats, groups: Indices) -> Floats:
    """`intraclass` of each row of `[K, n]` values."""
    sizes = np.bincount(groups)
    count, families = values.shape[1], sizes.size
    if families < 2 or count == families:
        return np.zeros(len(values))
    member = (np.arange(families)[:, None] == groups).astype(np.float64)
    means = ((values @ member.T) / sizes)[:, groups]
    inside = ((values - means) ** 2).sum(axis=1) / (count - families)
    overall = values.mean(axis=1, keepdims=True)
    between = ((means - overall) ** 2).sum(axis=1) / (families - 1)
    typical = (count - float((sizes**2).sum()) / count) / (families - 1)
    total = between + (typical - 1.0) * inside
    share = (between - inside) / np.where(total > 0, total, 1.0)
    return np.where(total > 0, np.clip(share, 0.0, 1.0), 0.0)


def _centred_ranks(values: Floats) -> Floats:
    """Ranks less their mean: half of (how many values lie below − how many lie above)."""
    return np.asarray(np.sign(values[:, None] - values).sum(axis=1) / 2)


def _family_means(values: Floats, labels: Indices) -> Floats:
    return np.asarray((np.bincount(labels, values) / np.bincount(labels))[labels])


def _cosine(x: Floats, y: Floats) -> float:
    length = math.sqrt(float(x @ x) * float(y @ y))
    return min(max(float(x @ y) / length, -1.0), 1.0) if length > 1e-9 else math.nan


def fisher_variance(rho: float, count: float) -> float:
    """Variance of Fisher's z of Spearman's rho over `count` models (Bonett & Wright 2000)."""
    return (1.0 + rho**2 / 2.0) / (count - 3)


def half_swap(rho: float, count: int) -> float:
    """A rho, a perfect one half a swap of neighbours less, or its interval were a point."""
    most = 1.0 - 6.0 / (count**3 - count)
    return min(max(rho, -most), most)


def _interval(rho: float, error: float, level: float) -> Interval:
    reach = NormalDist().inv_cdf((1.0 + level) / 2.0) * error
    low, high = (
        (math.nan, math.nan)
        if math.isnan(rho)
        else (math.tanh(math.atanh(rho) - reach), math.tanh(math.atanh(rho) + reach))
    )
    return Interval(low, high, level, method="family", resamples=0, degenerate=0)
