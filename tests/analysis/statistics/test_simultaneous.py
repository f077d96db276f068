"""Comparisons among metrics: formulas against others' code, answers against known truths."""

from __future__ import annotations

import json
import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from analysis.statistics import simultaneous
from analysis.statistics.simultaneous import (
    ahead_of,
    indistinguishable,
    joint_errors,
)

ORACLE = json.loads(Path(__file__).with_name("oracle_simultaneous.json").read_text("utf-8"))
FAMILIES = ["q"] * 9 + ["l"] * 5 + ["m"] * 2 + ["y"]
ALONE = [list(range(17))]


def study(seed, rho, others=19, n=17, families=None, share=0.0):
    """One metric with a correlation, others without, target; families share variance."""
    generator = np.random.default_rng(seed)
    places = np.unique(families or list(range(n)), return_inverse=True)[1]

    def columns(*shape):
        levels = generator.normal(size=(*shape, places.max() + 1))[..., places]
        return math.sqrt(1 - share) * generator.normal(size=(*shape, n)) + math.sqrt(share) * levels

    target = columns()
    good = rho * target + math.sqrt(1 - rho**2) * columns()
    return np.vstack([good[None], columns(others)]), target


def olkin_siotani(first, second, between):
    """Correlation of two z's that share a variable, in the usual form (Steiger 1980, formula 3)."""
    rest = 1 - first**2 - second**2
    top = between * rest - first * second * (rest - between**2) / 2
    return top / ((1 - first**2) * (1 - second**2))


@pytest.mark.parametrize("case", ORACLE["cases"], ids=str)
def test_the_formula_is_what_samples_show(case):
    found = olkin_siotani(case["first"], case["second"], case["between"])
    # 100,000 samples: standard error 0.003; at 200 points the formula is off by 1 / n
    assert found == pytest.approx(case["correlation"], abs=4 * 0.0032 + 0.005)


def test_the_factors_multiply_to_the_formula():
    generator = np.random.default_rng(0)
    target = generator.normal(size=17)
    metrics = 0.7 * target + generator.normal(size=(6, 17))
    errors = joint_errors(metrics, target, ALONE)
    ranks = np.array([scipy.stats.rankdata(row) for row in metrics])
    ranks -= ranks.mean(axis=1, keepdims=True)
    x = ranks / np.linalg.norm(ranks, axis=1, keepdims=True)
    y = scipy.stats.rankdata(target) - 9
    y /= np.linalg.norm(y)
    # shrunk by a factor of 1 the factors hold the correlations as they are
    factors = simultaneous._factors(x, y[None] + 0 * x, x @ y, np.arctanh(x @ y) / 0.85)
    between, rho = x @ x.T, x @ y
    for j in range(6):
        for k in range(6):
            expected = 1.0 if j == k else olkin_siotani(rho[j], rho[k], between[j, k])
            assert factors[j] @ factors[k] == pytest.approx(expected, abs=1e-9)
    assert np.linalg.norm(errors.factors, axis=1) == pytest.approx(np.ones(6))
    for row, metric in enumerate(metrics):
        assert errors.rho[row] == pytest.approx(scipy.stats.spearmanr(metric, target)[0])


def test_copies_cost_nothing_and_the_order_of_columns_neither():
    metrics, target = study(5, 0.7)
    once = joint_errors(metrics, target, ALONE)
    often = joint_errors(np.repeat(metrics, 3, axis=0), target, ALONE)
    turned = joint_errors(metrics[::-1], target, ALONE)
    assert indistinguishable(turned)[::-1].tolist() == indistinguishable(once).tolist()
    assert np.repeat(indistinguishable(once), 3).tolist() == indistinguishable(often).tolist()


def test_a_constant_metric_is_undefined_and_a_perfect_one_is_not_certain():
    target = np.arange(12.0)
    errors = joint_errors(np.stack([np.ones(12), target, 2 * target]), target, [list(range(12))])
    assert math.isnan(errors.rho[0]) and np.isfinite(errors.rho).sum() == 2
    assert indistinguishable(joint_errors(np.stack([target, 2 * target]), target, ALONE[:0])).all()


def test_many_models_need_no_memory_of_their_square():
    target = np.arange(500.0)
    metrics = np.random.default_rng(0).normal(size=(4, 500)) + target / 100
    assert joint_errors(metrics, target, [range(500)]).factors.shape == (4, 4)


def test_the_truly_best_is_rarely_left_out():
    """No4k's families share half of the variance; benchmarks/inference_simulation.py has more."""
    held = 0
    for seed in range(120):
        metrics, target = study([seed, 9], 0.9, families=FAMILIES, share=0.5)
        held += indistinguishable(joint_errors(metrics, target, [FAMILIES]))[0]
    assert held >= 110


def test_a_metric_ahead_of_a_baseline_is_found_and_a_copy_is_not():
    metrics, target = study(7, 0.97)
    metrics[2] = 3 * metrics[1]
    p, ahead = ahead_of(joint_errors(metrics, target, ALONE), 1, range(17))
    assert p[0] < 0.05 and p[1] == p[2] == 1.0
    assert ahead.tolist() == [True, *[False] * 19]


def test_the_test_of_a_lead_is_that_of_plain_loops():
    """Two metrics, one lead, seven series: Pearson without each, and all 2^7 patterns of signs."""
    metrics, target = study(3, 0.9, others=1, n=9)
    series = [0, 0, 1, 2, 3, 3, 4, 5, 6]
    errors = joint_errors(metrics, target, [list(range(9))])
    ranks = [scipy.stats.rankdata(row) for row in (*metrics, target)]

    def difference(kept):
        first, second, y = (row[kept] for row in ranks)
        return scipy.stats.pearsonr(first, y)[0] - scipy.stats.pearsonr(second, y)[0]

    left_out = np.array([difference(np.array(series) != one) for one in range(7)])
    parts = difference(np.full(9, True)) - left_out
    sums = np.array([np.dot(signs, parts) for signs in product([1, -1], repeat=7)])
    exact = np.mean(sums >= difference(np.full(9, True)) - 1e-9)
    p = ahead_of(errors, 1, series, 20_000, 20_000)[0]
    assert 0.01 < exact < 0.5 and p[0] == pytest.approx(exact, abs=0.012)
    five = [0, 0, 1, 1, 2, 2, 3, 3, 4]
    assert ahead_of(errors, 1, five, 500, 500)[0][0] == 1.0, "too few series"


@pytest.mark.parametrize(
    ("n", "rho", "outlying"), [(8, 0.9, 0), (17, 0.6, 3), (17, 0.9, 0), (17, 0.9, 3)]
)
def test_leads_of_equal_metrics_are_rare(n, rho, outlying):
    """Few models, large correlations, and models that are far out: a normal law fails here."""
    leads = 0
    for seed in range(100):
        generator = np.random.default_rng([seed, 11])
        target = generator.normal(size=n)
        metrics = rho * target + math.sqrt(1 - rho**2) * generator.normal(size=(20, n))
        metrics[:, :outlying] *= 8
        target[:outlying] *= 8
        errors = joint_errors(metrics, target, [list(range(n))])
        leads += ahead_of(errors, 0, range(n), 1000, 1000)[1].any()
    assert leads <= 11  # 5 expected at most; more than 11 once in 200
