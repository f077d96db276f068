"""The max-statistic test: exact on small data, at its level under the null."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.stats

from analysis.statistics.permutation import max_test, null_correlations, permuted_indices


def test_single_p_agrees_with_all_permutations():
    x = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    y = np.array([2.0, 1.0, 4.0, 3.0, 6.0, 5.0])
    observed = abs(scipy.stats.spearmanr(x, y)[0])
    exact = np.mean(
        [
            abs(scipy.stats.spearmanr(x, order)[0]) >= observed - 1e-12
            for order in itertools.permutations(y)
        ]
    )
    assert max_test(x[None], y, 0, 20_000).p_single[0] == pytest.approx(exact, abs=0.01)


def test_incomplete_columns_are_tested_on_their_own_models():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(2, 10))
    x[1, :3] = np.nan
    y = generator.normal(size=10)
    order = permuted_indices(10, 5, seed=1)
    null = null_correlations(x, y, order)
    for row in range(5):
        assert null[0, row] == pytest.approx(abs(scipy.stats.spearmanr(x[0], y[order[row]])[0]))
        rest = abs(scipy.stats.spearmanr(x[1, 3:], y[order[row]][3:])[0])
        assert null[1, row] == pytest.approx(rest)


def test_adjusted_is_never_below_single_and_duplicates_cost_nothing():
    generator = np.random.default_rng(3)
    x = generator.normal(size=(20, 17))
    y = x[0] + generator.normal(size=17)
    test = max_test(x, y, 0, 2000)
    assert (test.p_adjusted >= test.p_single).all()
    once = max_test(x[:1], y, 0, 2000)
    copies = max_test(np.repeat(x[:1], 9, axis=0), y, 0, 2000)
    assert copies.p_adjusted[0] == once.p_adjusted[0]


def test_adjusted_p_is_the_share_of_maxima_that_reach_it():
    generator = np.random.default_rng(6)
    x, y = generator.normal(size=(12, 17)), generator.normal(size=17)
    test = max_test(x, y, 4, 500)
    largest = null_correlations(x, y, permuted_indices(17, 500, 4)).max(axis=0)
    for row in range(12):
        observed = abs(scipy.stats.spearmanr(x[row], y)[0])
        expected = (1 + (largest >= observed - 1e-12).sum()) / 501
        assert test.p_adjusted[row] == pytest.approx(expected)
    assert test.p_adjusted.max() > 0.9


def test_strata_stay_in_their_places():
    families = ["q"] * 9 + ["l"] * 5 + ["a", "b", "c"]
    order = permuted_indices(17, 200, seed=0, strata=families)
    assert (np.sort(order[:, :9], axis=1) == np.arange(9)).all()
    assert (np.sort(order[:, 9:14], axis=1) == np.arange(9, 14)).all()
    assert (order[:, 14:] == np.arange(14, 17)).all()


def test_null_quantiles_match_the_known_ones():
    generator = np.random.default_rng(8)
    for count, expected in ((1, 0.48), (20, 0.69)):
        test = max_test(generator.normal(size=(count, 17)), generator.normal(size=17), 0)
        assert test.null_95 == pytest.approx(expected, abs=0.03)


def test_a_constant_metric_is_undefined():
    test = max_test(np.ones((1, 8)), np.arange(8.0), 0, 200)
    assert np.isnan(test.p_adjusted[0])
