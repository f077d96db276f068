"""Intervals for the variant that was chosen because it did best.

The best of many estimates is too high: its usual interval covers the truth in a third of studies
(432 variants, 17 models). `winner_interval` is the projection interval of Andrews, Kitagawa &
McCloskey (2024) on Fisher's z, one side at a time:

* Below, the winner's estimate is too high by at most the largest error of all variants. The null
  distribution of that maximum, by permutation, keeps how the variants depend on each other.
* Above, no correction is due: the winner's estimate is at least that of the truly best variant,
  so it is too low no more often than a single estimate.

The standard error is that of `family_interval`: models of a family, or of a series of doses, tell
less than independent ones; of several such groupings the one that costs most counts.

`choose_anew` is the bootstrap that repeats the choice in every resample. It estimates by how much
the winner's rho is too high; its percentiles are no interval for the winner (they cover too
little: benchmarks/statistics_winners.py), so none is offered.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from analysis.statistics.bootstrap import Interval
from analysis.statistics.correlations import Floats, Indices, spearman_rows
from analysis.statistics.families import design_effect, fisher_variance, half_swap
from analysis.statistics.permutation import correlations_under, permuted_indices

CHOICE_RESAMPLES = 1000
_ROWS_AT_ONCE = 250


@dataclass(frozen=True)
class WinnerInterval:
    """What may be said of the chosen variant's correlation.

    best: its index; value: its Spearman as found.
    interval: of its true Spearman, valid although it was chosen.
    optimism: by how much |value| is too high on average, by choosing anew in resamples.
    critical: how many standard errors the interval reaches towards 0; 1.96 without a choice.
    design_effect: how many times the variance is that of independent models.
    """

    best: int
    value: float
    interval: Interval
    optimism: float
    critical: float
    design_effect: float


def winner_interval(
    metrics: Floats,
    target: Floats,
    groupings: Sequence[Sequence[Hashable]],
    seed: int,
    permutations: int = 10_000,
    level: float = 0.95,
    document_error: float = 0.0,
    chosen: int | None = None,
) -> WinnerInterval:
    """Interval for the variant with the largest |Spearman|, allowing for the choice.

    Args:
        metrics: `[K, n]`, complete, none constant, all that were looked at.
        target: `[n]`.
        groupings: labels of the models, each `[n]`: families, kinds.
        seed: of permutations and resamples.
        permutations: behind the critical value.
        level: nominal coverage, at least.
        document_error: standard error of the winner's Fisher z over other documents, added.
        chosen: another variant than the best; both its bounds then pay for all variants.
    """
    count = target.size
    rho = spearman_rows(metrics, np.broadcast_to(target, metrics.shape))
    sizes = np.nan_to_num(np.abs(rho), nan=-1.0)
    best = int(np.argmax(sizes)) if chosen is None else chosen
    sign = 1.0 if rho[best] >= 0 else -1.0
    order = permuted_indices(count, permutations, seed)
    largest = np.nan_to_num(np.abs(correlations_under(metrics, target, order))).max(axis=0)
    tail = (1.0 - level) / 2.0
    luck = math.atanh(half_swap(float(np.quantile(largest, 1.0 - tail)), count))
    critical = luck * math.sqrt(count - 3)
    effect = max(
        (grouped_design_effect(metrics[best], target, labels) for labels in groupings), default=1.0
    )
    z = math.atanh(half_swap(abs(float(rho[best])), count))
    error = math.sqrt(effect * fisher_variance(abs(float(rho[best])), count) + document_error**2)
    low = math.tanh(z - critical * error)
    is_best = sizes[best] >= sizes.max() - 1e-12
    high = math.tanh(z + (NormalDist().inv_cdf(1.0 - tail) if is_best else critical) * error)
    bounds = sorted((sign * low, sign * high))
    return WinnerInterval(
        best=best,
        value=float(rho[best]),
        interval=Interval(bounds[0], bounds[1], level, "winner", permutations, 0),
        optimism=choose_anew(metrics, target, seed),
        critical=critical,
        design_effect=effect,
    )


def grouped_design_effect(x: Floats, y: Floats, labels: Sequence[Hashable]) -> float:
    """`design_effect` of the ranks of `[n]` columns for groups named by labels."""
    known: dict[Hashable, int] = {}
    codes = np.array([known.setdefault(label, len(known)) for label in labels], dtype=np.intp)
    ranks = [np.sign(v[:, None] - v).sum(axis=1) / 2 for v in (x, y)]
    return design_effect(ranks[0], ranks[1], codes) if len(known) > 1 else 1.0


def choose_anew(
    metrics: Floats, target: Floats, seed: int, resamples: int = CHOICE_RESAMPLES
) -> float:
    """Mean excess of the best |Spearman| in a resample over that of the same variant in the data.

    Args:
        metrics: `[K, n]`, complete.
        target: `[n]`.
        seed: of the resamples.
        resamples: of the models.
    """
    count = target.size
    drawn = np.random.default_rng(seed).integers(0, count, size=(resamples, count))
    weights = np.stack([(drawn == point).sum(axis=1) for point in range(count)], axis=1)
    rho = resampled_spearman(metrics, target, weights)
    whole = spearman_rows(metrics, np.broadcast_to(target, metrics.shape))
    chosen = np.argmax(np.nan_to_num(np.abs(rho), nan=-1.0), axis=0)
    columns = np.arange(resamples)
    excess = np.abs(rho[chosen, columns]) - np.sign(rho[chosen, columns]) * whole[chosen]
    return float(np.nanmean(excess))


def resampled_spearman(metrics: Floats, target: Floats, weights: Indices) -> Floats:
    """Spearman of every variant with the target in every resample, given as counts.

    A point's rank in a resample is the number of drawn points below it and half of those level
    with it: a product of matrices, for all resamples at once.

    Args:
        metrics: `[K, n]`, complete.
        target: `[n]`.
        weights: `[resamples, n]`, how often each point was drawn.

    Returns:
        `[K, resamples]`, NaN where undefined.
    """
    columns = np.vstack([metrics, target[None]])
    differ = columns[:, :, None] - columns[:, None, :]
    below = (differ > 0) + 0.5 * (differ == 0)
    counts = weights.astype(np.float64)
    total = counts.sum(axis=1)
    result = np.empty((len(metrics), len(weights)))
    for first in range(0, len(weights), _ROWS_AT_ONCE):
        w = counts[first : first + _ROWS_AT_ONCE]
        n = total[first : first + _ROWS_AT_ONCE]
        ranks = np.matmul(below, w.T) - n / 2
        y = ranks[-1] * w.T
        xx = (ranks[:-1] ** 2 * w.T).sum(axis=1)
        xy = (ranks[:-1] * y).sum(axis=1)
        yy = (ranks[-1] * y).sum(axis=0)
        spread = np.sqrt(xx * yy)
        result[:, first : first + len(w)] = xy / np.where(spread > 1e-9, spread, np.nan)
    return result
