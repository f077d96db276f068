"""Is the best of many variants better than chance? Permutation tests over all variants at once.

The target is permuted jointly for all variants, which keeps their dependence (Westfall & Young
1993). Models are taken as exchangeable; where families share both metric and target levels that
understates p, so the target can be permuted within families only (`strata`), and by whole series
of models (`blocks`: doses of one treatment, checkpoints of one run), whose members follow each
other and are not exchangeable at all.

Variants are compared on one scale, Fisher's z over its standard error: that of |Spearman| where all
models have values, while a variant on a few models, which reaches 1 by luck, doesn't set the
yardstick for the others. Below `MINIMUM_COVERAGE` of the models a variant isn't compared at all.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.statistics.correlations import Floats, Indices, spearman_rows, unit_ranks

DEFAULT_PERMUTATIONS = 10_000
MINIMUM_COVERAGE = 0.75
"""Share of the models that a variant needs a value for to be compared with the others."""


@dataclass(frozen=True)
class MaxTest:
    """Adjusted p-values of K variants.

    observed: `[K]` |Spearman|, NaN where undefined.
    p_single: `[K]` two-sided p of each variant on its own.
    p_adjusted: `[K]` p against the best of all K variants; NaN below `MINIMUM_COVERAGE`.
    null_95: the |Spearman| over all models that the best reaches by luck one time in twenty.
    """

    observed: Floats
    p_single: Floats
    p_adjusted: Floats
    null_95: float
    permutations: int


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
    null = null_correlations(metrics, target, order)
    present = np.isfinite(metrics)
    every_target = np.broadcast_to(target, metrics.shape)
    observed = np.abs(spearman_rows(np.where(present, metrics, 0.0), every_target, present))
    reached = np.nan_to_num(observed)[:, None] - 1e-12
    p_single = (1 + (null >= reached).sum(axis=1)) / (permutations + 1)
    count = present.sum(axis=1)
    compared = ~np.isnan(observed) & (count >= MINIMUM_COVERAGE * target.size)
    p_adjusted = np.full(len(metrics), np.nan)
    largest = np.zeros(permutations)
    if compared.any():
        scores = studentised(null[compared], count[compared, None])
        largest = scores.max(axis=0)
        own = studentised(observed[compared, None], count[compared, None])[:, 0]
        p_adjusted[compared] = (1 + _at_least(largest, own - 1e-9)) / (permutations + 1)
    return MaxTest(
        observed=observed,
        p_single=np.where(np.isnan(observed), np.nan, p_single),
        p_adjusted=p_adjusted,
        null_95=math.tanh(np.quantile(largest, 0.95) / math.sqrt(max(target.size - 3, 1))),
        permutations=permutations,
    )


def studentised(rho: Floats, count: Indices) -> Floats:
    """Fisher's z over its standard error; a perfect rho counts as half a swap of neighbours less.

    Args:
        rho: any shape.
        count: how many models it is over; broadcast.
    """
    most = 1.0 - 6.0 / np.maximum(count**3 - count, 6.0 / 0.9)
    return np.asarray(np.arctanh(np.clip(rho, -most, most)) * np.sqrt(np.maximum(count - 3, 0.25)))


def _at_least(values: Floats, thresholds: Floats) -> Indices:
    """For each threshold, how many of the values reach it."""
    ordered = np.sort(values)
    return np.asarray(values.size - np.searchsorted(ordered, thresholds, side="left"))


def _codes(labels: Iterable[Hashable]) -> Indices:
    """Labels as integers from 0, in the order of their first appearance."""
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(label, len(known)) for label in labels], dtype=np.intp)
