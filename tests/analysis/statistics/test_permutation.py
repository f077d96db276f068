"""Permutation tests of metrics named beforehand: exact on small data, by series within families."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.stats

from analysis.statistics.preregistered_tests import (
    arrangements,
    directed_test,
    exchangeable_strata,
    permuted_indices,
)


def test_one_metric_agrees_with_all_permutations():
    x = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    y = np.array([2.0, 1.0, 4.0, 3.0, 6.0, 5.0])
    observed = scipy.stats.spearmanr(x, y)[0]
    every = [scipy.stats.spearmanr(x, order)[0] for order in itertools.permutations(y)]
    exact = np.mean(np.array(every) >= observed - 1e-12)
    # 20,000 permutations: a standard error of 0.002
    assert directed_test(x[None], y, 0, 20_000)[0] == pytest.approx(exact, abs=0.008)


def test_several_are_compared_with_the_largest_of_all():
    generator = np.random.default_rng(6)
    x, y = generator.normal(size=(5, 17)), generator.normal(size=17)
    order = permuted_indices(17, 500, 4)
    null = np.array([[scipy.stats.spearmanr(row, y[o])[0] for o in order] for row in x])
    found = directed_test(x, y, 4, 500)
    for row in range(5):
        observed = scipy.stats.spearmanr(x[row], y)[0]
        expected = (1 + (null.max(axis=0) >= observed - 1e-10).sum()) / 501
        assert found[row] == pytest.approx(expected)
    copies = directed_test(np.repeat(x[:1], 9, axis=0), y, 4, 500)
    assert copies[0] == directed_test(x[:1], y, 4, 500)[0]


def test_a_constant_metric_is_undefined():
    assert np.isnan(directed_test(np.ones((1, 8)), np.arange(8.0), 0, 200)[0])


def test_strata_stay_in_their_places():
    families = ["q"] * 9 + ["l"] * 5 + ["a", "b", "c"]
    order = permuted_indices(17, 200, seed=0, strata=families)
    assert (np.sort(order[:, :9], axis=1) == np.arange(9)).all()
    assert (np.sort(order[:, 9:14], axis=1) == np.arange(9, 14)).all()
    assert (order[:, 14:] == np.arange(14, 17)).all()


def test_whole_series_change_places_within_their_family():
    families = ["q"] * 6 + ["l", "m"]
    series = ["a", "a", "b", "b", "c", "c", "x", "y"]
    strata = exchangeable_strata(families, series)
    order = permuted_indices(8, 300, 0, strata, series)
    pairs = order[:, :6].reshape(300, 3, 2)
    assert (pairs[:, :, 1] == pairs[:, :, 0] + 1).all() and (pairs[:, :, 0] % 2 == 0).all()
    assert {tuple(row) for row in order[:, 6:].tolist()} == {(6, 7), (7, 6)}


def test_only_series_of_as_many_models_change_places():
    """Of a (2 models), b (2), c (1) and d (1): in c's place, a would be cut in two."""
    families, series = ["q"] * 6, ["a", "a", "b", "b", "c", "d"]
    strata = exchangeable_strata(families, series)
    order = permuted_indices(6, 300, 0, strata, series)
    assert {tuple(row) for row in order.tolist()} == {
        (*first, *last) for first in ((0, 1, 2, 3), (2, 3, 0, 1)) for last in ((4, 5), (5, 4))
    }
    assert arrangements(strata, series) == 4


def test_the_test_holds_its_level_with_series_of_unequal_length():
    """The exact level: of all arrangements of 12 series of 1, 2 or 3 models, each is as likely."""
    series = [
        str(i) for i, size in enumerate((3, 2, 1, 3, 2, 2, 2, 3, 2, 1, 1, 1)) for _ in range(size)
    ]
    places = np.array([int(one) for one in series])
    families = ["q"] * len(series)
    strata = exchangeable_strata(families, series)
    called = 0
    for seed in range(400):
        generator = np.random.default_rng([seed, 1])
        shared = generator.normal(size=(2, 12))[:, places]
        x, y = np.sqrt(0.7) * shared + np.sqrt(0.3) * generator.normal(size=(2, len(series)))
        called += directed_test(x[None], y, seed, 199, strata, series)[0] <= 0.05
    assert called <= 32  # 20 expected, a standard deviation of 4.4; more than 32 once in 300


def test_families_that_share_a_level_cost_the_test_its_level_only_without_strata():
    families = ["q"] * 9 + ["l"] * 8
    level = np.array([0.0] * 9 + [1.0] * 8)
    free = within = 0
    for seed in range(200):
        generator = np.random.default_rng(seed)
        x, y = generator.normal(size=(2, 17)) + 2 * level * generator.choice([-1, 1], size=(2, 1))
        free += directed_test(x[None], y, seed, 200)[0] < 0.05
        within += directed_test(x[None], y, seed, 200, families)[0] < 0.05
    assert within <= 18 < 50 < free  # 10 expected; more than 18 once in 200
