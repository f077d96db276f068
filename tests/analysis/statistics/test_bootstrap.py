"""Intervals against scipy's bootstrap and against a plain loop with scikit-learn."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import scipy.stats
from oracle import needs_min_cov_det
from sklearn.covariance import MinCovDet

from analysis.statistics.correlations import pearson, pearson_rows, spearman, spearman_rows
from analysis.statistics.resampling import (
    bca_interval,
    draw,
    jackknife,
    percentile_interval,
    replicate,
)
from analysis.statistics.skipped import mcd_skipped_rows


@pytest.fixture
def data():
    generator = np.random.default_rng(7)
    x = generator.normal(size=17)
    return x, 0.6 * x + 0.8 * generator.normal(size=17)


@pytest.mark.parametrize("method", ["percentile", "BCa"])
def test_intervals_agree_with_scipy(data, method):
    x, y = data
    oracle = scipy.stats.bootstrap(
        (x, y),
        lambda a, b: scipy.stats.pearsonr(a, b)[0],
        paired=True,
        vectorized=False,
        method=method,
        n_resamples=4000,
        rng=np.random.default_rng(1),
    ).confidence_interval
    replicates = replicate(pearson_rows, x, y, draw(17, 20_000, seed=0))
    if method == "percentile":
        ours = percentile_interval(replicates)
    else:
        ours = bca_interval(pearson(x, y), replicates, jackknife(pearson_rows, x, y))
    assert ours.low == pytest.approx(oracle.low, abs=0.04)
    assert ours.high == pytest.approx(oracle.high, abs=0.02)


def test_bca_agrees_with_scipy_on_the_same_replicates(data):
    x, y = data

    def oracle(**more):
        return scipy.stats.bootstrap(
            (x, y),
            lambda a, b: scipy.stats.pearsonr(a, b)[0],
            paired=True,
            vectorized=False,
            **more,
        )

    drawn = oracle(n_resamples=999, method="percentile", rng=np.random.default_rng(2))
    expected = oracle(n_resamples=0, method="BCa", bootstrap_result=drawn).confidence_interval
    ours = bca_interval(pearson(x, y), drawn.bootstrap_distribution, jackknife(pearson_rows, x, y))
    assert ours.low == pytest.approx(expected.low, abs=1e-9)
    assert ours.high == pytest.approx(expected.high, abs=1e-9)


@needs_min_cov_det
def test_replicates_equal_a_plain_loop_of_scikit_learn_fits(data):
    x, y = data
    draws = draw(17, 120, seed=5)
    fast = replicate(lambda a, b: mcd_skipped_rows(a, b, 0), x, y, draws)
    for value, index in zip(fast, draws[0], strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = MinCovDet(random_state=0).fit(np.column_stack([x[index], y[index]]))
        keep = fitted.dist_ <= -2 * math.log(0.025)
        slow = scipy.stats.spearmanr(x[index][keep], y[index][keep])[0]
        assert value == pytest.approx(slow, abs=1e-12)


def test_same_seed_same_interval_other_seed_other_interval(data):
    x, y = data
    first, again, other = (
        percentile_interval(replicate(spearman_rows, x, y, draw(17, 500, seed)))
        for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other


def test_degenerate_resamples_are_counted_not_hidden():
    x = np.array([0.0, 0.0, 0.0, 1.0])
    y = np.array([1.0, 2.0, 3.0, 4.0])
    replicates = replicate(spearman_rows, x, y, draw(4, 2000, seed=0))
    interval = percentile_interval(replicates)
    expected = 0.75**4 + 0.25**4
    assert interval.degenerate / 2000 == pytest.approx(expected, abs=0.05)
    assert not math.isnan(interval.low)


def test_nothing_defined_gives_no_interval():
    interval = percentile_interval(np.full(10, np.nan))
    assert math.isnan(interval.low) and interval.degenerate == 10
    assert math.isnan(bca_interval(0.5, np.full(10, np.nan), np.ones(5)).low)


def test_clusters_are_drawn_whole():
    families = ["a"] * 5 + ["b"] * 2 + ["c"]
    draws = draw(8, 300, seed=0, clusters=families)
    assert sum(len(group) for group in draws) == 300
    for group in draws:
        for row in group:
            counts = np.bincount(row, minlength=8)
            assert len(set(counts[:5])) == 1
            assert counts[5] == counts[6]
            assert counts[0] + counts[5] + counts[7] == 3


def test_clusters_of_one_are_the_plain_bootstrap():
    labels = [f"m{index:02d}" for index in range(17)]
    plain, clustered = draw(17, 50, seed=9), draw(17, 50, seed=9, clusters=labels)
    np.testing.assert_array_equal(plain[0], clustered[0])


def test_jackknife_leaves_out_points_or_families(data):
    x, y = data
    plain = jackknife(spearman_rows, x, y)
    assert plain[4] == pytest.approx(spearman(np.delete(x, 4), np.delete(y, 4)))
    families = ["q"] * 9 + ["l"] * 5 + ["a", "b", "c"]
    assert jackknife(spearman_rows, x, y, families).size == 5
