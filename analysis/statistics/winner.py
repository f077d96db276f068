"""When the best of many variants may be called the winner: the conditions, as a pure function.

The best variant is the one with the largest |Spearman| over all models. It wins when all of
this holds:

1. It beats chance: its p, adjusted for everything that was ever tried, is below 0.05.
2. It doesn't only tell model families apart: the same with the target permuted within families
   (families that share a level make the free permutation reject far too often).
3. Chosen without a model, the choice places that model: the left-out places correlate
   positively with the target. The same without a family, when most models can be left out so.
4. The choice is stable: in at least half of the folds that leave one model out, the variant
   that is chosen ranks all models as the winner does, with Spearman 0.95 or more.

'The same choice' is a matter of how the models are ranked, not of names. A condition on names
would depend on how finely a grid of parameters was cut: copies of the winner under other names
would make it look unstable ('the same variant'), while one metric may hold variants that rank
the models quite differently ('the same metric'). Neither can happen to rankings. At 0.95 two
rankings differ by 0.09 n places in the root mean square, 1.5 places among 17. All three shares
are reported; only this one decides. What the conditions let through and what they find was
simulated: see benchmarks/statistics_coverage.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from analysis.statistics.correlations import Floats, spearman_rows
from analysis.statistics.permutation import DEFAULT_PERMUTATIONS, MaxTest, max_test
from analysis.statistics.selection import LeftOut, choose, family_folds, leave_out, model_folds

LEVEL = 0.05
STABLE_SHARE = 0.5
SAME_RANKING = 0.95

Condition = Literal[
    "beats_chance",
    "beats_chance_within_families",
    "places_left_out_models",
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
    p_within_families: its adjusted p when the target is permuted within model families.
    failed: empty for a winner.
    """

    best: int
    overall: MaxTest
    p_within_families: float
    by_model: LeftOut
    by_family: LeftOut
    stability: Stability
    failed: tuple[Condition, ...]


def winner_conditions(
    metrics: Floats,
    target: Floats,
    families: Sequence[str],
    groups: Sequence[str],
    seed: int,
    permutations: int = DEFAULT_PERMUTATIONS,
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
        candidates: only the first so many of the K may win; the others can't be had any more, but
            were tried. All when None.
        counted: `[C, n]`, NaN where missing: what was tried besides, and counts in both tests.
    """
    tried = metrics if counted is None else np.vstack([metrics, counted])
    overall = max_test(tried, target, seed, permutations)
    within = max_test(tried, target, seed, permutations, strata=families)
    choice = choose(metrics[:candidates], target)
    by_model = leave_out(metrics, target, model_folds(target.size))
    by_family = leave_out(metrics, target, family_folds(families))
    stability = stability_of(metrics, groups, choice.variant, choice.rho, by_model)
    p_within = float(within.p_adjusted[choice.variant])
    checks: dict[Condition, bool] = {
        "beats_chance": bool(overall.p_adjusted[choice.variant] < LEVEL),
        "beats_chance_within_families": p_within < LEVEL,
        "places_left_out_models": by_model.held_out > 0,
        "places_left_out_families": by_family.covered <= target.size / 2 or by_family.held_out > 0,
        "stable_choice": stability.same_ranking >= STABLE_SHARE,
    }
    return WinnerConditions(
        best=choice.variant,
        overall=overall,
        p_within_families=p_within,
        by_model=by_model,
        by_family=by_family,
        stability=stability,
        failed=tuple(name for name, holds in checks.items() if not holds),
    )


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
