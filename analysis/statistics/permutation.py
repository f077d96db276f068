"""Permutation tests of metrics named beforehand, that respect families and series of models.

Models are not exchangeable: families share levels, and models of a series (doses of one treatment,
checkpoints of one run) follow each other. The target is therefore permuted within families only
(`strata`) and by whole series (`blocks`) of equally many models: the permutation test is exact for
what is exchangeable, and a series of 3 models is not with one of 2. Several metrics are tested
together: each is compared with the largest rho over all of them in every permutation (max
statistic; Westfall & Young 1993).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from analysis.statistics.correlations import Floats, Indices, unit_ranks

DEFAULT_PERMUTATIONS = 10_000

_ROUNDING = 1e-10
"""Correlations closer than this are equal: the difference is rounding of the processor."""


def exchangeable_strata(families: Sequence[str], series: Sequence[Hashable]) -> list[str]:
    """Within which group the series of each model may change places with others.

    The group is the series of as many models in the family, or in all families with one series
    only: given their number, these are exchangeable among themselves.

    Args:
        families: of each model.
        series: of each model; see `permuted_indices`.
    """
    of_family: dict[str, set[Hashable]] = {}
    for family, one in zip(families, series, strict=True):
        of_family.setdefault(family, set()).add(one)
    models = Counter(series)
    return [
        f"{f'family {family}' if len(of_family[family]) > 1 else 'families of one series'}, "
        f"series of {models[one]}"
        for family, one in zip(families, series, strict=True)
    ]


def arrangements(strata: Sequence[str], blocks: Sequence[Hashable]) -> int:
    """Number of orders that `permuted_indices` can draw; no p-value is below one over it."""
    of_stratum: dict[str, set[Hashable]] = {}
    for stratum, block in zip(strata, blocks, strict=True):
        of_stratum.setdefault(stratum, set()).add(block)
    return math.prod(math.factorial(len(held)) for held in of_stratum.values())


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
            order. The blocks of a stratum have equally many points (`exchangeable_strata`).
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
    orders = np.vstack([np.arange(target.size), order])
    rho = _unit(metrics) @ _unit(target[orders]).T
    largest = np.sort(np.nan_to_num(rho[:, 1:], nan=-1.0).max(axis=0))
    reaching = permutations - np.searchsorted(largest, np.nan_to_num(rho[:, 0]) - _ROUNDING)
    return np.where(np.isnan(rho[:, 0]), np.nan, (1 + reaching) / (permutations + 1))


def _unit(values: Floats) -> Floats:
    return unit_ranks(values, np.ones(values.shape, dtype=np.bool_))


def _codes(labels: Iterable[Hashable]) -> Indices:
    """Labels as integers from 0, in the order of their first appearance."""
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(label, len(known)) for label in labels], dtype=np.intp)
