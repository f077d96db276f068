"""Orders of models that are exchangeable: whole series within families, counted and drawn."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from analysis.statistics.families import MOST_ORDERS, exchangeable_strata, orders, permuted_indices


def test_strata_stay_in_their_places():
    families = ["q"] * 9 + ["l"] * 5 + ["a", "b", "c"]
    order = permuted_indices(200, 0, families, range(17))
    assert (np.sort(order[:, :9], axis=1) == np.arange(9)).all()
    assert (np.sort(order[:, 9:14], axis=1) == np.arange(9, 14)).all()
    assert (order[:, 14:] == np.arange(14, 17)).all()


def test_whole_series_change_places_within_their_family():
    families = ["q"] * 6 + ["l", "m"]
    series = ["a", "a", "b", "b", "c", "c", "x", "y"]
    strata = exchangeable_strata(families, series)
    order = permuted_indices(300, 0, strata, series)
    pairs = order[:, :6].reshape(300, 3, 2)
    assert (pairs[:, :, 1] == pairs[:, :, 0] + 1).all() and (pairs[:, :, 0] % 2 == 0).all()
    assert {tuple(row) for row in order[:, 6:].tolist()} == {(6, 7), (7, 6)}


def test_only_series_of_as_many_models_change_places():
    """Of a (2 models), b (2), c (1) and d (1): in c's place, a would be cut in two."""
    families, series = ["q"] * 6, ["a", "a", "b", "b", "c", "d"]
    strata = exchangeable_strata(families, series)
    order = permuted_indices(300, 0, strata, series)
    assert {tuple(row) for row in order.tolist()} == {
        (*first, *last) for first in ((0, 1, 2, 3), (2, 3, 0, 1)) for last in ((4, 5), (5, 4))
    }
    assert orders(families, series) == 4


@pytest.mark.parametrize(
    ("families", "series", "expected"),
    [
        ("aaaabbbc", "01234567", math.factorial(4) * math.factorial(3)),  # the 144
        ("abcdefgh", "01234567", math.factorial(8)),
        ("aabbcc", "012345", 2**3 * math.factorial(3)),  # within families, and whole families
        ("aaaabb", "001122", 2),  # two series of two in a; b is another shape
        ("aaab", "0012", 1),
        (range(171), range(171), MOST_ORDERS),  # more than a float has
    ],
)
def test_orders_are_those_that_no_test_tells_apart(families, series, expected):
    assert orders(families, list(zip(families, series, strict=True))) == expected


def test_orders_count_the_symmetries_of_the_labels():
    """By enumeration: permutations of the models that map every group onto a group."""
    families, series = "aabbc", "01234"
    groups = [{i for i, f in enumerate(families) if f == name} for name in "abc"]
    symmetries = sum(
        all({order[i] for i in group} in groups for group in groups)
        for order in itertools.permutations(range(5))
    )
    assert orders(families, series) == symmetries
