"""Exact sign-flip tests and Holm's adjustment, against scipy and pingouin."""

from __future__ import annotations

import itertools

import numpy as np
import pingouin
import pytest
import scipy.stats

from plugins.merging.competition.sign_flip import LEVEL, holm, least_groups, sign_flip_p


@pytest.mark.parametrize("groups", [6, 9, 18])
def test_it_is_scipys_exact_permutation_test(groups):
    differences = np.random.default_rng(groups).normal(0.6, 1, size=(5, groups))
    found = sign_flip_p(differences)
    for row, difference in enumerate(differences[: 1 if groups == 18 else 5]):
        exact = scipy.stats.permutation_test(
            (difference,), np.sum, permutation_type="samples", n_resamples=np.inf
        )
        assert found[row] == pytest.approx(exact.pvalue)


def test_the_fewest_groups_depend_on_the_number_of_pairs():
    for pairs, groups in ((1, 6), (10, 9), (28, 11)):
        least = [pairs * sign_flip_p(np.ones((1, g)))[0] for g in (groups - 1, groups)]
        assert least_groups(pairs) == groups and least[0] >= LEVEL > least[1]


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        ([0.0] * 8, 1.0),
        ([0.0] * 19, 1.0),
        ([0.3], 1.0),
        ([0.3, 0.3], 0.5),
        ([1.0] * 5, 2 / 2**5),
        ([1.0] * 6, 2 / 2**6),
        ([1.0, -1.0, 1.0, -1.0], 1.0),
        ([1e9, 1.0, 1.0, 1.0, 1.0, -1.0], 12 / 2**6),
        ([np.nan, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], np.nan),
        ([np.nan] + [1.0] * 19, np.nan),
        ([], np.nan),
    ],
)
def test_few_equal_outlying_and_missing_differences(differences, expected):
    found = sign_flip_p(np.array([differences]).reshape(1, -1))[0]
    assert found == pytest.approx(expected, nan_ok=True)


def test_many_groups_are_near_the_normal_limit():
    differences = np.random.default_rng(0).normal(0.5, 1, size=(1, 25))
    exact = scipy.stats.permutation_test(
        (differences[0],), np.sum, permutation_type="samples", n_resamples=200_000, rng=0
    )
    assert sign_flip_p(differences)[0] == pytest.approx(exact.pvalue, abs=0.005)


def test_ties_reach_the_observed_sum():
    """Sums of the same numbers in another order differ in their last bits."""
    differences = np.array([[0.1, 0.2, 0.3, 0.1, 0.2, 0.3, 0.7, -0.7]])
    signs = np.array(list(itertools.product([-1, 1], repeat=8)))
    sums = np.round(np.abs(signs @ differences[0]), 9)
    expected = (sums >= round(abs(differences.sum()), 9)).mean()
    assert sign_flip_p(differences)[0] == expected


def test_many_pairs_over_many_groups_take_seconds_and_can_be_distinguished():
    """300 entries on 300 tasks: their p must reach 0.05 / 44,850, as no random pattern does."""
    generator = np.random.default_rng(1)
    skill = np.repeat([0.0, 1.0], 150)
    rates = skill[:, None] + generator.normal(0, 1, size=(300, 300))
    first, second = np.triu_indices(300, 1)
    p = sign_flip_p(rates[first] - rates[second])
    unequal = skill[first] != skill[second]
    adjusted = holm(p)
    assert (adjusted[unequal] < 0.05).mean() > 0.98
    assert not (adjusted[~unequal] < 0.05).any()
    # under the null p is uniform
    assert (p[~unequal] < 0.05).mean() == pytest.approx(0.05, abs=0.02)


def test_holm_is_pingouins():
    p = np.array([0.01, 0.04, 0.03, 0.005, 0.9])
    assert holm(p) == pytest.approx(pingouin.multicomp(p, method="holm")[1])
    found = holm(np.array([0.02, np.nan, 0.01]))
    assert found[0] == found[2] == 0.02 and np.isnan(found[1])
