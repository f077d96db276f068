"""Expected rank correlation of a metric for a model of a new family.

Models are near-copies of each other: doses of one treatment, checkpoints of one base. Counted one
by one, the largest family decides; counted once a family, most of what was measured is thrown away.
A compromise is a hierarchical model of the ranks of metric and target,

    rank = mean + family + kind within the family + model,

whose shares of variance say how much the next near-copy adds (partial pooling). They are the
ANOVA estimates for unbalanced nested groups (Searle, Casella & McCulloch 1992, section 5.5), at
least 0. A correlation is a mean of products of metric and target, and such products of two models
are as alike as their metric values times as their targets are. `R` has these likenesses; the best
linear unbiased mean then weighs models by R⁻¹1, and 1ᵀR⁻¹1 is the number of independent models that
all of them are worth: from the number of families to the number of models.

The estimate is Spearman's rho with these weights, also inside the ranks, so that copies count on
the scale by their weight only. As in `family_interval`, of metric × target, metric × rest of the
target and target × rest of the metric the likeness with the highest cost is used: few families say
little about their own shares. What it covers: benchmarks/statistics_selection.py.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from analysis.statistics.bootstrap import Interval
from analysis.statistics.correlations import Floats, Indices
from analysis.statistics.families import fisher_variance, half_swap

LEVEL = 0.95
LEAST_FAMILIES = 3
"""Below, there is no interval: two families say nothing of how far families differ."""

LEAST_WORTH = 4.0
"""Independent models that the models must be worth, or there is no interval."""

ROUNDING = 1e-9
"""Of ranks with variance 1: residuals below it are none."""

Shares = tuple[float, float]
"""Of the variance: between families, and between kinds of one family."""


@dataclass(frozen=True)
class NewFamily:
    """Rank agreement with the target to be expected for a model of another family.

    value: weighted Spearman, NaN where undefined or with a single family.
    interval: of it, at 95%; NaN bounds with fewer than `LEAST_FAMILIES` or `LEAST_WORTH`.
    worth: the number of independent models that the models are worth.
    families: how many there are.
    """

    value: float
    interval: Interval
    worth: float
    families: int


def new_family(
    x: Floats,
    y: Floats,
    families: Sequence[Hashable],
    kinds: Sequence[Hashable],
    critical: float | None = None,
) -> NewFamily:
    """Estimate for a new family from `[n]` columns.

    Args:
        x: the metric.
        y: the target.
        families: of each model.
        kinds: of each model, the series of doses or checkpoints it belongs to; of one family only.
        critical: standard errors that the interval reaches to either side; None for a metric named
            beforehand, `critical_value` for one that was chosen.
    """
    family = _codes(families)
    kind = _codes(zip(families, kinds, strict=True))
    count = int(family.max(initial=-1)) + 1
    if count < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return NewFamily(math.nan, _interval(math.nan, 0.0, 0.0), math.nan, count)
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
    usual = NormalDist().inv_cdf((1.0 + LEVEL) / 2.0)
    reach = usual if critical is None else critical
    enough = count >= LEAST_FAMILIES and worth >= LEAST_WORTH
    return NewFamily(value, _interval(value if enough else math.nan, worth, reach), worth, count)


def variance_shares(values: Floats, families: Indices, kinds: Indices) -> Shares:
    """Shares of the variance of `[n]` values between families, and between kinds inside them.

    Args:
        values: not constant.
        families: `[n]` codes from 0.
        kinds: `[n]` codes from 0; each of one family only.
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

    Args:
        metric: shares of its variance.
        target: likewise.
        families: `[n]` codes.
        kinds: `[n]` codes.
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


def _interval(value: float, worth: float, reach: float) -> Interval:
    low, high = math.nan, math.nan
    if not math.isnan(value):
        z = math.atanh(half_swap(value, round(worth)))
        error = math.sqrt(fisher_variance(value, worth))
        low, high = math.tanh(z - reach * error), math.tanh(z + reach * error)
    return Interval(low, high, LEVEL, method="new family", resamples=0, degenerate=0)


def _codes(labels: Sequence[Hashable] | zip[tuple[Hashable, Hashable]]) -> Indices:
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(label, len(known)) for label in labels], dtype=np.intp)
