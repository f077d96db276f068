"""Likeness of models within groups: formulas against other packages."""

from __future__ import annotations

import math

import numpy as np
import pandas
import pingouin
import pytest
import scipy.stats

from analysis.statistics.families import design_effects, intraclass

FAMILIES = ["q"] * 9 + ["l"] * 5 + ["m"] * 2 + ["y"]
LABELS = np.unique(FAMILIES, return_inverse=True)[1]
SIZES = np.bincount(LABELS)


def study(seed, shared=0.5, rho=0.6):
    """Metric and target of 17 models, whose families share a level in both."""
    generator = np.random.default_rng(seed)
    own, family = generator.normal(size=(2, 17)), generator.normal(size=(2, 4))
    x, rest = math.sqrt(1 - shared) * own + math.sqrt(shared) * family[:, LABELS]
    return x, rho * x + math.sqrt(1 - rho**2) * rest


def unit(values):
    ranks = scipy.stats.rankdata(values)
    ranks -= ranks.mean()
    return ranks / np.linalg.norm(ranks)


def between(values, labels):
    """Sum of squares between groups, of values whose sum of squares is 1."""
    centred = values - values.mean()
    centred /= np.linalg.norm(centred)
    return sum(centred[labels == g].mean() ** 2 * (labels == g).sum() for g in set(labels.tolist()))


@pytest.mark.parametrize("seed", range(20))
def test_intraclass_follows_from_the_f_of_an_analysis_of_variance(seed):
    values = study(seed)[0]
    f = scipy.stats.f_oneway(*(values[label == LABELS] for label in range(4)))[0]
    typical = (17 - (81 + 25 + 4 + 1) / 17) / 3
    found = float(intraclass(np.array(between(values, LABELS)), SIZES))
    assert found == pytest.approx(max((f - 1) / (f - 1 + typical), 0))


def test_intraclass_of_equal_families_is_that_of_pingouin():
    generator = np.random.default_rng(3)
    labels = np.repeat(np.arange(5), 4)
    values = generator.normal(size=20) + generator.normal(size=5)[labels]
    frame = pandas.DataFrame({"family": labels, "rater": np.tile(range(4), 5), "value": values})
    table = pingouin.intraclass_corr(frame, targets="family", raters="rater", ratings="value")
    found = float(intraclass(np.array(between(values, labels)), np.bincount(labels)))
    assert found == pytest.approx(float(table["ICC"].iloc[0]))


@pytest.mark.parametrize("seed", range(12))
def test_the_design_effect_written_out_by_hand(seed):
    u, v = map(unit, study(seed))
    rho = float(u @ v)
    left_v, left_u = v - rho * u, u - rho * v
    product = max(
        math.prod(float(intraclass(np.array(between(c, LABELS)), SIZES)) for c in pair)
        for pair in ((u, v), (u, left_v), (v, left_u))
    )
    expected = 1 + (111 / 17 - 1) * product
    assert design_effects(u[None], v[None], LABELS)[0, 0] == pytest.approx(expected)
    assert design_effects(v[None], u[None], LABELS)[0, 0] == pytest.approx(expected)


@pytest.mark.parametrize("groups", [np.arange(17), np.zeros(17, dtype=int)])
def test_one_group_and_groups_of_one_cost_nothing(groups):
    u, v = map(unit, study(0))
    assert design_effects(u[None], v[None], groups)[0, 0] == 1.0
