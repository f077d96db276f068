"""Intervals for the variant that was chosen because it did best.

The best of many estimates is too high: its usual interval covers the truth in a third of studies
(432 variants, 17 models). `winner_interval` is the projection interval of Andrews, Kitagawa &
McCloskey (2024) on Fisher's z, one side at a time:

* Below, the winner's estimate is too high by at most the largest error of all variants. The null
  distribution of that maximum, by permutation, keeps how the variants depend on each other.
* Above, no correction is due: the winner's estimate is at least that of the truly best variant,
  so it is too low no more often than a single estimate.

The standard error is widened as in `family_interval`: models of a family, or of a series of doses,
tell less than independent ones.

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
from analysis.statistics.correlations import Floats, Indices, spearman, spearman_rows
from analysis.statistics.families import (
    MINIMUM_MODELS,
    design_effects,
    fisher_variance,
    half_swap,
)
from analysis.statistics.permutation import (
    DEFAULT_PERMUTATIONS,
    correlations_under,
    permuted_indices,
)

LEVEL = 0.95
CHOICE_RESAMPLES = 1000
_ROWS_AT_ONCE = 250


@dataclass(frozen=True)
class WinnerInterval:
    """What may be said of the chosen variant's correlation.

    best: its index; value: its Spearman as found.
    interval: of its true Spearman, valid although it was chosen.
    optimism: by how much |value| is too high on average, by choosing anew in resamples.
    design_effect: by which the variance is larger than with independent models.
    critical: how many standard errors the interval reaches towards 0; 2.24 for a single variant,
        of which the sign is chosen.
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
    permutations: int = DEFAULT_PERMUTATIONS,
    chosen: int | None = None,
) -> WinnerInterval:
    """95% interval for the variant with the largest |Spearman|, allowing for the choice.

    Args:
        metrics: `[K, n]`, complete, none constant, all that were looked at.
        target: `[n]`.
        groupings: labels of the models, each `[n]`: families, kinds.
        seed: of permutations and resamples.
        permutations: behind the critical value.
        chosen: another variant than the best; both its bounds then pay for all variants.
    """
    sizes = np.abs(spearman_rows(metrics, np.broadcast_to(target, metrics.shape)))
    best = int(np.argmax(np.nan_to_num(sizes, nan=-1.0))) if chosen is None else chosen
    critical = critical_value(metrics, target, seed, permutations)
    effect = shared_design_effect(metrics, target, groupings)
    interval = interval_after_choice(
        metrics[best],
        target,
        critical,
        effect,
        best=bool(sizes[best] >= np.nanmax(sizes) - 1e-12),
    )
    return WinnerInterval(
        best=best,
        value=spearman(metrics[best], target),
        interval=interval,
        optimism=choose_anew(metrics, target, seed),
        critical=critical,
        design_effect=effect,
    )


def critical_value(
    metrics: Floats, target: Floats, seed: int, permutations: int = DEFAULT_PERMUTATIONS
) -> float:
    """97.5% quantile of the largest error of all `[K, n]` variants, in standard errors of z.

    A variant that lacks models (NaN) errs by more: each counts in its own standard errors.
    """
    order = permuted_indices(target.size, permutations, seed)
    sizes = np.isfinite(metrics).sum(axis=1)
    largest = np.zeros(permutations)
    for count in np.unique(sizes).tolist():
        rho = correlations_under(metrics[sizes == count], target, order)
        luck = np.minimum(np.nan_to_num(np.abs(rho)).max(axis=0), half_swap(1.0, count))
        largest = np.maximum(largest, np.arctanh(luck) * math.sqrt(max(count - 3, 1)))
    return float(np.quantile(largest, (1.0 + LEVEL) / 2.0))


def interval_after_choice(
    x: Floats,
    y: Floats,
    critical: float,
    effect: float,
    best: bool = False,
) -> Interval:
    """95% interval for Spearman's rho of `[n]` columns, one of the variants behind `critical`.

    It holds for all of them at once, so also for one that was picked.

    Args:
        x: the variant.
        y: the target.
        critical: see `critical_value`.
        effect: see `shared_design_effect`.
        best: whether it is the variant with the largest |Spearman|.
    """
    rho, count = spearman(x, y), x.size
    if math.isnan(rho) or count < MINIMUM_MODELS:
        return Interval(math.nan, math.nan, LEVEL, "after choice", 0, 0)
    error = math.sqrt(effect * fisher_variance(rho, count))
    usual = NormalDist().inv_cdf((1.0 + LEVEL) / 2.0)
    z = math.atanh(half_swap(abs(rho), count))
    low = math.tanh(z - critical * error)
    high = math.tanh(z + (usual if best else critical) * error)
    bounds = (low, high) if rho >= 0 else (-high, -low)
    return Interval(*bounds, level=LEVEL, method="after choice", resamples=0, degenerate=0)


def shared_design_effect(
    metrics: Floats, target: Floats, groupings: Sequence[Sequence[Hashable]]
) -> float:
    """How many times larger variances are than with independent models, typically.

    The median over the `[K, n]` variants, of several groupings the one that costs most: a single
    estimate from few groups is poor, and that of the winner was chosen along with it.
    """
    effects = [1.0]
    columns = np.vstack([metrics, target[None]])
    ranks = np.sign(columns[:, :, None] - columns[:, None, :]).sum(axis=2) / 2
    for labels in groupings:
        known: dict[Hashable, int] = {}
        codes = np.array([known.setdefault(label, len(known)) for label in labels], dtype=np.intp)
        if 1 < len(known) < target.size:
            effects.append(float(np.median(design_effects(ranks[:-1], ranks[-1], codes))))
    return max(effects)


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
