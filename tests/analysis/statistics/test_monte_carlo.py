"""Draws are added until a verdict doesn't depend on the seed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from analysis.statistics.monte_carlo import CONFIDENCE, share_interval, stages, undecided


@pytest.mark.parametrize(
    ("first", "most", "expected"),
    [(1000, 50_000, [1000, 5000, 25_000, 50_000]), (499, 499, [499]), (2000, 100, [100])],
)
def test_the_stages_end_with_the_most(first, most, expected):
    assert list(stages(first, most)) == expected


@pytest.mark.parametrize(("hits", "draws"), [(0, 100), (3, 100), (97, 100), (100, 100), (35, 1000)])
def test_the_interval_is_that_of_scipy(hits, draws):
    low, high = share_interval(hits, draws)
    exact = binomtest(hits, draws).proportion_ci(CONFIDENCE, "exact")
    assert (float(low), float(high)) == pytest.approx((exact.low, exact.high))


def test_a_share_is_decided_when_its_interval_excludes_the_limit():
    hits, draws = (
        np.array([35, 350, 18, 900, 1250.5]),
        np.array([1000, 10_000, 1000, 50_000, 50_000]),
    )
    assert undecided(hits, draws, 0.025).tolist() == [True, False, True, False, True]


def test_two_seeds_agree_on_what_is_decided():
    """Shares near the limit, two sets of draws each: where both are decided, they agree."""
    generator = np.random.default_rng(0)
    shares = generator.uniform(0.015, 0.035, 4000)
    hits = generator.binomial(5000, shares, (2, shares.size))
    decided = ~undecided(hits, 5000, 0.025)
    both = decided.all(axis=0)
    above = hits / 5000 > 0.025
    assert both.mean() > 0.3 and (above[0] == above[1])[both].all()
    wrong = (above != (shares > 0.025)) & decided
    assert wrong.mean() < 1 - CONFIDENCE
