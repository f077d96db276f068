"""When the best of many variants may be called the winner: the conditions, as a pure function.

The best variant is the one with the largest |Spearman| over all models. It wins when all of
this holds:

1. It beats chance: its p, adjusted for everything that was ever tried, is below 0.05.
2. It doesn't only tell groups apart: the same with the target permuted by whole series of models
   (doses of one treatment, checkpoints of one run) within model families. Families share levels
   and series share a course, and either makes the free permutation reject far too often. Without
   series every model is one of its own.
3. Chosen without a model, the choice places that model better than under these permutations. The
   same without a kind of model, and without a family, each where there are enough of them.
4. The choice is stable: in at least half of the folds that leave one model out, the variant
   that is chosen ranks all models as the winner does, with Spearman 0.95 or more.

A condition that the study is too small for is named as not testable, never passed in silence: a
family is one observation of what a new family would be like, and below `MINIMUM_GROUPS` of them
nothing can be said about another. Where not even the second can be tested there is no winner.

'The same choice' is a matter of how the models are ranked, not of names. A condition on names
would depend on how finely a grid of parameters was cut: copies of the winner under other names
would make it look unstable ('the same variant'), while one metric may hold variants that rank
the models quite differently ('the same metric'). Neither can happen to rankings. At 0.95 two
rankings differ by 0.09 n places in the root mean square, 1.5 places among 17. All three shares
are reported; only this one decides. What the conditions let through and what they find was
simulated: see benchmarks/statistics_winners.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from analysis.statistics.correlations import Flags, Floats, Indices, spearman_rows
from analysis.statistics.permutation import (
    DEFAULT_PERMUTATIONS,
    MaxTest,
    arrangements,
    exchangeable_strata,
    max_test,
    permuted_indices,
)
from analysis.statistics.selection import (
    LeftOut,
    choose,
    group_folds,
    leave_out,
    model_folds,
    null_held_out,
)

LEVEL = 0.05
STABLE_SHARE = 0.5
SAME_RANKING = 0.95
MINIMUM_GROUPS = 5
"""Families (or kinds) below which nothing is said about another one."""

HELD_OUT_LEVEL = 0.1
"""For the p of a held-out rho: the two tests keep the level, this one asks for something beside."""

HELD_OUT_PERMUTATIONS = 2000

Condition = Literal[
    "beats_chance",
    "beats_chance_within_families",
    "places_left_out_models",
    "places_left_out_kinds",
    "places_left_out_families",
    "stable_choice",
]


@dataclass(frozen=True)
class Stability:
    """What is chosen when one model at a time is left out, as shares of these folds.

    same_variant: exactly the best variant.
    same_metric: any variant of its metric.
    same_ranking: any variant that ranks all models as it does (Spearman ≥ `SAME_RANKING`,
        each with the sign its training part gave it).
    """

    folds: int
    same_variant: float
    same_metric: float
    same_ranking: float


@dataclass(frozen=True)
class WinnerConditions:
    """The best variant, what is known about it, and the conditions that it fails.

    best: index of the candidate with the largest |Spearman|.
    overall: the test against the best of all that was tried, K + C rows.
    p_within_families: its adjusted p when series are permuted within model families; NaN where
        there are too few such permutations for any p below `LEVEL`.
    arrangements: how many such permutations there are.
    by_model, by_kind, by_family: what the choice is worth for models it was made without; `p` is
        the share of the permutations by series within families that place them as well.
    failed: empty for a winner; untestable: what this study can't say.
    """

    best: int
    overall: MaxTest
    p_within_families: float
    arrangements: int
    by_model: LeftOut
    by_kind: LeftOut
    by_family: LeftOut
    stability: Stability
    failed: tuple[Condition, ...]
    untestable: tuple[Condition, ...]

    @property
    def wins(self) -> bool:
        """Whether the best variant is a winner."""
        return not self.failed and "beats_chance_within_families" not in self.untestable


def winner_conditions(
    metrics: Floats,
    target: Floats,
    families: Sequence[str],
    groups: Sequence[str],
    seed: int,
    permutations: int = DEFAULT_PERMUTATIONS,
    kinds: Sequence[str] | None = None,
    candidates: int | None = None,
    counted: Floats | None = None,
) -> WinnerConditions:
    """Find the best variant and check each condition on it.

    Args:
        metrics: `[K, n]`, complete, none constant: everything the choices are made among.
        target: `[n]`.
        families: the family of each model.
        groups: the metric that each variant belongs to.
        seed: of the permutations.
        permutations: of each test.
        kinds: of each model, the dose series or run it belongs to; None: each its own.
        candidates: only the first so many of the K may win; the others can't be had any more, but
            were tried. All when None.
        counted: `[C, n]`, NaN where missing: what was tried besides, and counts in both tests.
    """
    size = target.size
    own = [str(model) for model in range(size)] if kinds is None else kinds
    series = list(zip(families, own, strict=True))  # one treatment of two bases is two series
    strata = exchangeable_strata(families, series)
    possible = arrangements(strata, series)
    tried = metrics if counted is None else np.vstack([metrics, counted])
    overall = max_test(tried, target, seed, permutations)
    within = max_test(tried, target, seed, permutations, strata, series)
    order = permuted_indices(size, min(permutations, HELD_OUT_PERMUTATIONS), seed, strata, series)
    choice = choose(metrics[:candidates], target)
    can_permute = possible * LEVEL >= 1
    p_within = float(within.p_adjusted[choice.variant]) if can_permute else math.nan

    def held_out(folds: list[Flags], testable: bool) -> LeftOut:
        found = leave_out(metrics, target, folds)
        enough = testable and can_permute and found.covered > size / 2
        if not enough:
            return found
        return replace(found, p=_held_out_p(metrics, target, folds, order, found.held_out))

    of_kind, of_family = group_folds(own), group_folds(families)
    by_model = held_out(model_folds(size), True)
    by_kind = held_out(of_kind, len(of_kind) >= MINIMUM_GROUPS) if len(of_kind) < size else by_model
    by_family = (
        held_out(of_family, len(of_family) >= MINIMUM_GROUPS) if len(of_family) < size else by_model
    )
    stability = stability_of(metrics, groups, choice.variant, choice.rho, by_model)
    checks: dict[Condition, bool | None] = {
        "beats_chance": bool(overall.p_adjusted[choice.variant] < LEVEL),
        "beats_chance_within_families": _below(p_within, LEVEL),
        "places_left_out_models": _below(by_model.p, HELD_OUT_LEVEL),
    }
    if by_kind is not by_model:
        checks["places_left_out_kinds"] = _below(by_kind.p, HELD_OUT_LEVEL)
    if by_family is not by_model:
        checks["places_left_out_families"] = _below(by_family.p, HELD_OUT_LEVEL)
    checks["stable_choice"] = stability.same_ranking >= STABLE_SHARE
    return WinnerConditions(
        best=choice.variant,
        overall=overall,
        p_within_families=p_within,
        arrangements=possible,
        by_model=by_model,
        by_kind=by_kind,
        by_family=by_family,
        stability=stability,
        failed=tuple(name for name, holds in checks.items() if holds is False),
        untestable=tuple(name for name, holds in checks.items() if holds is None),
    )


def _held_out_p(
    metrics: Floats, target: Floats, folds: list[Flags], order: Indices, found: float
) -> float:
    """Share of the permutations whose held-out rho reaches the one found; 1 where undefined."""
    if math.isnan(found):
        return 1.0
    null = np.nan_to_num(null_held_out(metrics, target, folds, order), nan=-1.0)
    return float((1 + (null >= found - 1e-12).sum()) / (len(order) + 1))


def _below(p: float, level: float) -> bool | None:
    return None if math.isnan(p) else p < level


def stability_of(
    metrics: Floats, groups: Sequence[str], best: int, best_rho: float, folds: LeftOut
) -> Stability:
    """Compare the choice of each fold with the best variant.

    Args:
        metrics: `[K, n]`.
        groups: the metric that each variant belongs to.
        best: index of the best variant on all models.
        best_rho: its Spearman, for the sign.
        folds: with one model left out at a time.
    """
    chosen = np.array([choice.variant for choice in folds.choices], dtype=np.intp)
    signs = np.array([np.sign(choice.rho * best_rho) for choice in folds.choices])
    alike = spearman_rows(
        metrics[chosen], np.broadcast_to(metrics[best], (len(chosen), metrics.shape[1]))
    )
    return Stability(
        folds=len(chosen),
        same_variant=float((chosen == best).mean()),
        same_metric=float(np.mean([groups[variant] == groups[best] for variant in chosen])),
        same_ranking=float((signs * alike >= SAME_RANKING - 1e-12).mean()),
    )
