"""Pairs of models: which of two is better, with the uncertainty of target and metric.

A rank correlation weights a pair that the target can't distinguish like any other. Soft
pairwise accuracy (Thompson et al. 2024, the system-level measure of WMT 2024) compares how sure
both are instead: the mean over pairs of 1 − |p_target − p_metric|, where p is that of a one-sided
test that the first of the pair beats the second. Toss-ups then count for little.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from analysis.statistics.correlations import Floats
from analysis.statistics.document_noise import DocumentParts

DEFAULT_SWAPS = 1000
SURE = 0.05


@dataclass(frozen=True)
class PairCounts:
    """The pairs of n models, classified by the target.

    told_apart: one-sided p below `SURE` for one of the two.
    tossups: neither, though the scores differ; ties: equal scores.
    accuracy: share of the distinguishable pairs in the metric's order, ties half; NaN without.
    """

    told_apart: int
    tossups: int
    ties: int
    accuracy: float


def soft_pairwise_accuracy(target: Floats, metric: Floats) -> float:
    """Mean of 1 − |p_target − p_metric| over the pairs of `[n, n]` one-sided p-values.

    NaN with a pair whose p is unknown, or fewer than two models.
    """
    above = np.triu_indices(len(target), k=1)
    return float((1.0 - np.abs(target - metric)[above]).mean()) if above[0].size else math.nan


def p_from_errors(scores: Floats, errors: Floats) -> Floats:
    """One-sided p-values from `[n]` scores and their standard errors, independent and normal.

    Returns:
        `[n, n]`: small where the row's model beats the column's; 0.5 where nothing is known
        beyond equal scores.
    """
    difference = scores[:, None] - scores[None, :]
    error = np.hypot(errors[:, None], errors[None, :])
    with np.errstate(invalid="ignore", divide="ignore"):
        z = np.where(difference == 0, 0.0, difference / error)
    below = np.vectorize(NormalDist().cdf, otypes=[np.float64])
    return np.asarray(1.0 - below(z))


def p_from_documents(parts: DocumentParts, seed: int, swaps: int = DEFAULT_SWAPS) -> Floats:
    """One-sided p-values that the row's model has the larger value, by swapping documents.

    The paired permutation test: under the null two models are exchangeable document by document,
    so their parts of each document are swapped at random.

    Args:
        parts: of n models on D documents, larger is better.
        seed: of the swaps.
        swaps: how many random sign patterns, the same for all pairs.

    Returns:
        `[n, n]`, `p[i, j] + p[j, i] = 1`, equal values 0.5; NaN where two models share no document.
    """
    models, documents = parts.numerator.shape
    swapped = np.random.default_rng([seed, 3]).random((swaps, documents)) < 0.5
    keep, swap = (~swapped).astype(np.float64), swapped.astype(np.float64)
    result = np.full((models, models), 0.5)
    present = parts.present
    for i in range(models):
        for j in range(i + 1, models):
            both = present[i] & present[j]
            pair = parts.pick([i, j], both)
            p = _swap_p(pair, keep[:, both], swap[:, both]) if both.any() else math.nan
            result[i, j], result[j, i] = p, 1.0 - p
    return result


def count_pairs(scores: Floats, p_target: Floats, metric: Floats) -> PairCounts:
    """Classify the pairs of models by the target.

    Args:
        scores: `[n]` of the target.
        p_target: `[n, n]` one-sided p-values of the target.
        metric: `[n]`, oriented.
    """
    above = np.triu_indices(scores.size, k=1)
    of_target = np.sign(scores[:, None] - scores[None, :])[above]
    of_metric = np.sign(metric[:, None] - metric[None, :])[above]
    p = p_target[above]
    tied = of_target == 0
    sure = ~tied & (np.minimum(p, 1.0 - p) < SURE)
    alike = (of_target * of_metric + 1.0)[sure] / 2.0
    return PairCounts(
        told_apart=int(sure.sum()),
        tossups=int((~tied & ~sure).sum()),
        ties=int(tied.sum()),
        accuracy=float(alike.mean()) if alike.size else math.nan,
    )


def _swap_p(pair: DocumentParts, keep: Floats, swap: Floats) -> float:
    """Mid-p of the difference of two models among its swaps; the observed one counts too."""
    turned = pair.pick([1, 0], np.arange(pair.documents))
    stacked = DocumentParts(
        np.hstack([pair.numerator, turned.numerator]),
        np.hstack([pair.denominator, turned.denominator]),
        pair.aggregation,
        None
        if pair.weight is None or turned.weight is None
        else np.hstack([pair.weight, turned.weight]),
    )
    values = stacked.values(np.hstack([keep, swap]))
    whole = pair.values(np.ones((1, pair.documents)))[0]
    found = whole[0] - whole[1]
    null = values[:, 0] - values[:, 1]
    tolerance = 1e-12 * max(float(np.abs(whole).max()), 1e-300)
    larger = (null > found + tolerance).sum()
    level = (np.abs(null - found) <= tolerance).sum()
    return float((larger + 0.5 * (level + 1)) / (len(null) + 1))
