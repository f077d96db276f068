"""Orders of models that are exchangeable: whole series, within families.

Models are not exchangeable: families share levels, and models of a series (doses of one treatment,
checkpoints of one run) follow each other. A permutation test within families (`strata`) by whole
series (`blocks`) of equally many models is exact for what is exchangeable; a series of 3 models is
not with one of 2.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np

from analysis.statistics.correlations import Indices, codes


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
    series sizes. No exact permutation test has a p-value below one over it.
    """
    sizes: dict[Hashable, Counter[Hashable]] = {}
    for family, one in zip(families, series, strict=True):
        sizes.setdefault(family, Counter())[one] += 1
    shapes = Counter(tuple(sorted(found.values())) for found in sizes.values())
    within = [count for found in sizes.values() for count in Counter(found.values()).values()]
    return math.prod(map(math.factorial, [*within, *shapes.values()]))


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
        seed: of the orders.
        strata: `[n]` labels; points stay within theirs.
        blocks: `[n]` labels; the points of one block (within a stratum) stay together and in
            order. The blocks of a stratum have equally many points (`exchangeable_strata`).
    """
    generator = np.random.default_rng(seed)
    labels = codes([""] * points if strata is None else strata)
    block_codes = codes(range(points) if blocks is None else blocks)
    keys = generator.random((permutations, points))
    order = np.empty((permutations, points), dtype=np.intp)
    for label in range(labels.max() + 1):
        members = np.flatnonzero(labels == label)
        members = members[np.argsort(block_codes[members], kind="stable")]
        own = codes(block_codes[members].tolist())
        # one key a block, that of its first place: a stable sort keeps its points in order
        drawn = keys[:, members[np.unique(own, return_index=True)[1]]][:, own]
        order[:, members] = members[np.argsort(drawn, axis=1, kind="stable")]
    return order
