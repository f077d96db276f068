"""The max-statistic test: exact on small data, at its level under the null."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.stats

from analysis.statistics.permutation import correlations_under, max_test, permuted_indices


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
    null = np.abs(correlations_under(x, y, order))
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
    largest = np.abs(correlations_under(x, y, permuted_indices(17, 500, 4))).max(axis=0)
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


def test_variants_on_few_models_do_not_poison_the_others():
    """Fifty that reach |rho| 1 easily: below half of the models they don't count at all."""
    generator = np.random.default_rng(11)
    y = generator.normal(size=17)
    good = y + 0.3 * generator.normal(size=17)
    alone = max_test(good[None], y, 0, 2000)
    for models, allowed in ((3, 0.0), (8, 0.0), (9, 0.01)):
        few = np.full((50, 17), np.nan)
        for row in few:
            row[generator.choice(17, models, replace=False)] = generator.normal(size=models)
        test = max_test(np.vstack([good[None], few]), y, 0, 2000)
        assert test.p_adjusted[0] <= alone.p_adjusted[0] + allowed
        assert test.tested == (51 if models == 9 else 1)
        assert np.isnan(test.p_adjusted[1:]).all() == (models < 9)


def test_the_adjusted_p_of_incomplete_variants_holds_its_level():
    generator = np.random.default_rng(12)
    rejected = 0
    for study in range(150):
        metrics, y = generator.normal(size=(12, 14)), generator.normal(size=14)
        metrics[:6, :6] = np.nan
        rejected += np.nanmin(max_test(metrics, y, study, 300).p_adjusted) < 0.05
    assert rejected <= 15  # 7.5 expected; 16 and more: once in 250


def test_within_strata_a_variant_that_separates_them_sets_no_yardstick():
    """Its rho is large in every permutation; what it says within families is nothing."""
    generator = np.random.default_rng(13)
    families = ["a"] * 8 + ["b"] * 8
    level = np.repeat([0.0, 10.0], 8)
    y = level + generator.normal(size=16)
    brand = level + generator.normal(size=16)
    inside = y + 0.1 * generator.normal(size=16) - np.repeat([0.0, 5.0], 8)
    test = max_test(np.vstack([brand, inside]), y, 0, 2000, strata=families)
    assert test.p_adjusted[1] < 0.01 < 0.05 < test.p_adjusted[0]


def test_the_standardised_null_has_mean_0_and_variance_1():
    """The moments under permutation are exact, in strata and with missing values."""
    from analysis.statistics.permutation import _null_moments, _standardised

    generator = np.random.default_rng(14)
    x, y = generator.normal(size=(1, 12)), np.round(generator.normal(size=12), 1)
    families = ["a"] * 5 + ["b"] * 6 + ["c"]
    x[0, :5] += 3
    for strata in (None, families):
        order = permuted_indices(12, 20_000, 0, strata)
        rho = correlations_under(x, y, order)
        z = _standardised(rho, *_null_moments(x, y, strata)) * np.sign(rho)
        assert z.mean() == pytest.approx(0, abs=0.03)
        assert z.var() == pytest.approx(1, abs=0.05)
