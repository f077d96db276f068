"""Resampling of documents and models; noise ceiling; pairs of models."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats

from analysis.statistics.correlations import spearman, spearman_rows
from analysis.statistics.document_noise import (
    DocumentParts,
    count_pairs,
    document_noise,
    noise_ceiling,
    p_from_documents,
    p_from_errors,
    resampled_documents,
    soft_pairwise_accuracy,
    split_half,
)
from analysis.statistics.resampling import draw, percentile_interval, replicate


def parts_of(values, aggregation="micro"):
    values = np.array(values, dtype=float)
    return DocumentParts(np.stack([values, ones := np.ones(values.shape), ones]), aggregation)


def models_resampled(values, target, seed, resamples):
    draws = draw(target.size, resamples, seed)
    return percentile_interval(replicate(spearman_rows, values, target, draws))


def test_each_aggregation_is_the_librarys():
    numerator = np.array([[2.0, 12.0, 3.0], [1.0, 2.0, np.nan]])
    denominator = np.array([[1.0, 3.0, 1.0], [2.0, 1.0, 4.0]])
    weight = np.array([[1.0, 2.0, 1.0], [3.0, 1.0, 1.0]])
    parts = np.stack([numerator, denominator, weight])
    once = np.ones((1, 3))
    for aggregation, expected in (
        ("micro", [17 / 5, 1.0]),
        ("macro", [3.0, 1.25]),
        ("weighted", [13 / 4, 3.5 / 4]),
        ("median", [3.0, 1.25]),
        ("q90", [3.8, 1.85]),
    ):
        found = DocumentParts(parts, aggregation).values(once)
        assert found[0] == pytest.approx(expected), aggregation
        twice = DocumentParts(parts, aggregation).values(2 * once)
        if aggregation != "q90":
            assert twice == pytest.approx(found)
    only_third = DocumentParts(parts).values(np.array([[0.0, 0, 3]]))
    assert only_third[0, 0] == 3 and math.isnan(only_third[0, 1])


def test_quantiles_take_a_document_as_often_as_it_was_drawn():
    values = np.array([[1.0, 5.0, 9.0]])
    found = parts_of(values, "median").values(np.array([[3.0, 0, 0], [0, 1, 2]]))
    assert found[:, 0].tolist() == [1.0, 9.0]


def test_documents_that_disagree_widen_the_interval():
    generator = np.random.default_rng(0)
    target = np.arange(12.0)
    agree = np.repeat(target[:, None], 10, axis=1)
    disagree = agree + generator.normal(scale=25, size=agree.shape)
    quiet, quiet_both = resampled_documents(parts_of(agree), target, 0, 500)
    loud, loud_both = resampled_documents(parts_of(disagree), target, 0, 500)
    assert quiet.low == pytest.approx(1) and quiet.high - quiet.low < 1e-9
    assert quiet_both.low == pytest.approx(1)
    assert split_half(parts_of(agree), 0) == pytest.approx(1)
    assert split_half(parts_of(disagree), 0) < 0.9
    models = models_resampled(disagree.mean(axis=1), target, 0, 500)
    assert loud_both.high - loud_both.low > models.high - models.low
    assert loud.low < spearman(disagree.mean(axis=1), target) - 0.1


def test_without_documents_to_choose_from_both_is_models_alone():
    generator = np.random.default_rng(1)
    target = generator.normal(size=10)
    one = parts_of((target + generator.normal(size=10))[:, None])
    _, both = resampled_documents(one, target, 3, 400)
    assert both == models_resampled(one.parts[0, :, 0], target, 3, 400)
    assert math.isnan(split_half(one, 3))


def test_split_half_is_spearman_brown_of_the_halves():
    """Two equal halves whatever the split: reliability is that of many documents."""
    generator = np.random.default_rng(2)
    truth = generator.normal(size=200)
    noise = generator.normal(size=(200, 20))
    found = split_half(parts_of(truth[:, None] + noise), 0)
    # reliability of a mean of 20: var / (var + 1 / 20)
    assert found == pytest.approx(truth.var() / (truth.var() + 1 / 20), abs=0.02)


def test_the_ceiling_is_the_root_of_the_reliability():
    generator = np.random.default_rng(3)
    truth = generator.normal(size=4000)
    scores = truth + 0.5 * generator.normal(size=4000)
    expected = scipy.stats.pearsonr(truth, scores)[0]
    assert noise_ceiling(scores, np.full(4000, 0.5)) == pytest.approx(expected, abs=0.02)
    assert noise_ceiling(np.arange(3.0), np.full(3, 9.0)) == 0
    assert math.isnan(noise_ceiling(np.arange(3.0), np.array([1.0, np.nan, 1])))


def test_p_from_errors_is_the_normal_test():
    p = p_from_errors(np.array([1.0, 0.0, 0.0]), np.array([0.3, 0.4, 0.0]))
    assert p[0, 1] == pytest.approx(scipy.stats.norm.sf(1 / 0.5))
    assert p[1, 2] == 0.5
    assert p + p.T == pytest.approx(np.ones((3, 3)))
    assert p_from_errors(np.array([1.0, 0.0]), np.zeros(2))[0, 1] == 0


def test_p_from_documents_is_the_exact_swap_test():
    """Six documents have 64 sign patterns; mid-p by going through them."""
    generator = np.random.default_rng(4)
    values = generator.normal(size=(2, 6))
    difference = values[0] - values[1]
    sums = np.array([np.dot(s, difference) for s in itertools.product((1, -1), repeat=6)])
    expected = (sums > difference.sum() + 1e-9).mean()
    expected += 0.5 * (np.abs(sums - difference.sum()) <= 1e-9).mean()
    p = p_from_documents(parts_of(values), 0, swaps=20_000)
    assert p[0, 1] == pytest.approx(expected, abs=0.02)
    assert p[0, 1] + p[1, 0] == pytest.approx(1)
    same = p_from_documents(parts_of([[1.0, 2.0], [1.0, 2.0]]), 0)
    assert same[0, 1] == pytest.approx(0.5)


def test_models_without_a_common_document_have_no_p():
    p = p_from_documents(parts_of([[1.0, np.nan], [np.nan, 2.0]]), 0)
    assert math.isnan(p[0, 1]) and math.isnan(soft_pairwise_accuracy(np.full((2, 2), 0.5), p))


def test_soft_accuracy_counts_what_both_are_sure_of():
    sure = np.array([[0.5, 0.0], [1.0, 0.5]])
    tossup = np.full((2, 2), 0.5)
    assert soft_pairwise_accuracy(sure, sure) == 1
    assert soft_pairwise_accuracy(sure, sure.T) == 0
    assert soft_pairwise_accuracy(tossup, sure) == soft_pairwise_accuracy(sure, tossup) == 0.5


def test_pairs_are_separated_near_ties_or_ties():
    scores = np.array([0.0, 0.0, 1.0, 1.1])
    p = p_from_errors(scores, np.full(4, 0.2))
    found = count_pairs(scores, p, np.array([1.0, 2.0, 3.0, 0.0]))
    assert (found.told_apart, found.tossups, found.ties) == (4, 1, 1)
    assert found.accuracy == 0.5


@pytest.mark.parametrize(
    ("documents", "series", "by_documents", "by_both"),
    [(2, 9, False, False), (7, 9, False, False), (8, 9, True, True), (8, 7, True, False)],
)
def test_few_documents_or_series_have_no_interval(documents, series, by_documents, by_both):
    generator = np.random.default_rng(0)
    values = generator.normal(size=(9, documents))
    names = [str(model % series) for model in range(9)]
    target, errors = np.arange(9.0), np.full(9, np.nan)
    found = document_noise(parts_of(values), values.mean(axis=1), target, errors, names, 0)
    assert found is not None
    assert math.isnan(found.new_documents.low) != by_documents
    assert math.isnan(found.new_documents_and_models.low) != by_both
