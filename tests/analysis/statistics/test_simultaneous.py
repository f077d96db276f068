"""Simultaneous inference: its formulas against others' code, its claims against known truths."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from analysis.statistics import simultaneous
from analysis.statistics.families import within_families
from analysis.statistics.simultaneous import (
    indistinguishable,
    joint_errors,
    joint_errors_within,
    p_above,
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


def test_the_critical_value_is_the_quantile_of_the_largest_normal():
    metrics, target = study(1, 0.0, others=4)
    metrics[1] = metrics[0] + 0.3 * metrics[2]
    errors = joint_errors(metrics, target, ALONE)
    law = scipy.stats.multivariate_normal(cov=errors.factors @ errors.factors.T)
    # 10,000 draws: the share below has a standard error of 0.0016
    assert law.cdf([errors.critical] * 5) == pytest.approx(0.975, abs=4 * 0.0016)
    one = joint_errors(metrics[:1], target, ALONE)
    assert one.critical == pytest.approx(scipy.stats.norm.ppf(0.975), abs=0.1)


def test_standard_errors_are_those_of_bonett_and_wright():
    metrics, target = study(2, 0.9)
    errors = joint_errors(metrics, target, ALONE)
    rho = scipy.stats.spearmanr(metrics[0], target)[0]
    assert errors.error[0] == pytest.approx(math.sqrt((1 + rho**2 / 2) / 14))
    assert errors.single_p[0] == pytest.approx(
        2 * scipy.stats.norm.sf(math.atanh(rho) / errors.error[0])
    )


@pytest.mark.parametrize("seed", range(6))
def test_p_is_below_5_percent_exactly_where_the_interval_excludes_0(seed):
    metrics, target = study(seed, 0.8, families=FAMILIES, share=0.3)
    for errors in (
        joint_errors(metrics, target, [FAMILIES]),
        joint_errors_within(metrics, target, FAMILIES, list(range(17))),
    ):
        for row in range(20):
            assert (errors.interval(row).low > 0) == (errors.p[row] < 0.05)


def test_within_families_is_the_partial_correlation_of_ranks():
    metrics, target = study(3, 0.7, families=FAMILIES, share=0.5)
    errors = joint_errors_within(metrics, target, FAMILIES, list(range(17)))
    for row, metric in enumerate(metrics):
        assert errors.rho[row] == pytest.approx(within_families(metric, target, FAMILIES).value)
    # 17 models less 3 family means
    assert errors.error[0] == pytest.approx(
        math.sqrt((1 + errors.rho[0] ** 2 / 2) / (17 - 3 - 3)), rel=1e-9
    )


def test_a_level_that_families_share_is_no_evidence_and_a_family_each_has_none_within():
    level = np.repeat([0.0, 10.0], [12, 5])
    generator = np.random.default_rng(4)
    target = level + generator.normal(size=17)
    metrics = np.vstack([level + generator.normal(size=17), generator.normal(size=(9, 17))])
    families = ["a"] * 12 + ["b"] * 5
    overall = joint_errors(metrics, target, [families])
    assert overall.rho[0] > 0.6 and overall.design_effect == 1
    assert overall.error[0] > 1.9 * overall.error[1]
    within = joint_errors_within(metrics, target, families, list(range(17)))
    assert overall.p[0] > 0.05 and within.p[0] > 0.05
    alone = joint_errors_within(metrics, target, list(range(17)), list(range(17)))
    assert not alone.tested.any() and math.isnan(alone.critical)
    assert np.isnan(alone.p).all()


def test_copies_cost_nothing_and_the_order_of_columns_neither():
    metrics, target = study(5, 0.7)
    once = joint_errors(metrics, target, ALONE)
    often = joint_errors(np.repeat(metrics, 3, axis=0), target, ALONE)
    turned = joint_errors(metrics[::-1], target, ALONE)
    assert once.critical == pytest.approx(often.critical, abs=1e-12)
    assert once.critical == pytest.approx(turned.critical, abs=1e-12)
    assert turned.p[::-1].tolist() == once.p.tolist()
    assert indistinguishable(turned)[::-1].tolist() == indistinguishable(once).tolist()
    assert np.repeat(indistinguishable(once), 3).tolist() == indistinguishable(often).tolist()


def test_metrics_with_few_models_do_not_count_and_others_count_by_their_own_error():
    metrics, target = study(6, 0.9, others=60)
    alone = joint_errors(metrics[:1], target, ALONE).p[0]
    for models, tested in ((8, 1), (9, 61)):
        few = metrics.copy()
        few[1:, models:] = np.nan
        errors = joint_errors(few, target, ALONE)
        assert errors.tested.sum() == tested
        p = errors.p
        assert (p[0] == alone) == (tested == 1) and p[0] >= alone
        if tested > 1:
            expected = scipy.stats.spearmanr(few[5, :9], target[:9])[0]
            assert errors.rho[5] == pytest.approx(expected)
            assert errors.error[5] > errors.error[0] * 1.3


def test_a_constant_metric_is_undefined_and_a_perfect_one_is_not_certain():
    target = np.arange(12.0)
    errors = joint_errors(np.stack([np.ones(12), target, 2 * target]), target, [list(range(12))])
    assert math.isnan(errors.rho[0]) and errors.tested.sum() == 2
    found = errors.interval(1)
    assert 0.9 < found.low < found.high < 1
    assert indistinguishable(joint_errors(np.stack([target, 2 * target]), target, ALONE[:0])).all()


def test_false_claims_stay_below_5_percent_and_good_metrics_are_found():
    """No4k's families share half of the variance; benchmarks/statistics_selection.py has more."""
    false = found = held = 0
    for seed in range(120):
        for rho in (0.0, 0.9):
            metrics, target = study([seed, 9], rho, families=FAMILIES, share=0.5)
            overall = joint_errors(metrics, target, [FAMILIES])
            within = joint_errors_within(metrics, target, FAMILIES, list(range(17)))
            claims = (overall.p < 0.05) | (within.p < 0.05)
            false += rho == 0 and claims.any()
            found += rho > 0 and claims[0]
            held += rho > 0 and indistinguishable(overall)[0]
    assert false <= 12  # 6 expected at most; more than 12 once in 150
    assert found >= 84 and held >= 110


def test_a_metric_ahead_of_a_baseline_is_found_and_a_copy_is_not():
    metrics, target = study(7, 0.97)
    metrics[2] = 3 * metrics[1]
    errors = joint_errors(metrics, target, ALONE)
    p = p_above(errors, 1)
    assert p[0] < 0.05 and p[1] == p[2] == 1.0
    # two metrics only: the one-sided normal p of the difference
    two = joint_errors(metrics[:2], target, ALONE)
    gap = two.z[0] - two.z[1]
    scaled = two.factors * two.error[:, None]
    error = np.linalg.norm(scaled[0] - scaled[1])
    expected = scipy.stats.norm.sf(gap / error)
    assert p_above(two, 1)[0] == pytest.approx(expected, abs=0.004)


def test_the_smallest_rho_that_may_be_claimed_is_where_the_interval_touches_0():
    metrics, target = study(8, 0.8)
    errors = joint_errors(metrics, target, ALONE)
    rho = errors.least_rho
    error = math.sqrt((1 + rho**2 / 2) / 14)
    assert math.atanh(rho) - errors.critical * error == pytest.approx(0, abs=1e-6)
    nothing = joint_errors_within(metrics, target, list(range(17)), list(range(17)))
    assert not nothing.tested.any() and math.isnan(nothing.least_rho)
