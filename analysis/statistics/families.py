"""Models come in families and series: intervals for Spearman's rho that allow for it.

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
weight only. Of the same three products as above the likeness with the highest cost is used. What it
covers: benchmarks/statistics_selection.py.
"""

from __future__ import annotations

import math
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

Shares = tuple[float, float]
"""Of the variance: between families, and between kinds of one family."""


@dataclass(frozen=True)
class WithinFamilies:
    """Correlation of the ranks inside families, pooled; NaN where undefined."""

    value: float
    interval: Interval


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


def family_interval(x: Floats, y: Floats, families: Sequence[str]) -> Interval:
    """95% interval for Spearman's rho of `[n]` columns, metric and target, over all models.

    NaN bounds with a constant column, fewer than `MINIMUM_MODELS` models or a single family, which
    carries no information about another.
    """
    labels = codes(families)
    rank_x, rank_y = _centred_ranks(x), _centred_ranks(y)
    rho = _cosine(rank_x, rank_y)
    if x.size < MINIMUM_MODELS or labels.max() == 0 or math.isnan(rho):
        return Interval(math.nan, math.nan, "family")
    effect = float(design_effects(rank_x[None, :], rank_y, labels)[0])
    return _fisher_interval(rho, x.size, "family", effect=effect)


def within_families(x: Floats, y: Floats, families: Sequence[str]) -> WithinFamilies:
    """Partial correlation of the ranks of `[n]` columns given the family, with its interval."""
    unknown = Interval(math.nan, math.nan, "family")
    if not x.size:
        return WithinFamilies(math.nan, unknown)
    labels = codes(families)
    rank_x, rank_y = _centred_ranks(x), _centred_ranks(y)
    rho = _cosine(rank_x - _family_means(rank_x, labels), rank_y - _family_means(rank_y, labels))
    # Each family takes one mean away, as the grand mean does in the plain correlation.
    count = x.size - int(labels.max())
    if count < MINIMUM_MODELS or math.isnan(rho):
        return WithinFamilies(rho, unknown)
    return WithinFamilies(rho, _fisher_interval(rho, count, "family"))


def design_effects(x: Floats, y: Floats, groups: Indices) -> Floats:
    """`[K]` factors by which correlations' variances exceed those of independent models.

    From `[K, n]` and `[n]` centred ranks and the `[n]` codes of the models' groups.
    """
    sizes = np.bincount(groups)
    excess = float((sizes**2).sum()) / y.size - 1.0
    targets = np.broadcast_to(y, x.shape)
    slope = (x * targets).sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        rest_x = x - slope / (y @ y) * targets
        rest_y = targets - slope / (x * x).sum(axis=1, keepdims=True) * x
    in_x, in_y, in_rest_x, in_rest_y = (
        intraclass(rows, groups) for rows in (x, targets, rest_x, rest_y)
    )
    product = np.maximum(in_x * in_y, np.maximum(in_x * in_rest_y, in_y * in_rest_x))
    return np.asarray(1.0 + excess * product)


def intraclass(values: Floats, groups: Indices) -> Floats:
    """Share of the variance between families of each row of `[K, n]` values.

    The ANOVA estimate, 0 to 1; 0 where every model is a family of its own: there is nothing to
    share.
    """
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
        critical: standard errors that the interval reaches to either side; `JointErrors.critical`
            for a metric that was chosen.
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
    return NewFamily(value, _fisher_interval(value, worth, "new family", critical), worth, count)


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
    alike = np.where(same_family, metric[0] * target[0], 0.0)
    alike[same_kind] = min(sum(metric) * sum(target), 1.0 - 1e-9)  # exact copies: still invertible
    np.fill_diagonal(alike, 1.0)
    raw = np.linalg.solve(alike, np.ones(families.size))
    return raw / raw.sum(), float(raw.sum())


def _standardised(values: Floats, weights: Floats) -> Floats:
    """Ranks as shares of the weight below, ties half, with weighted mean 0 and variance 1."""
    below = np.sign(values[:, None] - values) @ weights
    centred = below - float(weights @ below)
    return np.asarray(centred / math.sqrt(float(weights @ centred**2)))


def _centred_ranks(values: Floats) -> Floats:
    """Ranks less their mean: half of (how many values lie below − how many lie above)."""
    return np.asarray(np.sign(values[:, None] - values).sum(axis=1) / 2)


def _family_means(values: Floats, labels: Indices) -> Floats:
    return np.asarray((np.bincount(labels, values) / np.bincount(labels))[labels])


def _cosine(x: Floats, y: Floats) -> float:
    length = math.sqrt(float(x @ x) * float(y @ y))
    return min(max(float(x @ y) / length, -1.0), 1.0) if length > 1e-9 else math.nan


def half_swap(rho: float, count: int) -> float:
    """A rho, a perfect one half a swap of neighbours less, or its interval were a point."""
    most = 1.0 - 6.0 / (count**3 - count)
    return min(max(rho, -most), most)


def _fisher_interval(
    rho: float, count: float, method: str, critical: float = TWO_SIDED, effect: float = 1.0
) -> Interval:
    """tanh(z ± critical · se), the variance of z over `count` models that of Bonett & Wright (2000)
    times the design effect.
    """
    z = math.atanh(half_swap(rho, round(count)))
    reach = critical * math.sqrt(effect * ((1.0 + rho**2 / 2.0) / (count - 3)))
    return Interval(math.tanh(z - reach), math.tanh(z + reach), method)
