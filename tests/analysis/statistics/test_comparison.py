"""Two dependent correlations: the difference of z."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from analysis.statistics.simultaneous import MINIMUM_SERIES, lead_p

ALONE = [str(model) for model in range(17)]


def columns(seed, good=1.0, n=17):
    generator = np.random.default_rng(seed)
    target = generator.normal(size=n)
    metric = good * target + generator.normal(size=n)
    return metric, generator.normal(size=n), target


def test_the_p_is_that_of_olkin_and_siotanis_difference_of_dependent_z():
    """By hand for independent models: se² = v₁ + v₂ − 2 C √(v₁ v₂), C with the shrunk r."""
    metric, baseline, target = columns(0)
    r, s, p = (
        scipy.stats.spearmanr(*pair)[0]
        for pair in ((metric, target), (baseline, target), (metric, baseline))
    )
    partial = (p - r * s) / math.sqrt((1 - r**2) * (1 - s**2))
    a, b = math.tanh(0.85 * math.atanh(r)), math.tanh(0.85 * math.atanh(s))
    likeness = a * b * (1 + partial**2) / 2 + math.sqrt((1 - a**2) * (1 - b**2)) * partial
    v, w = (1 + r**2 / 2) / 14, (1 + s**2 / 2) / 14
    error = math.sqrt(v + w - 2 * likeness * math.sqrt(v * w))
    expected = scipy.stats.norm.sf((math.atanh(r) - math.atanh(s)) / error)
    found, within = lead_p(metric, baseline, target, ALONE, ALONE)
    assert found == pytest.approx(expected, abs=1e-9) and not within


def test_a_difference_inside_families_counts_where_families_share_levels():
    places = np.repeat(np.arange(4), [9, 5, 2, 1])
    generator = np.random.default_rng(1)
    own, level = generator.normal(size=(3, 17)), 3 * generator.normal(size=(3, 4))
    target, noise, other = own + level[:, places]
    assert lead_p(target + noise / 3, other, target, places.tolist(), ALONE)[1]


def test_a_much_better_metric_leads_and_a_copy_does_not():
    metric, baseline, target = columns(2, good=20.0)
    assert lead_p(metric, baseline, target, ALONE, ALONE)[0] < 0.05
    assert lead_p(2 * baseline, baseline, target, ALONE, ALONE)[0] == 1.0


def test_too_few_series_have_no_p():
    metric, baseline, target = columns(3, good=20.0, n=21)
    for count, has_p in ((MINIMUM_SERIES, True), (MINIMUM_SERIES - 1, False)):
        series = [str(place % count) for place in range(21)]
        p, _ = lead_p(metric, baseline, target, ["one"] * 21, series)
        assert math.isnan(p) is not has_p


FAMILIES = np.repeat(np.arange(4), [9, 5, 2, 1])


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5])
@pytest.mark.parametrize(("one", "other"), [(0.5, 0.5), (0.9, 0.5)])
def test_equal_pairs_are_rarely_called_different_and_unequal_ones_often(share, one, other):
    """No4k's families share a part of the variance of target, metric and baseline."""
    called = 0
    for seed in range(200):
        generator = np.random.default_rng([seed, 3])
        own, level = generator.normal(size=(3, 17)), generator.normal(size=(3, 4))
        target, *noise = np.sqrt(1 - share) * own + np.sqrt(share) * level[:, FAMILIES]
        metric, base = (
            rho * target + np.sqrt(1 - rho**2) * each
            for rho, each in zip((one, other), noise, strict=True)
        )
        called += lead_p(metric, base, target, FAMILIES.tolist(), ALONE)[0] < 0.05
    # at 5%, more than 20 once in 600; the bootstrap over models alone calls 10% with half shared.
    # At .9 and .5 a test that knows the null law of the difference calls 60 to 76%.
    assert called <= 20 if one == other else called >= 110
