"""Resampling of documents and models; noise ceiling; pairs of models."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats

from analysis.statistics.document_noise import (
    DocumentParts,
    count_pairs,
    noise_ceiling,
    p_from_documents,
    p_from_errors,
    soft_pairwise_accuracy,
    split_half,
    two_sources,
)


def parts_of(values, aggregation="micro", weight=None):
    values = np.array(values, dtype=float)
    return DocumentParts(values, np.ones(values.shape), aggregation, weight)


def test_each_aggregation_is_the_librarys():
    numerator = np.array([[2.0, 12.0, 3.0], [1.0, 2.0, np.nan]])
    denominator = np.array([[1.0, 3.0, 1.0], [2.0, 1.0, 4.0]])
    weight = np.array([[1.0, 2.0, 1.0], [3.0, 1.0, 1.0]])
    once = np.ones((1, 3))
    for aggregation, expected in (
        ("micro", [17 / 5, 1.0]),
        ("macro", [3.0, 1.25]),
        ("weighted", [13 / 4, 3.5 / 4]),
        ("median", [3.0, 1.25]),
        ("q90", [3.8, 1.85]),
    ):
        found = DocumentParts(numerator, denominator, aggregation, weight).values(once)
        assert found[0] == pytest.approx(expected), aggregation
        twice = DocumentParts(numerator, denominator, aggregation, weight).values(2 * once)
        if aggregation != "q90":
            assert twice == pytest.approx(found)
    only_third = DocumentParts(numerator, denominator).values(np.array([[0.0, 0, 3]]))
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
    quiet = two_sources(parts_of(agree), target, 0, 500)
    loud = two_sources(parts_of(disagree), target, 0, 500)
    assert quiet.documents.low == pytest.approx(1) and quiet.document_error < 1e-9
    assert quiet.reliability == pytest.approx(1)
    assert loud.document_error > 0.1 and loud.reliability < 0.9
    assert loud.both.high - loud.both.low > loud.models.high - loud.models.low
    assert loud.documents.low < loud.value


def test_without_documents_to_choose_from_both_is_models_alone():
    generator = np.random.default_rng(1)
    target = generator.normal(size=10)
    one = parts_of((target + generator.normal(size=10))[:, None])
    found = two_sources(one, target, 3, 400)
    assert found.both == found.models and math.isnan(found.reliability)


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
