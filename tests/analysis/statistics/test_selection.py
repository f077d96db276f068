"""Nested selection: no choice ever sees the models it is scored on."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from analysis.statistics.correlations import spearman
from analysis.statistics.selection import (
    choose,
    group_folds,
    leave_out,
    model_folds,
    null_held_out,
    repeated_splits,
)


def noise(seed, variants=40, models=17):
    generator = np.random.default_rng(seed)
    return generator.normal(size=(variants, models)), generator.normal(size=models)


def test_the_rule_takes_the_largest_absolute_rho():
    metrics, target = noise(0)
    choice = choose(metrics, target)
    all_rho = [scipy.stats.spearmanr(metric, target)[0] for metric in metrics]
    assert choice.variant == int(np.argmax(np.abs(all_rho)))
    assert choice.rho == pytest.approx(all_rho[choice.variant])


def test_one_variant_left_out_model_by_model_is_its_plain_spearman():
    metrics, target = noise(1, variants=1)
    metrics[0] += target
    found = leave_out(metrics, target, model_folds(17))
    assert found.held_out == pytest.approx(scipy.stats.spearmanr(metrics[0], target)[0])
    assert found.covered == 17


@pytest.mark.parametrize("grouped", [False, True])
def test_each_permutation_is_left_out_as_the_data_are(grouped):
    """Also where variants do equally well, or tell nothing: the first among equals is chosen."""
    generator = np.random.default_rng(4)
    metrics = generator.integers(0, 3, size=(60, 12)).astype(float)
    target = generator.integers(0, 4, size=12).astype(float)
    order = np.stack([generator.permutation(12) for _ in range(200)])
    folds = group_folds(list("aaabbbcccddd")) if grouped else model_folds(12)
    found = null_held_out(metrics, target, folds, order)
    expected = [leave_out(metrics, target[row], folds).held_out for row in order]
    assert found == pytest.approx(np.array(expected), abs=1e-12, nan_ok=True)


def test_splits_choose_the_first_among_equals_and_no_effect_counts_as_positive():
    generator = np.random.default_rng(6)
    metrics = generator.integers(0, 3, size=(60, 12)).astype(float)
    target = generator.permutation(12).astype(float)
    found = repeated_splits(metrics, target, 9, 100)
    order = np.argsort(np.random.default_rng(9).random((100, 12)), axis=1)
    signed = np.empty((60, 100))
    for split in range(100):
        test, train = order[split, :4], order[split, 4:]
        assert found.chosen[split] == choose(metrics[:, train], target[train]).variant
        for variant, metric in enumerate(metrics):
            sign = -1 if spearman(metric[train], target[train]) < 0 else 1
            signed[variant, split] = sign * spearman(metric[test], target[test])
    assert found.variant_test == pytest.approx(np.nan_to_num(signed).mean(axis=1))


def test_held_out_is_near_zero_for_noise_although_in_sample_is_high():
    in_sample, held_out, split_test = [], [], []
    for seed in range(60):
        metrics, target = noise(seed)
        in_sample.append(abs(choose(metrics, target).rho))
        held_out.append(leave_out(metrics, target, model_folds(17)).held_out)
        split_test.append(repeated_splits(metrics, target, seed, 50).held_out)
    assert np.mean(in_sample) > 0.55
    assert abs(np.mean(split_test)) < 0.05
    assert -0.35 < np.mean(held_out) < 0.1


def test_signal_survives_and_optimism_is_small():
    metrics, target = noise(2)
    metrics[7] = target * 3
    found = repeated_splits(metrics, target, 0, 100, baseline=0)
    assert (found.chosen == 7).all()
    assert found.held_out == pytest.approx(1.0)
    assert found.optimism == pytest.approx(0.0)
    assert found.baseline_test is not None
    assert found.baseline_held_out == pytest.approx(found.baseline_test.mean())
    assert found.baseline_held_out < 0.6
    assert found.beats_baseline == np.mean(found.baseline_test < 1 - 1e-9)


def test_against_itself_the_choice_wins_half_of_the_splits():
    metrics, target = noise(2, variants=1)
    assert repeated_splits(metrics, target, 0, 50, baseline=0).beats_baseline == 0.5


def test_a_negative_metric_keeps_its_training_sign():
    metrics, target = noise(3)
    metrics[7] = -target
    assert repeated_splits(metrics, target, 0, 50).held_out == pytest.approx(1.0)
    assert leave_out(metrics, target, model_folds(17)).held_out == pytest.approx(1.0)


def test_splits_agree_with_a_plain_loop():
    metrics, target = noise(4, variants=6)
    found = repeated_splits(metrics, target, 9, 20)
    order = np.argsort(np.random.default_rng(9).random((20, 17)), axis=1)
    for split in range(20):
        test, train = order[split, :6], order[split, 6:]
        rho = [scipy.stats.spearmanr(m[train], target[train])[0] for m in metrics]
        best = int(np.argmax(np.abs(rho)))
        assert found.chosen[split] == best
        held = np.sign(rho[best]) * scipy.stats.spearmanr(metrics[best, test], target[test])[0]
        assert found.test[split] == pytest.approx(held)
        assert found.train[split] == pytest.approx(abs(rho[best]))


def test_a_metric_that_is_constant_on_the_test_models_earns_nothing_there():
    target = np.arange(9.0)
    metric = np.where(np.arange(9) < 1, 1.0, 0.0)[None]
    found = repeated_splits(metric, target, 0, 400)
    in_test = np.mean(found.test != 0)
    assert 0.3 < in_test < 0.6
    assert abs(found.held_out) < 0.5


def test_families_leave_together_and_small_training_parts_are_skipped():
    families = ["q"] * 12 + ["g"] * 3
    folds = group_folds(families)
    assert [int(fold.sum()) for fold in folds] == [3, 12]
    metrics, target = noise(5, models=15)
    found = leave_out(metrics, target, folds)
    assert len(found.choices) == 1 and found.covered == 3


def test_constant_variants_are_never_chosen():
    metrics, target = noise(6, variants=3)
    metrics[0] = 1.0
    assert choose(metrics, target).variant != 0
    assert (repeated_splits(metrics, target, 0, 30).chosen != 0).all()
    assert repeated_splits(metrics[:1], target, 0, 5).held_out == 0.0
