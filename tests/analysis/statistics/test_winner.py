"""The conditions for a winner: what counts as the same choice, and each condition on its own."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from analysis.statistics.selection import Choice, LeftOut
from analysis.statistics.winner import stability_of, winner_conditions

FAMILIES = ["q"] * 9 + ["l"] * 5 + ["m"] * 2 + ["y"]


def conditions(metrics, target, groups=None, families=FAMILIES):
    names = groups or [f"metric {i}" for i in range(len(metrics))]
    return winner_conditions(np.array(metrics), target, families, names, seed=0, permutations=500)


def signal(seed, strength=0.9, others=12):
    """A target, one metric that tracks it and others that don't."""
    generator = np.random.default_rng(seed)
    target = generator.normal(size=17)
    good = strength * target + np.sqrt(1 - strength**2) * generator.normal(size=17)
    return np.vstack([good, generator.normal(size=(others, 17))]), target


def test_a_clear_signal_wins_and_noise_does_not():
    metrics, target = signal(0)
    assert conditions(metrics, target).failed == ()
    assert "beats_chance" in conditions(metrics[1:], target).failed


def test_the_sign_of_a_metric_is_its_own_business():
    metrics, target = signal(0)
    metrics[0] *= -1
    found = conditions(metrics, target)
    assert found.failed == () and found.stability.same_ranking == 1


@pytest.mark.parametrize("seed", range(4))
def test_copies_under_other_names_change_nothing(seed):
    metrics, target = signal(seed, strength=0.8)
    once, often = conditions(metrics, target), conditions(np.repeat(metrics, 3, axis=0), target)
    assert once.failed == often.failed
    assert once.stability.same_ranking == often.stability.same_ranking
    assert once.p_within_families == often.p_within_families


def test_a_finer_grid_lowers_the_share_of_names_not_of_rankings():
    metrics, target = signal(0)
    generator = np.random.default_rng(5)
    near = metrics[0] + 0.03 * generator.normal(size=(8, 17))
    found = conditions(np.vstack([metrics, near]), target, ["good", *["x"] * 12, *["good"] * 8])
    stability = found.stability
    assert stability.same_variant < 1
    assert stability.same_ranking == stability.same_metric == 1
    assert found.failed == ()


def test_one_metric_whose_variants_disagree_is_not_one_choice():
    """Two variants correlate equally with the target and hardly with each other."""
    generator = np.random.default_rng(2)
    target = np.arange(17.0)
    a, b = target + generator.normal(size=(2, 17)) * 4
    folds = LeftOut(0.5, (Choice(0, 0.8), Choice(1, 0.8), Choice(1, 0.7), Choice(1, -0.7)), 17)
    found = stability_of(np.vstack([a, b]), ["m", "m"], 0, 0.8, folds)
    assert abs(scipy.stats.spearmanr(a, b)[0]) < 0.95
    assert found.folds == 4
    assert (found.same_variant, found.same_metric, found.same_ranking) == (0.25, 1, 0.25)


@pytest.mark.parametrize(("swapped", "same"), [((8, 12), True), ((8, 16), False)])
def test_rankings_are_the_same_down_to_95(swapped, same):
    """Two of 17 models change places: rho is 1 − 12 × distance² / 4896."""
    best = np.arange(17.0)
    other = best.copy()
    other[list(swapped)] = other[list(swapped)[::-1]]
    assert bool(scipy.stats.spearmanr(best, other)[0] >= 0.95) is same
    folds = LeftOut(0.5, (Choice(1, 0.9),), 17)
    found = stability_of(np.vstack([best, other]), ["a", "b"], 0, 0.9, folds)
    assert found.same_ranking == same and found.same_metric == 0


def test_a_choice_with_the_sign_turned_is_another_choice():
    metrics = np.arange(17.0)[None]
    folds = LeftOut(0.5, (Choice(0, 0.8), Choice(0, -0.8)), 17)
    found = stability_of(metrics, ["m"], 0, 0.8, folds)
    assert found.same_variant == 1 and found.same_ranking == 0.5


def test_a_metric_that_tells_families_apart_fails_by_that_name():
    generator = np.random.default_rng(3)
    level = np.repeat([0.0, 10.0, 20.0, 30.0], [9, 5, 2, 1])
    metrics = np.vstack([level + generator.normal(size=17), generator.normal(size=(5, 17))])
    found = conditions(metrics, level + generator.normal(size=17))
    assert found.best == 0 and found.overall.p_adjusted[0] < 0.05
    assert found.p_within_families > 0.05 and "beats_chance_within_families" in found.failed
