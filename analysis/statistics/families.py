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

`new_family` is the rank correlation to expect for a model of another family. Models are near-copies
of each other: doses of one treatment, checkpoints of one base. Counted one by one, the largest
family decides; counted once a family, most of what was measured is thrown away. A compromise is a
hierarchical model of the ranks of metric and target,

    rank = mean + family + kind within the family + model,

whose shares of variance say how much the next near-copy adds (partial pooling). They are the
ANOVA estimates for unbalanced nested groups (Searle, Casella & McCulloch 1992, section 5.5), at
least 0. A correlation is a mean of products of metric and target, and such products of two models
are as alike as their metric values times as their targets are. `R` has these likenesses; the best
linear unbiased mean then weighs models by R⁻¹1, and 1ᵀR⁻¹1 is the number of independent models that
all of them are worth: from the number of families to the number of models. The estimate is
Spearman's rho with these weights, also inside the ranks, so that copies count on the scale by their
weight only. Of the same three products as above the likeness with the highest cost is used.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from analysis.statistics.correlations import Floats, Indices, Interval, codes, number

MINIMUM_MODELS = 5
TWO_SIDED = NormalDist().inv_cdf(0.975)
"""Standard errors that a 95% interval reaches to either side."""

LEAST_FAMILIES = 3
"""Below, no interval for a new family: two families say nothing of how far families differ."""

LEAST_WORTH = 4.0
"""Independent models that the models must be worth, or there is no interval for a new family."""

ROUNDING = 1e-9
"""Of ranks with variance 1: residuals below it are none."""

MOST_ORDERS = 10**300
"""More orders than these are not told apart: as a float, they would overflow."""

Shares = tuple[float, float]
"""Of the variance: between families, and between kinds of one family."""


@dataclass(frozen=True)
class NewFamily:
    """Rank agreement with the target to be expected for a model of another family.

    value: weighted Spearman, NaN where undefined or with a single family.
    interval: of it; NaN bounds with fewer than `LEAST_FAMILIES` or `LEAST_WORTH`.
    worth: the number of independent models that the models are worth.
    families: how many there are.
    """

    value: float
    interval: Interval
    worth: float
    families: int

    @property
    def record(self) -> dict[str, Any]:
        """As JSON-ready values."""
        return {
            "spearman": number(self.value),
            "ci95_after_choice": self.interval.record,
            "families": self.families,
            "models_worth": number(self.worth),
        }


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


def new_family(
    x: Floats,
    y: Floats,
    families: Sequence[Hashable],
    kinds: Sequence[Hashable],
    critical: float = TWO_SIDED,
) -> NewFamily:
    """Estimate for a new family from `[n]` columns, metric and target.

    Args:
        x: the metric.
        y: the target.
        families: of each model.
        kinds: of each model, the series of doses or checkpoints it belongs to; of one family only.
        critical: standard errors that the interval reaches to either side; `Branch.critical` of
            `decisions` for a metric that was chosen.
    """
    family = codes(families)
    kind = codes(zip(families, kinds, strict=True))
    count = int(family.max(initial=-1)) + 1
    unknown = Interval(math.nan, math.nan, "new family")
    if count < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return NewFamily(math.nan, unknown, math.nan, count)
    # ranked as if each family were one: many near-copies would spread over the scale and look apart
    pooled = 1.0 / (count * np.bincount(family)[family])
    rank_x, rank_y = (_standardised(column, pooled) for column in (x, y))
    slope = float(pooled @ (rank_x * rank_y))
    of_x, of_y = (variance_shares(ranks, family, kind) for ranks in (rank_x, rank_y))
    found = [pooled_weights(of_x, of_y, family, kind)]
    for known, rest in ((of_x, rank_y - slope * rank_x), (of_y, rank_x - slope * rank_y)):
        # equal orders leave only rounding, which is another on each machine and has no structure
        if np.abs(rest).max() > ROUNDING:
            found.append(pooled_weights(known, variance_shares(rest, family, kind), family, kind))
    weights, worth = min(found, key=lambda pair: pair[1])
    value = float((weights * _standardised(x, weights) * _standardised(y, weights)).sum())
    if count < LEAST_FAMILIES or worth < LEAST_WORTH:
        return NewFamily(value, unknown, worth, count)
    return NewFamily(value, _fisher_interval(value, worth, critical), worth, count)


def variance_shares(values: Floats, families: Indices, kinds: Indices) -> Shares:
    """Shares of the variance of `[n]` values between families, and between kinds inside them.

    The values aren't constant; families and kinds are `[n]` codes, each kind of one family.
    """
    count = values.size
    of_family, of_kind = np.bincount(families), np.bincount(kinds)
    family_of = np.zeros(of_kind.size, dtype=np.intp)
    family_of[kinds] = families
    mean_family = np.bincount(families, values) / of_family
    mean_kind = np.bincount(kinds, values) / of_kind
    inside = float(((values - mean_kind[kinds]) ** 2).sum())
    between_kinds = float((of_kind * (mean_kind - mean_family[family_of]) ** 2).sum())
    between = float((of_family * (mean_family - values.mean()) ** 2).sum())
    free = (count - of_kind.size, of_kind.size - of_family.size, of_family.size - 1)
    within = float((of_kind**2 / of_family[family_of]).sum())
    # without two models of one kind, kinds and models are one level, and likewise above
    model = inside / free[0] if free[0] else 0.0
    kind = 0.0
    if free[1]:
        kind = max(between_kinds / free[1] - model, 0.0) * free[1] / (count - within)
    family = 0.0
    if free[2]:
        share_kind = (within - float((of_kind**2).sum()) / count) / free[2]
        size = (count - float((of_family**2).sum()) / count) / free[2]
        family = max(between / free[2] - model - share_kind * kind, 0.0) / size
    total = model + kind + family
    return family / total, kind / total


def pooled_weights(
    metric: Shares, target: Shares, families: Indices, kinds: Indices
) -> tuple[Floats, float]:
    """Weights `[n]` of the models, which add up to 1, and how many independent ones they are worth.

    From the shares of both variances, and the `[n]` codes of families and kinds.
    """
    same_family = families[:, None] == families
    same_kind = kinds[:, None] == kinds
    of_family, of_kind = metric[0] * target[0], sum(metric) * sum(target)
    alike = np.where(same_kind, of_kind, np.where(same_family, of_family, 0.0))
    alike = np.minimum(alike, 1.0 - 1e-9)  # exact copies: still invertible
    np.fill_diagonal(alike, 1.0)
    raw = np.linalg.solve(alike, np.ones(families.size))
    return raw / raw.sum(), float(raw.sum())


def _standardised(values: Floats, weights: Floats) -> Floats:
    """Ranks as shares of the weight below, ties half, with weighted mean 0 and variance 1."""
    below = np.sign(values[:, None] - values) @ weights
    centred = below - float(weights @ below)
    return np.asarray(centred / math.sqrt(float(weights @ centred**2)))


def half_swap(rho: float, count: int) -> float:
    """A rho, a perfect one half a swap of neighbours less, or its interval were a point."""
    most = 1.0 - 6.0 / (count**3 - count)
    return min(max(rho, -most), most)


def _fisher_interval(rho: float, count: float, critical: float) -> Interval:
    """tanh(z ± critical · se), the variance of z over `count` models that of Bonett & Wright."""
    z = math.atanh(half_swap(rho, round(count)))
    reach = critical * math.sqrt((1.0 + rho**2 / 2.0) / (count - 3))
    return Interval(math.tanh(z - reach), math.tanh(z + reach), "new family")


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
        own = codes(block_codes[members].tolist())
        # one key a block, that of its first place: a stable sort keeps its points in order
        drawn = keys[:, members[np.unique(own, return_index=True)[1]]][:, own]
        order[:, members] = members[np.argsort(drawn, axis=1, kind="stable")]
    return order
