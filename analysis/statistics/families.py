"""Models come in families and series: what they are worth, and which orders are exchangeable.

**Design effect** (Moulton 1986; Dutilleul 1993 for correlations): the variance of a correlation of
n models over that of n independent ones is 1 + (sum of squared group sizes / n − 1) × product of
two intraclass correlations. The product is the largest of metric × target, metric × what it leaves
unexplained of the target, and target × what it leaves of the metric: a single estimate from few
groups is often too small. It holds when metric and target are related equally within and between
groups.

**Orders.** Models are not exchangeable: families share levels, and models of a series (doses of one
treatment, checkpoints of one run) follow each other. A permutation test within families (`strata`)
by whole series (`blocks`) of equally many models is exact for what is exchangeable; a series of 3
models is not with one of 2.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from statistics import NormalDist

import numpy as np

from analysis.statistics.correlations import Floats, Indices, codes

MINIMUM_MODELS = 5
TWO_SIDED = NormalDist().inv_cdf(0.975)
"""Standard errors that a 95% interval reaches to either side."""

ROUNDING = 1e-9
"""Of ranks with variance 1: residuals below it are none."""

MOST_ORDERS = 10**300
"""More orders than these are not told apart: as a float, they would overflow."""


def design_effects(x: Floats, y: Floats, groups: Indices) -> Floats:
    """`[K, T]` factors by which correlations' variances exceed those of independent models.

    Args:
        x: `[K, n]` centred ranks of unit length, of metrics.
        y: `[T, n]`, of targets.
        groups: `[n]` codes of the models' groups.
    """
    sizes = np.bincount(groups)
    if sizes.size in (1, groups.size):
        return np.ones((len(x), len(y)))
    member = (np.arange(sizes.size)[:, None] == groups) / np.sqrt(sizes)[:, None]
    mean_x, mean_y = x @ member.T, y @ member.T
    rho, between = x @ y.T, mean_x @ mean_y.T
    of_x, of_y = (mean_x**2).sum(axis=1)[:, None], (mean_y**2).sum(axis=1)
    # a residual has the variance 1 − rho², and a quadratic form of the two between groups
    rest = np.maximum(1.0 - rho**2, ROUNDING)
    in_rest_x = intraclass((of_x - 2.0 * rho * between + rho**2 * of_y) / rest, sizes)
    in_rest_y = intraclass((of_y - 2.0 * rho * between + rho**2 * of_x) / rest, sizes)
    in_x, in_y = intraclass(of_x, sizes), intraclass(of_y, sizes)
    product = np.maximum(in_x * in_y, np.maximum(in_x * in_rest_y, in_y * in_rest_x))
    return np.asarray(1.0 + (float((sizes**2).sum()) / groups.size - 1.0) * product)


def intraclass(between: Floats, sizes: Indices) -> Floats:
    """Share of the variance between groups, the ANOVA estimate, 0 to 1.

    Args:
        between: sum of squares between groups, of a column whose sum of squares is 1.
        sizes: of the groups, at least two, and one of several members.
    """
    count, groups = int(sizes.sum()), sizes.size
    inside = (1.0 - between) / (count - groups)
    among = between / (groups - 1)
    typical = (count - float((sizes**2).sum()) / count) / (groups - 1)
    total = among + (typical - 1.0) * inside
    share = (among - inside) / np.where(total > 0, total, 1.0)
    return np.where(total > 0, np.clip(share, 0.0, 1.0), 0.0)


def half_swap(rho: float, count: int) -> float:
    """A rho; a perfect one less half a swap of neighbours, so that its interval is no point."""
    most = 1.0 - 6.0 / (count**3 - count)
    return min(max(rho, -most), most)


def exchangeable_strata(families: Sequence[Hashable], series: Sequence[Hashable]) -> list[str]:
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


def orders(families: Sequence[Hashable], series: Sequence[Hashable]) -> int:
    """Number of orders of the models that are equally likely under the null.

    Series of as many models change places within their family, and so do families of the same
    series sizes. No exact permutation test has a p-value below one over it. `MOST_ORDERS` at most.
    """
    sizes: dict[Hashable, Counter[Hashable]] = {}
    for family, one in zip(families, series, strict=True):
        sizes.setdefault(family, Counter())[one] += 1
    shapes = Counter(tuple(sorted(found.values())) for found in sizes.values())
    within = [count for found in sizes.values() for count in Counter(found.values()).values()]
    return min(math.prod(map(math.factorial, [*within, *shapes.values()])), MOST_ORDERS)


def permuted_indices(
    permutations: int, seed: int | Sequence[int], strata: Sequence[str], blocks: Sequence[Hashable]
) -> Indices:
    """`[permutations, points]` random orders.

    Args:
        permutations: how many.
        seed: of the orders.
        strata: `[n]` labels; points stay within theirs.
        blocks: `[n]` labels; the points of one block (within a stratum) stay together and in
            order. The blocks of a stratum have equally many points (`exchangeable_strata`).
    """
    labels, block_codes = codes(strata), codes(blocks)
    keys = np.random.default_rng(seed).random((permutations, labels.size))
    order = np.empty(keys.shape, dtype=np.intp)
    for label in range(labels.max() + 1):
        members = np.flatnonzero(labels == label)
        members = members[np.argsort(block_codes[members], kind="stable")]
        block_codes_within = codes(block_codes[members].tolist())
        # one key a block, that of its first place: a stable sort keeps its points in order
        drawn = keys[:, members[np.unique(block_codes_within, return_index=True)[1]]][
            :, block_codes_within
        ]
        order[:, members] = members[np.argsort(drawn, axis=1, kind="stable")]
    return order
