"""Resampling of documents; noise ceiling."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from analysis.statistics.correlations import spearman
from analysis.statistics.resampling import (
    DocumentParts,
    document_noise,
    noise_ceiling,
    split_half,
)


def parts_of(values, aggregation="micro"):
    values = np.array(values, dtype=float)
    return DocumentParts(np.stack([values, ones := np.ones(values.shape), ones]), aggregation)


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
    ):
        found = DocumentParts(parts, aggregation).values(once)
        assert found[0] == pytest.approx(expected), aggregation
        assert DocumentParts(parts, aggregation).values(2 * once) == pytest.approx(found)
    only_third = DocumentParts(parts).values(np.array([[0.0, 0, 3]]))
    assert only_third[0, 0] == 3 and math.isnan(only_third[0, 1])


def test_documents_that_disagree_widen_the_interval():
    generator = np.random.default_rng(0)
    target = np.arange(12.0)
    agree = np.repeat(target[:, None], 10, axis=1)
    disagree = agree + generator.normal(scale=25, size=agree.shape)
    quiet, loud = (document_noise(parts_of(p), target, target, 0) for p in (agree, disagree))
    assert quiet.interval.low == pytest.approx(1) and quiet.interval.high == pytest.approx(1)
    assert quiet.reliability == pytest.approx(1) and loud.reliability < 0.9
    assert loud.interval.low < spearman(disagree.mean(axis=1), target) - 0.1
    generator = np.random.default_rng(9)
    plain = [
        scipy.stats.spearmanr(disagree[:, generator.integers(0, 10, 10)].mean(axis=1), target)[0]
        for _ in range(1000)
    ]
    # 1,000 draws: the ends vary by some hundredths
    ends = (loud.interval.low, loud.interval.high)
    assert ends == pytest.approx(np.quantile(plain, [0.025, 0.975]), abs=0.08)


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


@pytest.mark.parametrize(("documents", "known"), [(2, False), (7, False), (8, True)])
def test_few_documents_have_no_interval(documents, known):
    values = np.random.default_rng(0).normal(size=(9, documents))
    found = document_noise(parts_of(values), values.mean(axis=1), np.arange(9.0), 0)
    assert found is not None and math.isnan(found.interval.low) != known
