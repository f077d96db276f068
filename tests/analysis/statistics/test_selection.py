"""Choosing on a part of the models: no choice ever sees the models it is scored on."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from analysis.statistics.resampling import repeated_splits


def noise(seed, variants=40, models=17):
    generator = np.random.default_rng(seed)
    return generator.normal(size=(variants, models)), generator.normal(size=models)


def test_splits_agree_with_a_plain_loop():
    metrics, target = noise(4, variants=6)
    found = repeated_splits(metrics, target, 9, 20)
    order = np.argsort(np.random.default_rng(9).random((20, 17)), axis=1)
    for split in range(20):
        test, train = order[split, :6], order[split, 6:]
        rho = [scipy.stats.spearmanr(m[train], target[train])[0] for m in metrics]
        best = np.flatnonzero(np.array(rho) > max(rho) - 1e-10)
        assert np.flatnonzero(found.chosen[:, split]).tolist() == best.tolist()
        held = [scipy.stats.spearmanr(metrics[row, test], target[test])[0] for row in best]
        assert found.test[split] == pytest.approx(np.mean(held))
        assert found.train[split] == pytest.approx(max(rho))


def test_noise_earns_nothing_held_out():
    in_sample, held_out = [], []
    for seed in range(60):
        metrics, target = noise(seed)
        found = repeated_splits(metrics, target, seed, 50)
        in_sample.append(found.held_out + found.optimism)
        held_out.append(found.held_out)
    assert np.mean(in_sample) > 0.55 and abs(np.mean(held_out)) < 0.05


def test_of_equal_metrics_none_is_preferred_by_its_place():
    """Two that rank all models alike but two, the same way on most training parts."""
    metrics, target = noise(1, variants=1)
    other = metrics[0].copy()
    first, second = np.argsort(other)[7:9]
    other[[first, second]] = other[[second, first]]
    both = np.stack([metrics[0], other])
    one, turned = repeated_splits(both, target, 0, 200), repeated_splits(both[::-1], target, 0, 200)
    tied = one.chosen.all(axis=0)
    assert 0 < tied.sum() < 200 and (one.chosen == turned.chosen[::-1]).all()
    assert (one.test == turned.test).all() and (one.train == turned.train).all()
    alone = [repeated_splits(row[None], target, 0, 200).test for row in both]
    assert one.test[tied] == pytest.approx(np.mean(alone, axis=0)[tied])


def test_signal_survives_and_optimism_is_small():
    metrics, target = noise(2)
    metrics[7] = target * 3
    found = repeated_splits(metrics, target, 0, 100, baseline=0)
    assert found.chosen[7].all() and found.chosen.sum() == 100
    assert found.held_out == pytest.approx(1.0)
    assert found.optimism == pytest.approx(0.0)
    assert found.baseline_held_out == pytest.approx(found.baseline_test.mean())
    assert found.baseline_held_out < 0.6
    assert found.beats_baseline == np.mean(found.baseline_test < 1 - 1e-9)


def test_against_itself_the_choice_wins_half_of_the_splits():
    metrics, target = noise(2, variants=1)
    assert repeated_splits(metrics, target, 0, 50, baseline=0).beats_baseline == 0.5


def test_a_metric_that_runs_the_other_way_is_not_chosen():
    """Directions are declared: −1 is the worst there is."""
    metrics, target = noise(3)
    metrics[7] = -target
    assert not repeated_splits(metrics, target, 0, 50).chosen[7].any()


def test_a_metric_that_is_constant_on_the_test_models_earns_nothing_there():
    target = np.arange(9.0)
    metric = np.where(np.arange(9) < 1, 1.0, 0.0)[None]
    found = repeated_splits(metric, target, 0, 400)
    in_test = np.mean(found.test != 0)
    assert 0.3 < in_test < 0.6
    assert abs(found.held_out) < 0.5


def test_a_constant_metric_earns_nothing():
    metrics, target = noise(6, variants=1)
    assert repeated_splits(np.ones_like(metrics), target, 0, 5).held_out == 0.0
