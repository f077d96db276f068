"""The interval that allows for the choice: what it covers, what it costs, what it is made of."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from analysis.statistics.after_choice import (
    choose_anew,
    critical_value,
    interval_after_choice,
    resampled_spearman,
    shared_design_effect,
    winner_interval,
)
from analysis.statistics.correlations import spearman
from analysis.statistics.families import family_interval

ALONE = [[str(model) for model in range(17)]]


def study(seed, rho, variants):
    generator = np.random.default_rng(seed)
    target = generator.normal(size=17)
    own = generator.normal(size=(variants, 17))
    return rho * target + math.sqrt(1 - rho**2) * own, target


def test_it_covers_where_the_usual_interval_does_not():
    """60 equally good variants, 60 studies: nominal 95%."""
    truth = 6 / math.pi * math.asin(0.5 / 2)
    covered = usual = 0
    for seed in range(60):
        metrics, target = study(seed, 0.5, 60)
        found = winner_interval(metrics, target, ALONE, seed, permutations=200)
        covered += found.interval.low <= truth <= found.interval.high
        plain = family_interval(metrics[found.best], target, ALONE[0])
        usual += plain.low <= truth <= plain.high
    assert covered >= 54 and usual <= 45


def test_one_variant_alone_pays_for_its_sign_only():
    metrics, target = study(1, 0.7, 1)
    found = winner_interval(metrics, target, ALONE, 0, permutations=20_000)
    usual = family_interval(metrics[0], target, ALONE[0])
    assert found.critical == pytest.approx(scipy.stats.norm.ppf(1 - 0.05 / 4), abs=0.1)
    assert usual.low - 0.12 < found.interval.low < usual.low
    assert found.interval.high == pytest.approx(usual.high, abs=1e-12)


def test_more_variants_cost_more_and_copies_nothing():
    metrics, target = study(2, 0.6, 40)
    few, many = (critical_value(rows, target, 0, 2000) for rows in (metrics[:4], metrics))
    assert many > few > 1.96
    assert critical_value(np.repeat(metrics, 3, axis=0), target, 0, 2000) == many


def test_variants_that_lack_models_count_in_their_own_standard_errors():
    metrics, target = study(2, 0.0, 40)
    whole = critical_value(metrics[:3], target, 0, 2000)
    lacking = metrics.copy()
    lacking[3:, 0] = np.nan
    found = critical_value(lacking, target, 0, 2000)
    assert found > whole + 0.5
    assert found == pytest.approx(critical_value(metrics, target, 0, 2000), rel=0.05)


def test_the_sign_turns_with_the_metric():
    metrics, target = study(3, 0.8, 5)
    there = winner_interval(metrics, target, ALONE, 0, 500)
    back = winner_interval(-metrics, target, ALONE, 0, 500)
    assert back.value == pytest.approx(-there.value)
    assert (back.interval.low, back.interval.high) == pytest.approx(
        (-there.interval.high, -there.interval.low)
    )


def test_groups_widen_it_and_a_loser_pays_on_both_sides():
    metrics, target = study(4, 0.8, 5)
    level = np.repeat([0.0, 2.0, 4.0, 6.0], [5, 4, 4, 4])
    effect = shared_design_effect(metrics + level, target + level, [*ALONE, level.tolist()])
    assert effect > 1.5 and shared_design_effect(metrics, target, ALONE) == 1
    plain = interval_after_choice(metrics[0], target, 3.0, 1.0, best=True)
    wider = interval_after_choice(metrics[0], target, 3.0, effect, best=True)
    assert wider.low < plain.low and wider.high > plain.high
    loser = interval_after_choice(metrics[0], target, 3.0, 1.0)
    assert loser.low == plain.low and loser.high > plain.high


def test_too_few_models_or_a_constant_have_no_interval():
    x, y = np.arange(4.0), np.array([1.0, 3, 2, 4])
    assert math.isnan(interval_after_choice(x, y, 2.0, 1.0).low)
    assert math.isnan(interval_after_choice(np.ones(9), np.arange(9.0), 2.0, 1.0).low)


def test_resampled_spearman_is_that_of_scipy_on_the_drawn_models():
    generator = np.random.default_rng(5)
    metrics, target = np.round(generator.normal(size=(6, 12)), 1), generator.normal(size=12)
    drawn = generator.integers(0, 12, size=(20, 12))
    weights = np.stack([np.bincount(row, minlength=12) for row in drawn])
    found = resampled_spearman(metrics, target, weights)
    for k in range(6):
        for row in range(20):
            expected = scipy.stats.spearmanr(metrics[k, drawn[row]], target[drawn[row]])[0]
            assert found[k, row] == pytest.approx(expected, abs=1e-9)


def test_choosing_anew_finds_that_noise_looks_good_and_a_clear_winner_does_not_only():
    noise, target = study(6, 0.0, 60)
    assert choose_anew(noise, target, 0, 300) > 0.15
    assert abs(choose_anew(target[None] * 2, target, 0, 300)) < 1e-9
    assert abs(spearman(noise[0], target)) < 1
