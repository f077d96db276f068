"""The estimate for a new family: shares of variance, weights, and what the interval covers."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from analysis.statistics.correlations import spearman
from analysis.statistics.families import new_family, pooled_weights, variance_shares

FAMILIES = np.repeat(np.arange(6), 6)
KINDS = np.repeat(np.arange(18), 2)
UNEVEN = ["qwen"] * 9 + ["llama"] * 5 + ["mistral"] * 2 + ["yi"]
OWN = [str(model) for model in range(17)]


def nested(generator: np.random.Generator) -> np.ndarray:
    own = generator.normal(size=36)
    return 2.0 * generator.normal(size=6)[FAMILIES] + 1.5 * generator.normal(size=18)[KINDS] + own


@pytest.mark.slow
def test_shares_are_those_of_a_mixed_model_where_groups_are_balanced():
    import pandas as pd
    from statsmodels.regression.mixed_linear_model import MixedLM

    values = nested(np.random.default_rng(4))
    frame = pd.DataFrame({"value": values, "family": FAMILIES, "kind": KINDS})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = MixedLM.from_formula(
            "value ~ 1", frame, groups="family", re_formula="1", vc_formula={"kind": "0 + C(kind)"}
        ).fit(reml=True)
    parts = np.array([fitted.cov_re.iloc[0, 0], fitted.vcomp[0], fitted.scale])
    assert variance_shares(values, FAMILIES, KINDS) == pytest.approx(
        tuple(parts[:2] / parts.sum()), rel=2e-3
    )


def test_shares_are_those_drawn_from_where_groups_are_uneven():
    """Groups of the locked problem's sizes, a hundred times over: the shares are known."""
    family = np.array([0] * 9 + [1] * 5 + [2] * 2 + [3])
    kind = np.array([0, 0, 0, 1, 1, 2, 3, 3, 4, 5, 5, 5, 6, 7, 8, 9, 10])
    families = np.concatenate([family + 4 * i for i in range(100)])
    kinds = np.concatenate([kind + 11 * i for i in range(100)])
    generator = np.random.default_rng(0)
    values = 3 * generator.normal(size=400)[families] + 2 * generator.normal(size=1100)[kinds]
    values += generator.normal(size=1700)
    assert variance_shares(values, families, kinds) == pytest.approx((9 / 14, 4 / 14), abs=0.05)


def test_weights_minimise_the_variance_of_the_mean():
    metric, target = (0.4, 0.3), (0.5, 0.2)
    families, kinds = np.array([0, 0, 0, 0, 1, 1, 2]), np.array([0, 0, 1, 2, 3, 3, 4])
    weights, worth = pooled_weights(metric, target, families, kinds)
    alike = np.eye(7)
    for i in range(7):
        for j in range(7):
            if i != j and kinds[i] == kinds[j]:
                alike[i, j] = 0.7 * 0.7
            elif i != j and families[i] == families[j]:
                alike[i, j] = 0.4 * 0.5
    assert weights.sum() == pytest.approx(1.0)
    assert 1 / (weights @ alike @ weights) == pytest.approx(worth)
    generator = np.random.default_rng(1)
    for _ in range(50):
        other = weights + (step := generator.normal(size=7) * 0.05) - step.mean()
        assert other @ alike @ other >= weights @ alike @ weights


@pytest.mark.parametrize(("share", "worth"), [(0.0, 12.0), (1.0, 3.0), (0.5, 12 / (1 + 3 * 0.25))])
def test_worth_goes_from_models_to_families(share, worth):
    """Balanced groups: n / (1 + (size − 1) × product of the intraclass correlations), Kish."""
    families, kinds = np.repeat(np.arange(3), 4), np.arange(12)
    found = pooled_weights((share, 0.0), (share, 0.0), families, kinds)
    assert found[1] == pytest.approx(worth, rel=1e-6)
    assert found[0] == pytest.approx(np.full(12, 1 / 12))


def test_without_near_copies_it_is_plain_spearman():
    x, y = np.random.default_rng(2).normal(size=(2, 17))
    found = new_family(x, y, OWN, OWN)
    assert found.value == pytest.approx(spearman(x, y))
    assert found.worth == pytest.approx(17.0)


@pytest.mark.parametrize("kinds", [["one"] * 16, range(16)], ids=["of one kind", "of several"])
def test_copies_of_one_model_count_as_one(kinds):
    """Eight exact copies of one model: the answer is that without seven of them."""
    x, y = np.random.default_rng(3).normal(size=(2, 9))
    many = [0] * 8 + list(range(1, 9))
    families = [str(model) for model in many]
    found = new_family(x[many], y[many], families, kinds)
    assert found.value == pytest.approx(spearman(x, y), abs=1e-6)
    assert found.worth == pytest.approx(9.0, abs=1e-4)


def test_too_few_families_get_no_interval():
    x, y = np.random.default_rng(5).normal(size=(2, 12))
    one = new_family(x, y, ["a"] * 12, OWN[:12])
    two = new_family(x, y, ["a"] * 6 + ["b"] * 6, OWN[:12])
    assert math.isnan(one.value) and one.families == 1
    assert not math.isnan(two.value) and math.isnan(two.interval.low)


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_the_interval_covers_models_of_other_families(share):
    """Families of 9, 5, 2 and 1 share much of the variance; the truth is that of lone models."""
    labels = np.unique(UNEVEN, return_inverse=True)[1]
    truth = 6 / math.pi * math.asin(0.6 / 2)
    generator = np.random.default_rng(6)
    covered = 0
    for _ in range(200):
        own, of_family = generator.normal(size=(2, 17)), generator.normal(size=(2, 4))
        own[1], of_family[1] = (0.6 * both[0] + 0.8 * both[1] for both in (own, of_family))
        x, y = math.sqrt(1 - share) * own + math.sqrt(share) * of_family[:, labels]
        found = new_family(x, y, UNEVEN, OWN)
        covered += found.interval.low <= truth <= found.interval.high
    assert covered >= 0.93 * 200


@pytest.mark.parametrize("sign", [1, -1])
def test_equal_orders_leave_no_residuals_whose_rounding_could_decide(sign):
    generator = np.random.default_rng(2)
    for _ in range(50):
        x = nested(generator)
        found = new_family(x, sign * np.exp(x), FAMILIES, KINDS)
        # all that is left to be alike: metric and target themselves, the same on every machine
        pooled = 1.0 / (6 * np.bincount(FAMILIES)[FAMILIES])
        below = np.sign(x[:, None] - x) @ pooled
        shares = variance_shares(below, FAMILIES, KINDS)
        assert found.value == pytest.approx(sign)
        assert found.worth == pytest.approx(pooled_weights(shares, shares, FAMILIES, KINDS)[1])
