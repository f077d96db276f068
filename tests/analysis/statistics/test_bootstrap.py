"""Intervals against scipy's bootstrap and against a plain loop with scikit-learn."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import scipy.stats
from oracle import needs_min_cov_det
from sklearn.covariance import MinCovDet

from analysis.statistics.correlations import spearman, spearman_rows
from analysis.statistics.resampling import bootstrap, spearman_estimate
from analysis.statistics.skipped import mcd_skipped_rows


@pytest.fixture
def data():
    generator = np.random.default_rng(7)
    x = generator.normal(size=17)
    return x, 0.6 * x + 0.8 * generator.normal(size=17)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("method", ["percentile", "BCa"])
def test_intervals_are_those_of_scipy_to_the_last_digit(seed, method):
    generator = np.random.default_rng(seed)
    x, y = np.round(generator.normal(size=(2, 17)), seed)  # with ties where seed is 0 or 1

    def rows(x, y, axis):
        found = spearman_rows(np.atleast_2d(x), np.atleast_2d(y))
        return found if x.ndim > 1 else found[0]

    oracle = scipy.stats.bootstrap(
        (x, y), rows, paired=True, vectorized=True, axis=-1, method=method, n_resamples=2000,
        rng=np.random.default_rng(seed),
    ).confidence_interval  # fmt: skip
    found = spearman_estimate(x, y, seed, 2000)
    ours = found.percentile if method == "percentile" else found.bca
    assert (ours.low, ours.high) == (oracle.low, oracle.high)


@pytest.mark.slow
@needs_min_cov_det
def test_replicates_equal_a_plain_loop_of_scikit_learn_fits(data):
    x, y = data
    draws = np.random.default_rng(5).integers(0, 17, size=(120, 17))
    fast = mcd_skipped_rows(x[draws], y[draws], 0)
    for value, index in zip(fast, draws, strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = MinCovDet(random_state=0).fit(np.column_stack([x[index], y[index]]))
        keep = fitted.dist_ <= -2 * math.log(0.025)
        slow = scipy.stats.spearmanr(x[index][keep], y[index][keep])[0]
        assert value == pytest.approx(slow, abs=1e-12)


def test_degenerate_resamples_are_counted_not_hidden():
    x = np.array([0.0] * 7 + [1.0])
    y = np.arange(8.0)
    interval = bootstrap(spearman(x, y), spearman_rows, x, y, 0, 2000).percentile
    expected = 0.875**8
    assert interval.degenerate / 2000 == pytest.approx(expected, abs=0.05)
    assert not math.isnan(interval.low)


def test_nothing_defined_gives_no_interval():
    constant = bootstrap(math.nan, spearman_rows, np.ones(9), np.arange(9.0), 0, 100)
    assert math.isnan(constant.bca.low) and constant.percentile.degenerate == 100


def test_a_perfect_correlation_has_an_interval_of_one_point():
    found = spearman_estimate(np.arange(9.0), np.arange(9.0) ** 3, 0, 200)
    ends = [found.bca.low, found.bca.high, found.percentile.low, found.percentile.high]
    assert ends == pytest.approx([1.0] * 4, abs=1e-12)
