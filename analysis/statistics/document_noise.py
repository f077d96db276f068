"""Noise of a correlation: from the models that were drawn, and from the documents they read.

A metric is a sum over documents; other documents would have given other values. Deutsch, Dror &
Roth (2021) resample inputs, systems or both; the interval over both is the one for 'new models
on new documents'. The target has noise of its own: its standard errors bound what any metric can
reach (`noise_ceiling`).

A rank correlation weights a pair of models that the target can't distinguish like any other. Soft
pairwise accuracy (Thompson et al. 2024, the system-level measure of WMT 2024) compares how sure
both are instead: the mean over pairs of 1 − |p_target − p_metric|, where p is that of a one-sided
test that the first of the pair beats the second. Toss-ups then count for little.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from statistics import NormalDist
from typing import Literal

import numpy as np

from analysis.statistics.correlations import (
    Flags,
    Floats,
    Indices,
    Interval,
    pearson_rows,
    spearman_rows,
    without_rounding,
)
from analysis.statistics.resampling import (
    DEFAULT_RESAMPLES,
    LEAST_DRAWN,
    draw,
    percentile_interval,
)

Aggregation = Literal["micro", "macro", "weighted", "median", "q10", "q90"]
"""Aggregation of documents to a value, in the terms of the metric library."""

MINIMUM_DOCUMENTS = 2
"""Fewer can't be resampled."""

DEFAULT_SWAPS = 1000
SURE = 0.05
"""One-sided p below which the target separates a pair."""

_QUANTILES = {"median": 0.5, "q10": 0.1, "q90": 0.9}

_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class DocumentParts:
    """The parts of one variant's value: n models × D documents.

    parts: `[3, n, D]`, numerator, denominator and weight, NaN where a model has nothing for a
        document.
    aggregation: `micro`, the ratio of the sums; else the mean (`macro`), the mean weighted by
        the weight, or a quantile of the documents' own ratios.
    A monotone last step (an exponential) changes no rank and is left out.
    """

    parts: Floats
    aggregation: Aggregation = "micro"

    @property
    def documents(self) -> int:
        """D."""
        return int(self.parts.shape[2])

    @property
    def present(self) -> Flags:
        """`[n, D]`, where there is something to add up."""
        numerator, denominator, _ = self.parts
        finite = np.isfinite(numerator) & np.isfinite(denominator)
        return np.asarray(finite & (denominator != 0))

    def values(self, counts: Floats) -> Floats:
        """The variant's value of each model on resampled documents.

        Args:
            counts: `[R, D]`, how often each document was drawn, equally many in each row.

        Returns:
            `[R, n]`, NaN where a model has none of the drawn documents.
        """
        top, bottom, weight = self.parts
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(self.present, top / bottom, np.nan)
        if self.aggregation in _QUANTILES:
            return self._quantiles(ratio, counts, _QUANTILES[self.aggregation])
        if self.aggregation == "macro":
            top, bottom = ratio, np.ones(ratio.shape)
        elif self.aggregation == "weighted":
            top, bottom = ratio * weight, weight
        below = counts @ np.where(self.present, bottom, 0.0).T
        above = counts @ np.where(self.present, top, 0.0).T
        return np.asarray(above / np.where(below != 0, below, np.nan))

    def pick(self, models: Indices | list[int], documents: Flags | Indices) -> DocumentParts:
        """The same of some models and documents."""
        return DocumentParts(self.parts[:, models][:, :, documents], self.aggregation)

    def _quantiles(self, ratio: Floats, counts: Floats, share: float) -> Floats:
        drawn = np.tile(np.arange(self.documents), len(counts))
        index = np.repeat(drawn, counts.astype(np.intp).ravel()).reshape(len(counts), -1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a model without any of the documents
            columns = [np.nanquantile(row[index], share, axis=1) for row in ratio]
        return np.stack(columns, axis=1)


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


@dataclass(frozen=True)
class DocumentNoise:
    """Effect of sampling documents on one variant's correlation, over the models with a value.

    documents: how many; with fewer than `LEAST_DRAWN` there are no intervals, and with fewer series
        of models none of both.
    new_documents: 95% interval of Spearman with documents resampled; new_documents_and_models: with
        both, whole series of models at once.
    reliability: of the metric over documents (`split_half`).
    soft_pairs: soft pairwise accuracy; NaN without standard errors of the target.
    pairs: pairs of models that the target separates, near-ties, ties; None likewise.
    """

    documents: int
    new_documents: Interval
    new_documents_and_models: Interval
    reliability: float
    soft_pairs: float
    pairs: PairCounts | None


def document_noise(
    parts: DocumentParts,
    metric: Floats,
    target: Floats,
    errors: Floats,
    series: Sequence[str],
    seed: int,
) -> DocumentNoise | None:
    """Resample documents and models, compare pairs of models.

    Args:
        parts: of a variant on each document.
        metric: `[n]`, its oriented values, NaN where missing.
        target: `[n]`.
        errors: `[n]` standard errors of the target, NaN where unknown.
        series: `[n]` labels; whole series of models are drawn.
        seed: of resamples and swaps.

    Returns:
        None with fewer than three models that have a value and a document.
    """
    here = np.isfinite(metric) & parts.present.any(axis=1)
    if here.sum() < 3:
        return None
    own = parts.pick(np.flatnonzero(here), np.arange(parts.documents))
    scores, errors = target[here], errors[here]
    labels = list(compress(series, here))
    clusters = labels if len(set(labels)) < len(labels) else None
    by_documents, by_both = resampled_documents(own, scores, seed, clusters=clusters)
    none = Interval(math.nan, math.nan, f"fewer than {LEAST_DRAWN}")
    few = parts.documents < LEAST_DRAWN
    by_documents = none if few else by_documents
    by_both = none if few or len(set(labels)) < LEAST_DRAWN else by_both
    soft_pairs, pairs = math.nan, None
    if np.isfinite(errors).all():
        p_target = p_from_errors(scores, errors)
        soft_pairs = soft_pairwise_accuracy(p_target, p_from_documents(own, seed))
        pairs = count_pairs(scores, p_target, metric[here])
    reliability = split_half(own, seed)
    return DocumentNoise(parts.documents, by_documents, by_both, reliability, soft_pairs, pairs)


def resampled_documents(
    parts: DocumentParts,
    target: Floats,
    seed: int,
    resamples: int = DEFAULT_RESAMPLES,
    clusters: Sequence[str] | None = None,
) -> tuple[Interval, Interval]:
    """95% percentile intervals of Spearman: documents resampled, and documents and models.

    Args:
        parts: of a variant, oriented as the target is.
        target: `[n]`.
        seed: of both draws.
        resamples: of each interval.
        clusters: series of models to draw as wholes; None draws models.
    """
    values = without_rounding(parts.values(document_counts(parts.documents, resamples, seed)))
    drawn = draw(target.size, resamples, seed, clusters)
    parts_of_values = np.split(values, np.cumsum([len(models) for models in drawn])[:-1])
    by_both = [
        _spearman(np.take_along_axis(rows, models, axis=1), target[models])
        for rows, models in zip(parts_of_values, drawn, strict=True)
    ]
    by_documents = _spearman(values, np.broadcast_to(target, values.shape))
    return percentile_interval(by_documents), percentile_interval(np.concatenate(by_both))


def document_counts(documents: int, resamples: int, seed: int) -> Floats:
    """`[resamples, documents]`: how often each is drawn, with replacement."""
    generator = np.random.default_rng([seed, 1])
    share = np.full(documents, 1.0 / documents)
    return generator.multinomial(documents, share, size=resamples).astype(np.float64)


def split_half(parts: DocumentParts, seed: int, halves: int = 200) -> float:
    """Reliability of a metric over documents: correlation of its values on two halves of them.

    The mean Pearson correlation over random halves, stepped up to all documents by Spearman and
    Brown's formula 2r / (1 + r). NaN with fewer than 4 documents or an undefined correlation.
    """
    documents = parts.documents
    if documents < 4:
        return math.nan
    generator = np.random.default_rng([seed, 2])
    first = generator.random((halves, documents)).argsort(axis=1) < documents // 2
    a, b = parts.values(first.astype(np.float64)), parts.values((~first).astype(np.float64))
    complete = np.isfinite(a).all(axis=1) & np.isfinite(b).all(axis=1)
    r = pearson_rows(a[complete], b[complete])
    half = float(np.nanmean(r)) if np.isfinite(r).any() else math.nan
    return 2 * half / (1 + half) if half > -1 else math.nan


def noise_ceiling(scores: Floats, errors: Floats) -> float:
    """Expected correlation of a perfect metric, on Pearson's scale.

    √ of the target's reliability 1 − mean(se²) / var(scores), from `[n]` scores and their standard
    errors; 0 where its noise is as large as the differences between models, NaN without errors.
    """
    spread = float(scores.var(ddof=1)) if scores.size > 1 else 0.0
    if not np.isfinite(errors).all() or spread <= 0:
        return math.nan
    return math.sqrt(max(1.0 - float((errors**2).mean()) / spread, 0.0))


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
    _, models, documents = parts.parts.shape
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

    From `[n]` scores, their `[n, n]` one-sided p-values and the `[n]` oriented metric.
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


def _spearman(x: Floats, y: Floats) -> Floats:
    """`[R]` Spearman over the points with a value; NaN where undefined."""
    found = [
        spearman_rows(np.where(np.isnan(part_x), 0.0, part_x), part_y, np.isfinite(part_x))
        for part_x, part_y in zip(_chunks(x), _chunks(y), strict=True)
    ]
    return np.concatenate(found)


def _chunks(rows: Floats | Indices) -> list[Floats]:
    return np.array_split(rows, math.ceil(len(rows) / _ROWS_AT_ONCE))


def _swap_p(pair: DocumentParts, keep: Floats, swap: Floats) -> float:
    """Mid-p of the difference of two models among its swaps; the observed one counts too."""
    turned = pair.parts[:, ::-1]
    stacked = DocumentParts(np.concatenate([pair.parts, turned], axis=2), pair.aggregation)
    values = stacked.values(np.hstack([keep, swap]))
    whole = pair.values(np.ones((1, pair.documents)))[0]
    found = whole[0] - whole[1]
    null = values[:, 0] - values[:, 1]
    tolerance = 1e-12 * max(float(np.abs(whole).max()), 1e-300)
    larger = (null > found + tolerance).sum()
    level = (np.abs(null - found) <= tolerance).sum()
    return float((larger + 0.5 * (level + 1)) / (len(null) + 1))
