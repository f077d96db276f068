"""Resampling of documents and models; noise ceiling."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from analysis.statistics.correlations import spearman
from analysis.statistics.document_noise import (
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
    quiet, loud = (
        document_noise(parts_of(p), target, target, list("abcdefghijkl"), 0)
        for p in (agree, disagree)
    )
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
    assert noise_ceiling(np.arange(3.0), np.full(3, 0.5)) == pytest.approx(math.sqrt(1 - 0.25 / 1))
    assert noise_ceiling(np.arange(3.0), np.full(3, 9.0)) == 0
    assert math.isnan(noise_ceiling(np.arange(3.0), np.array([1.0, np.nan, 1])))


@pytest.mark.parametrize("sizes", [(1,) * 12, (3, 1, 1, 1, 1, 1, 2, 1, 1)])
def test_documents_and_models_are_drawn_together_and_series_as_wholes(sizes):
    """Against a plain loop; 2,000 draws: the ends vary by some hundredths."""
    generator = np.random.default_rng(5)
    target = np.arange(12.0)
    values = target[:, None] + generator.normal(scale=12, size=(12, 9))
    members = np.split(np.arange(12), np.cumsum(sizes)[:-1])
    series = [str(group) for group, size in enumerate(sizes) for _ in range(size)]
    found = document_noise(parts_of(values), values.mean(axis=1), target, series, 0)
    plain = []
    for _ in range(2000):
        models = np.concatenate([members[k] for k in generator.integers(0, len(sizes), len(sizes))])
        means = values[:, generator.integers(0, 9, 9)].mean(axis=1)
        plain.append(scipy.stats.spearmanr(means[models], target[models])[0])
    ends = (found.of_both.low, found.of_both.high)
    assert ends == pytest.approx(np.nanquantile(plain, [0.025, 0.975]), abs=0.08)
    assert found.of_both.high - found.of_both.low > found.interval.high - found.interval.low


@pytest.mark.parametrize(
    ("documents", "series", "known", "of_both"),
    [(2, 9, False, False), (7, 9, False, False), (8, 9, True, True), (8, 7, True, False)],
)
def test_few_documents_or_series_have_no_interval(documents, series, known, of_both):
    values = np.random.default_rng(0).normal(size=(9, documents))
    names = [str(model % series) for model in range(9)]
    found = document_noise(parts_of(values), values.mean(axis=1), np.arange(9.0), names, 0)
    assert math.isnan(found.interval.low) != known
    assert math.isnan(found.of_both.low) != of_both
