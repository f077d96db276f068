"""The vectorised FAST-MCD against `sklearn.covariance.MinCovDet` with the same seed."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.stats
from oracle import needs_min_cov_det
from sklearn.covariance import MinCovDet

from analysis.statistics.fast_mcd import (
    consistency_factor,
    mcd_flags,
    robust_standardise,
    support_size,
)


def sklearn_keep(x, y, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = MinCovDet(random_state=seed).fit(np.column_stack([x, y]))
    return fitted.dist_ <= scipy.stats.chi2.ppf(0.975, 2)


def some_data(index):
    """Clean, contaminated, heavy-tailed, rounded, tiny-scaled and near-collinear data."""
    generator = np.random.default_rng(index)
    n = (17, 17, 12, 25, 8)[index % 5]
    x = generator.normal(size=n)
    y = 0.6 * x + 0.8 * generator.normal(size=n)
    if index % 4 == 1:
        y[: n // 6] += 8
    if index % 4 == 2:
        x, y = generator.standard_t(2, size=(2, n))
    if index % 6 == 3:
        x = np.round(x, 1)
    if index % 7 == 4:
        x = x * 1e-3 + 5
    if index % 11 == 5:
        y = x + 1e-4 * y
    return x, y


@pytest.mark.slow
@needs_min_cov_det
def test_flags_are_identical_on_150_data_sets():
    different = []
    for index in range(150):
        x, y = some_data(index)
        seed = index % 50
        if (mcd_flags(x[None], y[None], seed).keep[0] != sklearn_keep(x, y, seed)).any():
            different.append(index)
    assert different == []


@pytest.mark.slow
@needs_min_cov_det
def test_flags_are_identical_on_bootstrap_resamples():
    x, y = some_data(0)
    rows = np.random.default_rng(1).integers(0, x.size, size=(150, x.size))
    flags = mcd_flags(x[rows], y[rows], seed=3)
    regular = ~flags.singular
    assert regular.mean() > 0.97
    for row in np.flatnonzero(regular):
        np.testing.assert_array_equal(flags.keep[row], sklearn_keep(x[rows[row]], y[rows[row]], 3))


def test_many_together_are_each_alone():
    generator = np.random.default_rng(2)
    x, y = generator.normal(size=(2, 700, 17))
    together = mcd_flags(x, y, seed=0).keep
    for row in (0, 255, 256, 699):
        alone = mcd_flags(x[row : row + 1], y[row : row + 1], seed=0).keep[0]
        np.testing.assert_array_equal(together[row], alone)


def test_by_seed_is_one_seed_after_the_other():
    x, y = some_data(2)
    together = mcd_flags(np.tile(x, (20, 1)), np.tile(y, (20, 1)), range(20)).keep
    for seed in range(20):
        np.testing.assert_array_equal(together[seed], mcd_flags(x[None], y[None], seed).keep[0])


@pytest.mark.parametrize("scale", [5e-324 / 1e-12, 1e-300, 1e-9, 1e300, -1.0])
def test_rescaling_or_negating_a_column_changes_no_flag(scale):
    for index in range(30):
        x, y = some_data(index)
        np.testing.assert_array_equal(
            mcd_flags(x[None] * scale, y[None], 0).keep, mcd_flags(x[None], y[None], 0).keep
        )


def test_degenerate_data_are_named_not_guessed():
    n = 17
    line = np.arange(float(n))[None]
    same = np.zeros((1, n))
    mostly_same = np.zeros((2, n))
    mostly_same[:, 12:] = np.random.default_rng(0).normal(size=(2, 5))
    on_a_line = mcd_flags(line, 2 * line + 1, 0)
    assert on_a_line.singular.all() and not on_a_line.undefined.any()
    for x, y in ((same, same), (mostly_same[:1], mostly_same[1:])):
        flags = mcd_flags(x, y, 0)
        assert flags.undefined.all() and flags.keep.all()


def test_the_consistent_scatter_of_a_normal_sample_is_its_own():
    """Variance of the central share of a normal sample, times the factor, is 1."""
    points = np.random.default_rng(0).normal(size=(400_000, 2))
    for share in (0.5, 0.9, 0.975):
        inside = (points**2).sum(axis=1) <= scipy.stats.chi2.ppf(share, 2)
        assert points[inside].var() * consistency_factor(share) == pytest.approx(1, abs=0.01)
    assert consistency_factor(1.0) == 1.0


@pytest.mark.parametrize(("points", "half"), [(3, 3), (4, 4), (8, 6), (17, 10), (100, 52)])
def test_support_size(points, half):
    assert support_size(points) == half


def test_standardising_a_constant_gives_zeros():
    np.testing.assert_array_equal(robust_standardise(np.full((2, 5), 7.0)), np.zeros((2, 5)))
