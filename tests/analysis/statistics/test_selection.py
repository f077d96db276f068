"""Choosing on a part of the families: no choice ever sees the models it is scored on."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from analysis.statistics.resampling import _training_parts, choice_procedure

ALONE = [list(range(17))]
FAMILIES = ["q"] * 9 + ["l"] * 5 + ["m"] * 2 + ["y"]


def noise(seed, variants=40, families=None, share=0.0):
    generator = np.random.default_rng(seed)
    places = np.unique(families or list(range(17)), return_inverse=True)[1]
    levels = generator.normal(size=(variants + 1, 17))[:, places]
    own = generator.normal(size=(variants + 1, 17))
    columns = math.sqrt(1 - share) * own + math.sqrt(share) * levels
    return columns[:-1], columns[-1]


def test_splits_agree_with_a_plain_loop():
    metrics, target = noise(4, variants=6)
    found = choice_procedure(metrics, target, ALONE, 9, 20)
    inside, outside = [], []
    for train in _training_parts(17, ALONE, 9, 20):
        rho = [scipy.stats.spearmanr(m[train], target[train])[0] for m in metrics]
        best = np.flatnonzero(np.array(rho) > max(rho) - 1e-10)
        held = [scipy.stats.spearmanr(metrics[row, ~train], target[~train])[0] for row in best]
        inside.append(max(rho))
        outside.append(np.mean(held))
    assert found.in_sample == pytest.approx(np.mean(inside))
    assert found.held_out == pytest.approx(np.mean(outside)) and found.splits == 20


def test_families_stay_on_one_side():
    for train in _training_parts(17, [FAMILIES], 0, 50):
        assert 4 <= (~train).sum() <= 12
        for family in set(FAMILIES):
            assert len(set(train[np.array(FAMILIES) == family])) == 1


def test_labels_that_share_a_model_are_joined():
    families, developers = list("aabbcdefg"), list("xyyzzuvwt")  # a, b and c are one group
    for train in _training_parts(9, [families, developers], 0, 50):
        assert len(set(train[:5])) == 1


@pytest.mark.parametrize("share", [0.0, 0.5, 0.8])
def test_noise_earns_nothing_held_out_whatever_families_share(share):
    in_sample, held_out = [], []
    for seed in range(60):
        metrics, target = noise(seed, families=FAMILIES, share=share)
        found = choice_procedure(metrics, target, [FAMILIES], seed, 50)
        in_sample.append(found.in_sample)
        held_out.append(found.held_out)
    error = np.std(held_out) / math.sqrt(60)
    assert np.mean(in_sample) > 0.55 and abs(np.mean(held_out)) < 3 * error


def test_of_equal_metrics_none_is_preferred_by_its_place():
    metrics, target = noise(1, variants=1)
    other = metrics[0].copy()
    first, second = np.argsort(other)[7:9]
    other[[first, second]] = other[[second, first]]
    both = np.stack([metrics[0], other])
    one = choice_procedure(both, target, ALONE, 0, 200)
    turned = choice_procedure(both[::-1], target, ALONE, 0, 200)
    assert one.held_out == pytest.approx(turned.held_out, abs=1e-12)


def test_signal_survives_and_a_metric_that_runs_the_other_way_is_not_chosen():
    metrics, target = noise(2)
    metrics[7], metrics[8] = target * 3, -target
    found = choice_procedure(metrics, target, ALONE, 0, 100, baseline=8)
    assert found.held_out == pytest.approx(1.0) == found.in_sample
    assert found.baseline == pytest.approx(-1.0)


def test_a_constant_metric_earns_nothing():
    metrics, target = noise(6, variants=1)
    assert choice_procedure(np.ones_like(metrics), target, ALONE, 0, 5).held_out == 0.0


@pytest.mark.parametrize("families", [["a"] * 17, ["a"] * 15 + ["b"] * 2])
def test_families_that_cannot_be_held_out_give_no_estimate(families):
    metrics, target = noise(6)
    found = choice_procedure(metrics, target, [families], 0, 50)
    assert found.splits == 0 and math.isnan(found.held_out)
    assert found.record["held_out_mean"] is None
