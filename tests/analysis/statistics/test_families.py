"""Intervals with families: formulas against other packages, level by simulation."""

from __future__ import annotations

import math

import numpy as np
import pandas
import pingouin
import pytest
import scipy.stats

from analysis.statistics.families import (
    design_effects,
    family_interval,
    intraclass,
    within_families,
)

FAMILIES = ["q"] * 9 + ["l"] * 5 + ["m"] * 2 + ["y"]
LABELS = np.unique(FAMILIES, return_inverse=True)[1]


def study(seed, shared=0.5, rho=0.6):
    """Metric and target of 17 models, whose families share a level in both."""
    generator = np.random.default_rng(seed)
    own, family = generator.normal(size=(2, 17)), generator.normal(size=(2, 4))
    x, rest = math.sqrt(1 - shared) * own + math.sqrt(shared) * family[:, LABELS]
    return x, rho * x + math.sqrt(1 - rho**2) * rest


@pytest.mark.parametrize("seed", range(20))
def test_intraclass_follows_from_the_f_of_an_analysis_of_variance(seed):
    values = study(seed)[0]
    f = scipy.stats.f_oneway(*(values[label == LABELS] for label in range(4)))[0]
    typical = (17 - (81 + 25 + 4 + 1) / 17) / 3
    assert intraclass(values[None], LABELS)[0] == pytest.approx(max((f - 1) / (f - 1 + typical), 0))


def test_intraclass_of_equal_families_is_that_of_pingouin():
    generator = np.random.default_rng(3)
    labels = np.repeat(np.arange(5), 4)
    values = generator.normal(size=20) + generator.normal(size=5)[labels]
    frame = pandas.DataFrame({"family": labels, "rater": np.tile(range(4), 5), "value": values})
    table = pingouin.intraclass_corr(frame, targets="family", raters="rater", ratings="value")
    assert intraclass(values[None], labels)[0] == pytest.approx(float(table["ICC"].iloc[0]))


@pytest.mark.parametrize("seed", range(12))
def test_the_interval_written_out_by_hand(seed):
    x, y = study(seed)
    u, v = (scipy.stats.rankdata(c) - 9 for c in (x, y))
    rho = scipy.stats.spearmanr(x, y)[0]
    left_v, left_u = v - rho * u, u - rho * v
    both = [(u, v), (u, left_v), (v, left_u)]
    product = max(np.prod(intraclass(np.stack(pair), LABELS)) for pair in both)
    effect = 1 + (111 / 17 - 1) * product
    assert design_effects(u[None], v, LABELS)[0] == pytest.approx(effect)
    reach = 1.959964 * math.sqrt(effect * (1 + rho**2 / 2) / 14)
    found = family_interval(x, y, FAMILIES)
    assert found.low == pytest.approx(math.tanh(math.atanh(rho) - reach), abs=1e-6)
    assert found.high == pytest.approx(math.tanh(math.atanh(rho) + reach), abs=1e-6)


def test_without_shared_levels_it_is_the_plain_interval():
    x, y = study(2)
    alone = family_interval(x, y, [f"m{i}" for i in range(17)])
    rho = scipy.stats.spearmanr(x, y)[0]
    reach = 1.959964 * math.sqrt((1 + rho**2 / 2) / 14)
    assert alone.low == pytest.approx(math.tanh(math.atanh(rho) - reach), abs=1e-6)


def test_which_column_comes_first_does_not_matter():
    x, y = study(4)
    assert family_interval(x, y, FAMILIES) == family_interval(y, x, FAMILIES)


def test_within_families_is_a_partial_correlation_given_the_family():
    x, y = study(5)
    columns = {f"is{label}": (label == LABELS) * 1.0 for label in range(1, 4)}
    ranks = {"x": scipy.stats.rankdata(x), "y": scipy.stats.rankdata(y)}
    table = pingouin.partial_corr(pandas.DataFrame(ranks | columns), "x", "y", list(columns))
    found = within_families(x, y, FAMILIES)
    assert found.value == pytest.approx(float(table["r"].iloc[0]))
    reach = 1.959964 * math.sqrt((1 + found.value**2 / 2) / (17 - 3 - 3))
    assert found.interval.high == pytest.approx(math.tanh(math.atanh(found.value) + reach))


def test_what_cannot_be_said_is_not_said():
    x, y = study(6)
    assert math.isnan(family_interval(x, y, ["one"] * 17).low)
    assert math.isnan(family_interval(np.ones(17), y, FAMILIES).low)
    assert math.isnan(family_interval(x[:4], y[:4], FAMILIES[7:11]).low)
    alone = within_families(x, y, [f"m{i}" for i in range(17)])
    assert math.isnan(alone.value) and math.isnan(alone.interval.low)


def test_a_metric_that_no_model_has_is_no_error():
    nothing = np.zeros(0)
    assert np.isnan(family_interval(nothing, nothing, []).low)
    found = within_families(nothing, nothing, [])
    assert np.isnan([found.value, found.interval.low, found.interval.high]).all()


def test_a_perfect_correlation_still_has_an_interval():
    x = np.arange(17.0)
    found = family_interval(x, x, FAMILIES)
    assert 0.9 < found.low < 0.999 < found.high <= 1


@pytest.mark.parametrize(("shared", "rho"), [(0.0, 0.6), (0.5, 0.0), (0.5, 0.85), (0.75, 0.6)])
def test_coverage_is_near_nominal(shared, rho):
    truth = 6 / math.pi * math.asin(rho / 2)
    hits = {"all": 0, "within": 0}
    for seed in range(1000):
        x, y = study([seed, 9], shared, rho)
        for name, found in (
            ("all", family_interval(x, y, FAMILIES)),
            ("within", within_families(x, y, FAMILIES).interval),
        ):
            hits[name] += found.low <= truth <= found.high
    assert 930 <= hits["all"] <= 997 and 930 <= hits["within"] <= 995, hits
