"""Both skipped correlations, and how stable the flags are."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pingouin
import pytest
from oracle import needs_min_cov_det
from sklearn.covariance import MinCovDet

from analysis.statistics.fast_mcd import robust_standardise
from analysis.statistics.resampling import skipped_estimate, spearman_estimate
from analysis.statistics.skipped import (
    exact_skipped,
    flag_stability,
    mcd_skipped,
    mcd_skipped_rows,
    projection_skipped,
)


def contaminated(seed, n=17):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=n)
    y = 0.7 * x + 0.7 * generator.normal(size=n)
    x[:2] += 7
    y[:2] -= 7
    return x, y


def test_point_estimate_and_vectorised_form_are_the_same_statistic():
    for seed in range(60):
        x, y = contaminated(seed) if seed % 2 else np.random.default_rng(seed).normal(size=(2, 17))
        one = mcd_skipped(x, y, seed)
        assert mcd_skipped_rows(x[None], y[None], seed)[0] == pytest.approx(one.value, abs=1e-12)


@pytest.mark.filterwarnings("ignore:The skipped correlation")
@needs_min_cov_det
def test_projection_agrees_with_pingouin():
    for seed in range(40):
        x, y = contaminated(seed) if seed % 2 else np.random.default_rng(seed).normal(size=(2, 17))
        x, y = robust_standardise(x), robust_standardise(y)
        value, _, outliers = pingouin.correlation.skipped(x, y, corr_type="spearman")
        ours = projection_skipped(x, y, seed=42)
        np.testing.assert_array_equal(~ours.keep, np.asarray(outliers, dtype=bool))
        assert ours.value == pytest.approx(value, abs=1e-12)


def test_coinciding_points_leave_it_undefined_with_a_reason():
    x, y = np.ones((2, 17))
    x[12:], y[12:] = np.random.default_rng(0).normal(size=(2, 5))
    for statistic in (mcd_skipped, projection_skipped):
        found = statistic(x, y, 0)
        assert math.isnan(found.value)
        assert found.note.startswith("undefined")


def test_a_line_is_noted():
    x = np.arange(17.0)
    found = mcd_skipped(x, 3 * x - 1, 0)
    assert found.value == pytest.approx(1.0)
    assert "line" in found.note


@needs_min_cov_det
def test_stability_counts_what_each_seed_drops():
    x, y = np.random.default_rng(11).normal(size=(2, 17))
    stability = flag_stability(x, y, seed=0, seeds=25)
    flags = []
    for seed in range(25):
        points = np.column_stack([robust_standardise(x), robust_standardise(y)])
        fitted = MinCovDet(random_state=seed).fit(points)
        flags.append(fitted.dist_ <= -2 * math.log(0.025))
    np.testing.assert_allclose(stability.drop_share, 1 - np.mean(flags, axis=0))
    same = np.mean([(flag == flags[0]).all() for flag in flags])
    assert stability.agreement == pytest.approx(same)
    assert stability.value_low <= mcd_skipped(x, y, 0).value <= stability.value_high


def test_too_many_points_are_undefined_under_every_seed():
    x, y = np.random.default_rng(11).normal(size=(2, 501))
    stability = flag_stability(x, y, seed=0)
    assert mcd_skipped(x, y, 0).note == "undefined: more than 500 points"
    assert math.isnan(stability.value_low)
    assert stability.agreement == 1
    assert not stability.drop_share.any()
    assert flag_stability(x[:500], y[:500], seed=0, seeds=2).value_low > -1


def test_the_exact_filter_is_what_some_seeds_find_and_knows_no_units():
    """Thirty random halves miss the best of 19,448 in about a third of clean data sets."""
    agreed = 0
    for seed in range(12):
        x, y = contaminated(seed) if seed % 2 else np.random.default_rng(seed).normal(size=(2, 17))
        exact = exact_skipped(x, y)
        found = [mcd_skipped(x, y, other).value for other in range(6)]
        agreed += any(value == pytest.approx(exact.value, abs=1e-12) for value in found)
        assert exact.value == exact_skipped(3 - 5 * x, 1e-6 * y).value * -1
    assert agreed >= 6


def test_the_exact_half_has_the_smallest_determinant_of_all(monkeypatch):
    """With the one half that brute force finds as its only start, the seeded filter agrees."""
    from analysis.statistics import fast_mcd

    for data in range(8):
        x, y = np.random.default_rng(data).normal(size=(2, 17))
        halves = np.array(list(itertools.combinations(range(17), 10)))
        points = np.column_stack([x, y])[halves]
        centred = points - points.mean(axis=1, keepdims=True)
        best = halves[np.linalg.det(np.swapaxes(centred, 1, 2) @ centred).argmin()]
        start = np.zeros((1, 17))
        start[0, best] = 1.0
        monkeypatch.setattr(fast_mcd, "initial_supports", lambda *_, start=start: start)
        flags = fast_mcd.mcd_flags(x[None], y[None], 0)
        assert (flags.keep[0] == exact_skipped(x, y).keep).all()


def test_beyond_20_points_not_all_halves_are_looked_at():
    x, y = np.random.default_rng(0).normal(size=(2, 21))
    assert exact_skipped(x, y) is None and exact_skipped(x[:20], y[:20]) is not None
    same = np.ones(9)
    assert math.isnan(exact_skipped(same, same).value)


def test_of_more_points_than_the_filter_takes_it_is_undefined():
    x = np.arange(501.0)
    found, points = skipped_estimate(x, x**2, 0, 100)
    assert math.isnan(found.value) and points.kept == 501
    assert spearman_estimate(x, x**2, 0, 100).value == 1.0
