"""Two dependent correlations: intervals of the difference, and the swap test."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.stats

from analysis.statistics.bootstrap import draw
from analysis.statistics.comparison import difference, swap_test


def columns(seed, good=1.0, n=17):
    generator = np.random.default_rng(seed)
    target = generator.normal(size=n)
    metric = good * target + generator.normal(size=n)
    return metric, generator.normal(size=n), target


def test_difference_is_of_spearmans_and_the_interval_holds_it():
    metric, baseline, target = columns(0)
    found = difference(metric, baseline, target, draw(17, 2000, seed=0))
    expected = scipy.stats.spearmanr(metric, target)[0] - scipy.stats.spearmanr(baseline, target)[0]
    assert found.value == pytest.approx(expected)
    assert found.percentile.low < expected < found.percentile.high
    assert found.bca.low < expected < found.bca.high


def test_swap_test_agrees_with_all_swaps():
    metric, baseline, target = columns(1, n=8)
    ranks = [scipy.stats.rankdata(c) for c in (metric, baseline, target)]
    shares = (ranks[0] - ranks[1]) * (ranks[2] - ranks[2].mean())
    sums = [np.dot(signs, shares) for signs in itertools.product([-1, 1], repeat=8)]
    exact = np.mean(np.array(sums) >= shares.sum() - 1e-12)
    found = swap_test(metric[None], baseline, target, seed=0, swaps=20_000)
    assert found.p_single[0] == pytest.approx(exact, abs=0.015)
    assert found.difference[0] == pytest.approx(
        scipy.stats.spearmanr(metric, target)[0] - scipy.stats.spearmanr(baseline, target)[0]
    )


def test_a_much_better_metric_is_found_and_a_copy_is_not():
    metric, baseline, target = columns(2, good=20.0)
    found = swap_test(np.stack([metric, baseline]), baseline, target, seed=0)
    assert found.p_adjusted[0] < 0.05
    assert found.p_adjusted[1] == 1.0 and found.difference[1] == 0.0
    assert (found.p_adjusted >= found.p_single).all()


def test_families_that_resemble_each_other_are_swapped_as_wholes():
    """Metric and baseline equally good, intraclass correlation 0.8, 8 families of 4: nominal 5%."""
    families = np.repeat(np.arange(8), 4)
    labels = [f"family {family}" for family in families]
    by_family, by_model = [], []
    for seed in range(300):
        generator = np.random.default_rng(seed)
        level, own = generator.normal(size=(3, 8)), generator.normal(size=(3, 32))
        metric, baseline, target = np.sqrt(0.8) * level[:, families] + np.sqrt(0.2) * own
        for found, clusters in ((by_family, labels), (by_model, None)):
            test = swap_test(metric[None], baseline, target, seed, 500, clusters)
            found.append(test.p_single[0] < 0.05)
    assert np.mean(by_family) < 0.07 and np.mean(by_model) > 0.15


def test_with_too_few_families_nothing_is_said():
    metric, baseline, target = columns(3, good=20.0, n=16)
    families = ["a", "b", "c", "d"] * 4
    found = swap_test(metric[None], baseline, target, 0, 100, families)
    assert np.isnan(found.p_single[0]) and np.isnan(found.p_adjusted[0])
    assert found.difference[0] > 0
    lead = difference(metric, baseline, target, draw(16, 100, 0, families), families)
    assert lead.value == found.difference[0]
    assert np.isnan([lead.percentile.low, lead.bca.high]).all()
