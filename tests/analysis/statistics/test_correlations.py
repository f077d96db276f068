"""Coefficients against scipy and pingouin; what is rounded, and what must not look perfect."""

from __future__ import annotations

import math

import numpy as np
import pingouin
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from analysis.statistics.correlations import (
    Interval,
    kendall,
    masked_ranks,
    partial_spearman,
    pearson,
    pearson_rows,
    signed,
    span,
    spearman,
    spearman_rows,
    unsigned,
    without_rounding,
)

COLUMN = arrays(np.float64, 9, elements=st.integers(-6, 6).map(float))


@given(x=COLUMN, y=COLUMN)
def test_coefficients_agree_with_scipy_on_data_with_ties(x, y):
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert math.isnan(spearman(x, y))
        assert math.isnan(pearson(x, y))
        assert math.isnan(kendall(x, y))
        return
    assert spearman(x, y) == pytest.approx(scipy.stats.spearmanr(x, y)[0], abs=1e-12)
    assert pearson(x, y) == pytest.approx(scipy.stats.pearsonr(x, y)[0], abs=1e-12)
    assert kendall(x, y) == pytest.approx(scipy.stats.kendalltau(x, y)[0], abs=1e-12)


@given(values=arrays(np.float64, (4, 7), elements=st.integers(0, 4).map(float)), data=st.data())
def test_masked_ranks_are_ranks_among_the_kept(values, data):
    keep = data.draw(arrays(np.bool_, (4, 7)))
    ranks = masked_ranks(values, keep)
    for row in range(4):
        expected = np.zeros(7)
        expected[keep[row]] = scipy.stats.rankdata(values[row, keep[row]])
        np.testing.assert_array_equal(ranks[row], expected)


def test_rows_are_independent_and_masks_apply():
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(2, 50, 11))
    keep = generator.random((50, 11)) < 0.7
    together = spearman_rows(x, y, keep)
    for row in range(50):
        alone = scipy.stats.spearmanr(x[row, keep[row]], y[row, keep[row]])[0]
        assert together[row] == pytest.approx(alone, abs=1e-12)


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1.0, 1e9, 1e300])
def test_scale_does_not_matter(scale):
    x = np.array([1.0, 3.0, 2.0, 5.0, 4.5])
    y = np.array([1.0, 2.0, 3.0, 4.0, 6.0])
    assert pearson(x * scale, y) == pytest.approx(pearson(x, y), abs=1e-12)
    assert spearman(x * scale, y) == spearman(x, y)


@pytest.mark.parametrize("points", [0, 1, 2])
def test_below_three_points_nothing_is_said(points):
    x = np.arange(points, dtype=np.float64)
    assert math.isnan(spearman(x, x))
    assert math.isnan(pearson(x, x))
    assert math.isnan(kendall(x, x))


def test_a_constant_column_far_from_zero_is_undefined_not_noise():
    x = np.full((1, 6), 0.1 + 0.2)
    y = np.arange(6.0)[None, :]
    assert np.isnan(pearson_rows(x, y)).all()


def test_partial_spearman_agrees_with_pingouin():
    generator = np.random.default_rng(4)
    size = generator.normal(size=17)
    x = size + generator.normal(size=17)
    y = size + 0.5 * x + generator.normal(size=17)
    import pandas

    frame = pandas.DataFrame({"x": x, "y": y, "size": size})
    oracle = pingouin.partial_corr(frame, x="x", y="y", covar="size", method="spearman")
    assert partial_spearman(x, y, size) == pytest.approx(float(oracle["r"].iloc[0]), abs=1e-9)


def test_partial_of_a_copy_of_the_control_is_undefined():
    x = np.arange(6.0)
    y = np.array([2.0, 1.0, 4.0, 3.0, 6.0, 5.0])
    assert math.isnan(partial_spearman(x, y, x * 2))


def test_equal_means_tie_whatever_the_order_of_addition():
    """0.1 + 0.2 + 0.3 in two orders, with an outlier and a missing value."""
    values = np.array([0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1, 0.6 + 1e-8, 1e9, math.nan])
    assert values[0] != values[1]
    found = without_rounding(values)
    assert found[0] == found[1] < found[2] < found[3] and math.isnan(found[4])
    for scale in (1e-12, 1.0, 1e12):
        scaled = without_rounding(values * scale)
        assert scaled[0] == scaled[1] < scaled[2]
    differences = without_rounding(np.array([0.1 + 0.2 - 0.3, 0.0, 1.0, -2.0]))
    assert differences[0] == differences[1] == 0
    assert without_rounding(np.zeros(3)).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1.0, "+1.00"), (0.9994, "+0.99"), (0.994, "+0.99"), (-0.996, "-0.99"), (-1.0, "-1.00")],
)
def test_only_a_perfect_correlation_is_shown_as_one(value, shown):
    assert signed(value) == shown


def test_an_interval_contains_its_estimate_as_shown():
    assert signed(0.999) == "+0.99"
    assert span(Interval(0.9982, 0.9998, "")) == "+0.99 to +1.00"
    assert span(Interval(-0.9998, -0.9982, "")) == "-1.00 to -0.99"
    assert span(Interval(-0.5, 0.994, "")) == "-0.50 to +0.99"


def test_what_is_no_correlation_is_rounded():
    assert (unsigned(0.99997, 4), unsigned(math.nan, 2)) == ("1.0000", "–")
