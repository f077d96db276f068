"""Is the best of many variants better than chance? Permutation tests with the max statistic.

The target is permuted jointly for all variants, which keeps their dependence, and the largest
|Spearman| over the variants is noted each time (Westfall & Young 1993). Models are taken as
exchangeable; where families share both metric and target levels that understates p, so the
same test can permute within families only (`strata`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.statistics.correlations import Floats, Indices, spearman_rows, unit_ranks

DEFAULT_PERMUTATIONS = 10_000


@dataclass(frozen=True)
class MaxTest:
    """Adjusted p-values of K variants.

    observed: `[K]` |Spearman|, NaN where undefined.
    p_single: `[K]` two-sided p of each variant on its own.
    p_adjusted: `[K]` p against the maximum over all K variants.
    null_95: 95% quantile of the maximum under permutation.
    """

    observed: Floats
    p_single: Floats
    p_adjusted: Floats
    null_95: float
    permutations: int


def permuted_indices(
    points: int, permutations: int, seed: int, strata: Sequence[str] | None = None
) -> Indices:
    """`[permutations, points]` random orders, within strata when given."""
    generator = np.random.default_rng(seed)
    keys = generator.random((permutations, points))
    if strata is None:
        return np.argsort(keys, axis=1)
    labels = np.unique(np.array(strata), return_inverse=True)[1]
    order = np.empty((permutations, points), dtype=np.intp)
    for label in range(labels.max() + 1):
        members = np.flatnonzero(labels == label)
        order[:, members] = members[np.argsort(keys[:, members], axis=1)]
    return order


def null_correlations(metrics: Floats, target: Floats, order: Indices) -> Floats:
    """|Spearman| of every metric with every permuted target.

    Args:
        metrics: `[K, n]`, NaN where a model has no value.
        target: `[n]`.
        order: `[permutations, n]`.

    Returns:
        `[K, permutations]`; undefined ones are 0.
    """
    result = np.zeros((len(metrics), len(order)))
    complete = np.isfinite(metrics).all(axis=1)
    permuted = target[order]
    if complete.any():
        x = unit_ranks(metrics[complete], np.isfinite(metrics[complete]))
        y = unit_ranks(permuted, np.isfinite(permuted))
        result[complete] = np.nan_to_num(np.abs(x @ y.T))
    for row in np.flatnonzero(~complete):
        present = np.isfinite(metrics[row])
        y = permuted[:, present]
        x = np.broadcast_to(metrics[row, present], y.shape)
        result[row] = np.nan_to_num(np.abs(spearman_rows(x, y)))
    return result


def max_test(
    metrics: Floats,
    target: Floats,
    seed: int,
    permutations: int = DEFAULT_PERMUTATIONS,
    strata: Sequence[str] | None = None,
) -> MaxTest:
    """Adjusted and single p-values of `[K, n]` metrics against the `[n]` target."""
    order = permuted_indices(target.size, permutations, seed, strata)
    null = null_correlations(metrics, target, order)
    present = np.isfinite(metrics)
    every_target = np.broadcast_to(target, metrics.shape)
    observed = np.abs(spearman_rows(np.where(present, metrics, 0.0), every_target, present))
    largest = null.max(axis=0)
    reached = np.nan_to_num(observed) - 1e-12
    p_single = (1 + (null >= reached[:, None]).sum(axis=1)) / (permutations + 1)
    p_adjusted = (1 + (largest[None, :] >= reached[:, None]).sum(axis=1)) / (permutations + 1)
    return MaxTest(
        observed=observed,
        p_single=np.where(np.isnan(observed), np.nan, p_single),
        p_adjusted=np.where(np.isnan(observed), np.nan, p_adjusted),
        null_95=float(np.quantile(largest, 0.95)),
        permutations=permutations,
    )
