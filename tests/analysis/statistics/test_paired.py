"""Two models on the same documents: against all exchanges, scipy, and the binomial law."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats

from analysis.statistics.document_noise import DocumentParts
from analysis.statistics.paired import DRAWS, compare, sign_flip_p

FIRST_HIGHER = np.array([0.3, -0.1, 0.25, 0.4, 0.05, 0.0, 0.2, 0.15, -0.02, 0.6])


def parts_of(top, bottom=None, weight=None, aggregation="micro"):
    top = np.asarray(top, float)
    ones = np.ones(top.shape)
    bottom, weight = (
        ones if part is None else np.asarray(part, float) for part in (bottom, weight)
    )
    return DocumentParts(np.stack([top, bottom, weight]), aggregation)


def random_parts(documents, seed, aggregation="micro"):
    """Numerators and denominators that differ between models, as those of two tokenizers do."""
    generator = np.random.default_rng(seed)
    bottom = generator.integers(50, 200, size=(2, documents))
    top = bottom * (2.0 + generator.normal(size=(2, documents)) + [[0.4], [0.0]])
    return parts_of(top, bottom, generator.uniform(1, 2, size=(2, documents)), aggregation)


def exchanged(parts, pattern):
    swapped = np.array(parts.parts)
    swapped[:, :, pattern] = swapped[:, ::-1, pattern]
    return DocumentParts(swapped, parts.aggregation)


@pytest.mark.parametrize("aggregation", ["micro", "macro", "weighted"])
def test_p_is_valid_and_ordered_as_the_difference_over_all_exchanges(aggregation):
    parts = random_parts(9, 5, aggregation)
    patterns = [np.array(p) for p in itertools.product([False, True], repeat=9)]
    found = [compare(exchanged(parts, pattern), 0) for pattern in patterns]
    p = np.array([each.p for each in found])
    assert {each.test for each in found} == {"sign-flip"}
    for level in (0.01, 0.05, 0.1, 0.5, 1.0):
        assert (p <= level).mean() <= level
    assert p.min() == 2 / 2**9
    if aggregation == "macro":  # equal denominators: the difference itself is compared
        size = np.abs([each.difference for each in found])
        assert p == pytest.approx([(size >= one - 1e-9).mean() for one in size])


@pytest.mark.parametrize("documents", [3, 8, 15])
def test_a_mean_of_documents_is_scipys_permutation_test(documents):
    parts = random_parts(documents, documents, "macro")
    first, second = parts.parts[0] / parts.parts[1]
    expected = scipy.stats.permutation_test(
        (first, second), lambda a, b, axis: (a - b).mean(axis), permutation_type="samples",
        vectorized=True, n_resamples=np.inf,
    )  # fmt: skip
    found = compare(parts, 0)
    assert found.p == pytest.approx(expected.pvalue)
    assert found.difference == pytest.approx(expected.statistic)
    assert (found.higher, found.lower) == ((first > second).sum(), (first < second).sum())


def test_beyond_what_is_counted_signs_are_drawn():
    """Equal differences: the sum under random signs is binomial."""
    differences = np.repeat([1.0, -1.0], [34, 16])
    p, is_exact = sign_flip_p(differences, np.random.default_rng(1))
    exact = scipy.stats.binomtest(16, 50).pvalue
    assert not is_exact
    assert p == pytest.approx(exact, abs=4 * math.sqrt(exact / DRAWS))
    counted, is_exact = sign_flip_p(differences[:40], np.random.default_rng(1))
    assert is_exact and counted == pytest.approx(scipy.stats.binomtest(6, 40).pvalue)
    assert sign_flip_p(1e6 * differences[:40], np.random.default_rng(1))[0] == counted
    assert sign_flip_p(np.zeros(5), np.random.default_rng(1)) == (1.0, True)


@pytest.mark.parametrize(("only_first", "only_second"), [(0, 0), (5, 0), (3, 12), (7, 7)])
def test_answers_are_mcnemars(only_first, only_second):
    counts = [only_first, only_second, 6, 5]
    answers = np.repeat([[1, 0], [0, 1], [1, 1], [0, 0]], counts, axis=0).T
    found = compare(parts_of(answers), 0)
    n, fewer = only_first + only_second, min(only_first, only_second)
    tail = sum(math.comb(n, k) for k in range(fewer + 1)) / 2**n
    assert found.test == "mcnemar" and found.p == pytest.approx(min(1.0, 2 * tail))
    assert (found.higher, found.lower) == (only_first, only_second)
    signs = np.repeat([1.0, -1.0], [only_first, only_second])
    assert sign_flip_p(signs, np.random.default_rng(0))[0] == pytest.approx(found.p)


def test_the_interval_is_scipys_paired_bootstrap():
    parts = random_parts(40, 3)
    tops, bottoms = parts.parts[:2]

    def difference(a, b, c, d, axis):
        return a.sum(axis) / c.sum(axis) - b.sum(axis) / d.sum(axis)

    expected = scipy.stats.bootstrap(
        (*tops, *bottoms), difference, paired=True, method="percentile", n_resamples=10_000, rng=0
    )
    found = compare(parts, 0)
    low, high = expected.confidence_interval
    error = 6 * expected.standard_error / math.sqrt(10_000 * 0.025)
    assert found.ci95_low == pytest.approx(low, abs=error)
    assert found.ci95_high == pytest.approx(high, abs=error)


def test_documents_of_one_model_are_left_out():
    top = np.array([FIRST_HIGHER, np.zeros(10)])
    lacking = np.hstack([top, [[9.0, np.nan], [np.nan, 9.0]]])
    assert compare(parts_of(lacking), 0) == compare(parts_of(top), 0)
    few = compare(parts_of(top[:, :7]), 0)
    assert (few.documents, few.ci95_low, few.ci95_high) == (7, None, None)
    assert compare(parts_of([[1.0, np.nan], [np.nan, 1.0]]), 0) is None
