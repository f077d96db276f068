"""Few models, ties, outliers and missing values: what is concluded, against every order counted."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats

from analysis.statistics.correlations import spearman_rows
from analysis.statistics.decisions import LEVEL, decide
from analysis.statistics.resampling import LEAST_DRAWN, bootstrap

NAN = math.nan


def exact_p(metric: list[float], target: list[float]) -> float:
    """Twice the share of all orders of the target that reach the correlation."""
    rho = scipy.stats.spearmanr(metric, target).statistic
    orders = np.array(list(itertools.permutations(target)))
    found = spearman_rows(np.broadcast_to(np.array(metric), orders.shape), orders)
    return float(min(1.0, 2 * np.mean(found >= rho - 1e-9)))


@pytest.mark.parametrize(
    ("metric", "target"),
    [
        ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5]),
        ([1, 2, 3, 5, 4], [1, 2, 3, 4, 5]),
        ([2, 1, 3, 5, 4], [1, 2, 3, 4, 5]),
        ([5, 4, 3, 2, 1], [1, 2, 3, 4, 5]),
        ([0, 0, 0, 1, 1], [1, 2, 3, 4, 5]),
        ([0, 0, 0, 0, 1], [0, 0, 0, 0, 1]),
        ([0, 0, 1, 1, 1], [0, 0, 1, 1, 1]),
        ([1, 2, 3, 4, 1e9], [1, 2, 3, 4, -1e9]),
        ([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6]),
        # 0.829, of which the exact p is 0.058: one sample of orders had 0.040
        ([1, 2, 3, 6, 4, 5], [1, 2, 3, 4, 5, 6]),
        ([1, 2, 4, 3, 6, 5], [1, 2, 3, 4, 5, 6]),
        ([2, 1, 4, 3, 6, 5], [1, 2, 3, 4, 5, 6]),
        ([0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1]),
        ([0, 0, 1, 1, 2, 2], [1, 2, 3, 4, 5, 6]),
        ([0.1, 0.2, 0.3, 0.4, 0.5, 1e-300], [6, 5, 4, 3, 2, 1]),
        ([1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 7, 6]),
        ([7, 1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7]),
        ([0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1, 1]),
    ],
)
def test_up_to_seven_models_p_is_that_of_all_orders(metric, target):
    found = decide(np.array([metric], float), np.array(target, float), range(len(target)))
    exact = exact_p(metric, target)
    assert found.p(0) == pytest.approx(exact, abs=1.5e-3)
    claimed = found.verdict(0) == "tracks"
    assert claimed == (exact < LEVEL) == (found.overall.interval(0).low > 0)


@pytest.mark.parametrize(
    ("metric", "verdict"),
    [
        ([1], "constant-target"),
        ([1, 2], "too-few"),
        ([1, 2, 3], "too-few"),
        ([1, 2, 3, 4], "too-few"),
        ([4, 3, 2, 1], "too-few"),
        ([7] * 8, "constant"),
        ([7] * 3, "constant"),
        ([0] * 7 + [1], "too-few"),
        ([1, 2, 3, 4, 5, 6, 7, 8, NAN], "missing-models"),
        ([1, 2, 3, 4, 5, 6, 7, 8, math.inf], "missing-models"),
        ([1, 2, 3, NAN, NAN, NAN, NAN, NAN], "too-few"),
        ([8, 7, 6, 5, 4, 3, 2, 1], "opposite"),
        ([1, 2, 3, 4, 5, 6, 7, 8], "tracks"),
    ],
)
def test_what_is_concluded_where_a_claim_is_hardly_possible(metric, verdict):
    target = np.arange(len(metric), dtype=float)
    if metric[:1] == [0]:
        target = np.array(metric, float)  # of 8 orders, one has this correlation
    found = decide(np.array([metric], float), target, range(len(metric)))
    assert found.verdict(0) == verdict


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7])
def test_no_interval_below_the_least_number(count):
    x = np.arange(count, dtype=float)
    found = bootstrap(1.0, spearman_rows, x, x, 0, 100)
    assert count < LEAST_DRAWN and math.isnan(found.percentile.low) and math.isnan(found.bca.high)
