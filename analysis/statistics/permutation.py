"""Is the best of many variants better than chance? Permutation tests that pay for all of them.

The target is permuted jointly for all variants, which keeps their dependence, and the smallest p
over the variants is noted each time (min-p; Westfall & Young 1993). Models are taken as
exchangeable; where families share both metric and target levels that understates p, so the target
can be permuted within families only (`strata`), and by whole series of models (`blocks`: doses of
one treatment, checkpoints of one run), whose members follow each other and are not exchangeable.

A variant's own p comes from its Spearman's rho less the mean of rho under permutation, in units
of its standard deviation there (both exact), looked up among those of all variants with as many
models. So a variant that few models have, and reaches ±1 easily, doesn't set the yardstick for the
others, nor does one that separates the strata and is large in every permutation. Variants that all
models have are compared by |rho|, as with the max statistic.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from analysis.statistics.correlations import MINIMUM_POINTS, Floats, Indices, unit_ranks

DEFAULT_PERMUTATIONS = 10_000


LEAST_COVERAGE = 0.5
"""Share of the models that a variant must have a value for, or it gets no p and counts as none."""

_LEAST_POOL = 200_000
"""Values that a variant's own p is looked up among: a few variants bring too few of their own to
tell a rare one from a very rare one, and get random ones of as many models beside them."""

_ROUNDING = 1e-11


@dataclass(frozen=True)
class MaxTest:
    """Adjusted p-values of K variants.

    observed: `[K]` |Spearman|, NaN where undefined.
    p_single: `[K]` two-sided p of each variant on its own, NaN below `LEAST_COVERAGE`.
    p_adjusted: `[K]` p against the best of all K variants, NaN likewise.
    null_95: the |Spearman| that the best of those with most models reaches in 5% of the
        permutations; NaN within strata, where each variant has its own.
    """

    observed: Floats
    p_single: Floats
    p_adjusted: Floats
    null_95: float
    permutations: int

    @property
    def tested(self) -> int:
        """How many variants have a p."""
        return int(np.isfinite(self.p_adjusted).sum())


def exchangeable_strata(families: Sequence[str], series: Sequence[Hashable]) -> list[str]:
    """Within which group the series of each model may change places with others.

    The group is the family, or all families that hold one series only: given their number, these
    are exchangeable among themselves.

    Args:
        families: of each model.
        series: of each model; see `permuted_indices`.
    """
    of_family: dict[str, set[Hashable]] = {}
    for family, one in zip(families, series, strict=True):
        of_family.setdefault(family, set()).add(one)
    return [f"family {f}" if len(of_family[f]) > 1 else "families of one series" for f in families]


def arrangements(strata: Sequence[str], blocks: Sequence[Hashable]) -> int:
    """How many different orders there are: no p can be below one over this."""
    blocks_of = Counter(stratum for stratum, _ in set(zip(strata, blocks, strict=True)))
    return math.prod(math.factorial(count) for count in blocks_of.values())


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
        seed: of numpy's default generator.
        strata: `[n]` labels; points stay within theirs.
        blocks: `[n]` labels; the points of one block (within a stratum) stay together and in
            order. Blocks of different size leave their borders: an order is still a permutation.
    """
    generator = np.random.default_rng(seed)
    labels = _codes([""] * points if strata is None else strata)
    block_codes = _codes(range(points) if blocks is None else blocks)
    keys = generator.random((permutations, points))
    order = np.empty((permutations, points), dtype=np.intp)
    for label in range(labels.max() + 1):
        members = np.flatnonzero(labels == label)
        members = members[np.argsort(block_codes[members], kind="stable")]
        own = _codes(block_codes[members].tolist())
        # one key a block, that of its first place: a stable sort keeps its points in order
        drawn = keys[:, members[np.unique(own, return_index=True)[1]]][:, own]
        order[:, members] = members[np.argsort(drawn, axis=1, kind="stable")]
    return order


def correlations_under(metrics: Floats, target: Floats, order: Indices) -> Floats:
    """Spearman of every metric with every permuted target, over the models the metric has.

    Args:
        metrics: `[K, n]`, NaN where a model has no value.
        target: `[n]`.
        order: `[permutations, n]`.

    Returns:
        `[K, permutations]`, NaN for a metric that is constant.
    """
    result = np.full((len(metrics), len(order)), np.nan)
    permuted = target[order]
    masks, mask_of = np.unique(np.isfinite(metrics), axis=0, return_inverse=True)
    for number, present in enumerate(masks):
        rows = np.flatnonzero(mask_of == number)
        if present.sum() >= MINIMUM_POINTS:
            result[rows] = _unit(metrics[rows][:, present]) @ _unit(permuted[:, present]).T
    return result


def max_test(
    metrics: Floats,
    target: Floats,
    seed: int,
    permutations: int = DEFAULT_PERMUTATIONS,
    strata: Sequence[str] | None = None,
    blocks: Sequence[Hashable] | None = None,
) -> MaxTest:
    """Adjusted and single p-values of `[K, n]` metrics against the `[n]` target.

    Args:
        metrics: NaN where a model has no value.
        target: of all models.
        seed: of the permutations.
        permutations: how many.
        strata: see `permuted_indices`.
        blocks: see `permuted_indices`.
    """
    order = permuted_indices(target.size, permutations, seed, strata, blocks)
    rho = correlations_under(metrics, target, np.vstack([np.arange(target.size), order]))
    sizes = np.isfinite(metrics).sum(axis=1)
    tested = np.isfinite(rho[:, 0]) & (sizes >= LEAST_COVERAGE * target.size)
    statistic = np.full(rho.shape, -np.inf)
    # a permutation may leave the models that a metric has without any spread in the target: 0
    known = np.nan_to_num(rho[tested])
    if blocks is None or len(set(blocks)) == len(blocks):
        moments = _null_moments(metrics[tested], target, strata)
    else:
        moments = known[:, 1:].mean(axis=1), known[:, 1:].var(axis=1)
    statistic[tested] = _standardised(known, *moments)
    observed, null = statistic[:, 0], statistic[:, 1:]
    p_own = np.ones(len(metrics))
    smallest = np.ones(permutations)
    for size in np.unique(sizes[tested]).tolist():
        rows = np.flatnonzero(tested & (sizes == size))
        pool = np.sort(null[rows], axis=None)
        if pool.size < _LEAST_POOL:
            pool = np.sort(np.concatenate([pool, _reference(size)]))
        p_own[rows] = _share_reaching(pool, observed[rows])
        smallest = np.minimum(smallest, _share_reaching(pool, null[rows].max(axis=0)))
    smallest.sort()
    p_adjusted = (1 + np.searchsorted(smallest, p_own, side="right")) / (permutations + 1)
    p_single = (1 + (null >= observed[:, None] - _ROUNDING).sum(axis=1)) / (permutations + 1)
    yardstick = math.nan
    if strata is None and tested.any():
        # `pool` is now that of the rows with most models
        place = round(float(np.quantile(smallest, 0.05)) * (pool.size + 1)) - 1
        yardstick = float(pool[pool.size - max(place, 1)]) / math.sqrt(sizes[tested].max() - 1)
    return MaxTest(
        observed=np.abs(rho[:, 0]),
        p_single=np.where(tested, p_single, np.nan),
        p_adjusted=np.where(tested, p_adjusted, np.nan),
        null_95=yardstick,
        permutations=permutations,
    )


def directed_test(
    metrics: Floats,
    target: Floats,
    seed: int,
    permutations: int = DEFAULT_PERMUTATIONS,
    strata: Sequence[str] | None = None,
    blocks: Sequence[Hashable] | None = None,
) -> Floats:
    """One-sided p-values that `[K, n]` metrics named beforehand rise with the target.

    Args:
        metrics: oriented, complete.
        target: `[n]`.
        seed: of the permutations.
        permutations: how many.
        strata: see `permuted_indices`.
        blocks: see `permuted_indices`.

    Returns:
        `[K]`, each against the largest rho of all K; NaN for a constant metric.
    """
    order = permuted_indices(target.size, permutations, seed, strata, blocks)
    rho = correlations_under(metrics, target, np.vstack([np.arange(target.size), order]))
    largest = np.sort(np.nan_to_num(rho[:, 1:], nan=-1.0).max(axis=0))
    reaching = permutations - np.searchsorted(largest, np.nan_to_num(rho[:, 0]) - _ROUNDING)
    return np.where(np.isnan(rho[:, 0]), np.nan, (1 + reaching) / (permutations + 1))


def _standardised(rho: Floats, mean: Floats, variance: Floats) -> Floats:
    """How far beyond its `[K]` mean under permutation, in its own direction, each rho lies, in sds.

    Args:
        rho: `[K, 1 + permutations]`.
        mean: of rho under permutation.
        variance: likewise.
    """
    beyond = np.sign(rho) * (rho - mean[:, None])
    fixed = variance <= _ROUNDING
    return np.asarray(
        np.where(fixed[:, None], 0.0, beyond / np.sqrt(np.where(fixed, 1.0, variance))[:, None])
    )


def _null_moments(
    metrics: Floats, target: Floats, strata: Sequence[str] | None
) -> tuple[Floats, Floats]:
    """`[K]` exact mean and variance of Spearman when single models are permuted.

    Args:
        metrics: `[K, n]`, NaN where a model has no value.
        target: `[n]`.
        strata: within which the target is permuted; None for all models.
    """
    labels = np.zeros(target.size, dtype=np.intp)
    if strata is not None:
        labels = np.unique(np.array(strata), return_inverse=True)[1]
    mean, variance = np.zeros(len(metrics)), np.zeros(len(metrics))
    masks, mask_of = np.unique(np.isfinite(metrics), axis=0, return_inverse=True)
    for number, present in enumerate(masks):
        rows = np.flatnonzero(mask_of == number)
        x, y = _unit(metrics[rows][:, present]), _unit(target[None, present])[0]
        for label in np.unique(labels[present]):
            inside = labels[present] == label
            own_x, own_y = x[:, inside], y[inside]
            mean[rows] += inside.sum() * own_x.mean(axis=1) * own_y.mean()
            if inside.sum() > 1:
                spread = ((own_x - own_x.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
                variance[rows] += spread * ((own_y - own_y.mean()) ** 2).sum() / (inside.sum() - 1)
    return mean, variance


@cache
def _reference(size: int) -> Floats:
    """The standardised |Spearman| of two random orders of so many models, `_LEAST_POOL` times."""
    order = permuted_indices(size, _LEAST_POOL, seed=0)
    ranks = _unit(np.arange(float(size))[None])[0]
    return np.asarray(np.abs(ranks[order] @ ranks) * math.sqrt(size - 1))


def _share_reaching(pool: Floats, values: Floats) -> Floats:
    """Share of a sorted pool that is at least each value; the value itself counts as one more."""
    reaching = pool.size - np.searchsorted(pool, values - _ROUNDING)
    return np.asarray((1 + reaching) / (pool.size + 1))


def _unit(values: Floats) -> Floats:
    return unit_ranks(values, np.ones(values.shape, dtype=np.bool_))


def _codes(labels: Iterable[Hashable]) -> Indices:
    """Labels as integers from 0, in the order of their first appearance."""
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(label, len(known)) for label in labels], dtype=np.intp)
