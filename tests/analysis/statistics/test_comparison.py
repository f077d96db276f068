"""Two dependent correlations: the paired bootstrap over series."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from analysis.statistics.comparison import MINIMUM_SERIES, lead_over
from analysis.statistics.simultaneous import joint_errors, p_above

ALONE = [str(model) for model in range(17)]


def columns(seed, good=1.0, n=17):
    generator = np.random.default_rng(seed)
    target = generator.normal(size=n)
    metric = good * target + generator.normal(size=n)
    return metric, generator.normal(size=n), target


def test_the_lead_is_of_spearmans_and_agrees_with_a_plain_loop():
    metric, baseline, target = columns(0)
    found = lead_over(metric, baseline, target, ALONE, ALONE, 0, 4000)

    def lead(rows):
        one, other = (scipy.stats.spearmanr(x[rows], target[rows])[0] for x in (metric, baseline))
        return one - other

    assert found.value == pytest.approx(lead(np.arange(17))) and found.series == 17
    generator = np.random.default_rng(5)
    plain = np.array([lead(generator.integers(0, 17, 17)) for _ in range(1000)])
    low, high = np.quantile(plain, [0.025, 0.975])
    # 1,000 draws: the ends vary by some hundredths
    assert found.interval.low == pytest.approx(low, abs=0.08)
    assert found.interval.high == pytest.approx(high, abs=0.08)
    errors = joint_errors(np.stack([metric, baseline]), target, [ALONE])
    normal = p_above(errors, 1)[0]
    assert found.p == pytest.approx(max((plain <= 0).mean(), normal), abs=0.04)


def test_a_much_better_metric_leads_and_a_copy_does_not():
    metric, baseline, target = columns(2, good=20.0)
    assert lead_over(metric, baseline, target, ALONE, ALONE, 0).p < 0.05
    copy = lead_over(2 * baseline, baseline, target, ALONE, ALONE, 0)
    assert copy.value == 0.0 and copy.p == 1.0


def test_series_are_drawn_as_wholes():
    """Eight exact copies of each model: as wholes they are worth no more than one of each."""
    metric, baseline, target = columns(3, n=12)
    labels = [str(place) for place in range(12)]
    once = lead_over(metric, baseline, target, labels, labels, 0, 3000)
    many = np.repeat(np.arange(12), 8)
    copied = [labels[place] for place in many]
    whole = lead_over(metric[many], baseline[many], target[many], copied, copied, 0, 3000)
    each = [str(place) for place in range(96)]
    apart = lead_over(metric[many], baseline[many], target[many], each, each, 0, 3000)
    width, whole_width, apart_width = (
        lead.interval.high - lead.interval.low for lead in (once, whole, apart)
    )
    assert whole_width == pytest.approx(width, rel=0.1) and apart_width < width / 2


def test_too_few_series_have_no_interval():
    metric, baseline, target = columns(3, good=20.0, n=21)
    series = [str(place % (MINIMUM_SERIES - 1)) for place in range(21)]
    found = lead_over(metric, baseline, target, series, series, 0)
    assert found.value > 0 and math.isnan(found.p) and math.isnan(found.interval.low)


def test_families_that_share_levels_call_few_equal_pairs_different():
    """No4k's families share half of the variance; metric and baseline both correlate at .5."""
    places = np.repeat(np.arange(4), [9, 5, 2, 1])
    called = 0
    for seed in range(100):
        generator = np.random.default_rng([seed, 3])
        own, level = generator.normal(size=(3, 17)), generator.normal(size=(3, 4))
        target, *noise = np.sqrt(0.5) * own + np.sqrt(0.5) * level[:, places]
        one, other = (0.5 * target + np.sqrt(0.75) * each for each in noise)
        called += lead_over(one, other, target, places.tolist(), ALONE, seed, 300).p < 0.05
    assert called <= 11  # 5 expected; more than 11 once in 200
