"""Two sources of noise: the models that were drawn, and the documents they read.

A metric is a sum over documents; other documents would have given other values. Deutsch, Dror &
Roth (2021) resample inputs, systems or both; the interval over both is the one for 'new models
on new documents'. The target has noise of its own: its standard errors bound what any metric can
reach (`noise_ceiling`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from analysis.statistics.bootstrap import (
    DEFAULT_RESAMPLES,
    Interval,
    draw,
    percentile_interval,
)
from analysis.statistics.correlations import (
    Flags,
    Floats,
    Indices,
    pearson_rows,
    settled,
    spearman_rows,
)

Aggregation = Literal["micro", "macro", "weighted", "median", "q10", "q90"]
"""Aggregation of documents to a value, in the terms of the metric library."""

_QUANTILES = {"median": 0.5, "q10": 0.1, "q90": 0.9}

_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class DocumentParts:
    """The parts of one variant's value: n models × D documents.

    numerator, denominator: `[n, D]`, NaN where a model has nothing for a document.
    aggregation: `micro`, the ratio of the sums; else the mean (`macro`), the mean weighted by
        `weight`, or a quantile of the documents' own ratios.
    weight: `[n, D]`, of `weighted` only.
    A monotone last step (an exponential) changes no rank and is left out.
    """

    numerator: Floats
    denominator: Floats
    aggregation: Aggregation = "micro"
    weight: Floats | None = None

    @property
    def documents(self) -> int:
        """D."""
        return int(self.numerator.shape[1])

    @property
    def present(self) -> Flags:
        """`[n, D]`, where there is something to add up."""
        finite = np.isfinite(self.numerator) & np.isfinite(self.denominator)
        return np.asarray(finite & (self.denominator != 0))

    def values(self, counts: Floats) -> Floats:
        """The variant's value of each model on resampled documents.

        Args:
            counts: `[R, D]`, how often each document was drawn, equally many in each row.

        Returns:
            `[R, n]`, NaN where a model has none of the drawn documents.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(self.present, self.numerator / self.denominator, np.nan)
        if self.aggregation in _QUANTILES:
            return self._quantiles(ratio, counts, _QUANTILES[self.aggregation])
        if self.aggregation == "micro":
            top, bottom = self.numerator, self.denominator
        elif self.aggregation == "macro" or self.weight is None:
            top, bottom = ratio, np.ones(ratio.shape)
        else:
            top, bottom = ratio * self.weight, self.weight
        below = counts @ np.where(self.present, bottom, 0.0).T
        above = counts @ np.where(self.present, top, 0.0).T
        return np.asarray(above / np.where(below != 0, below, np.nan))

    def pick(self, models: Indices | list[int], documents: Flags | Indices) -> DocumentParts:
        """The same of some models and documents."""
        rows = [
            None if part is None else part[models][:, documents]
            for part in (self.numerator, self.denominator, self.weight)
        ]
        assert rows[0] is not None and rows[1] is not None
        return DocumentParts(rows[0], rows[1], self.aggregation, rows[2])

    def _quantiles(self, ratio: Floats, counts: Floats, share: float) -> Floats:
        drawn = np.tile(np.arange(self.documents), len(counts))
        index = np.repeat(drawn, counts.astype(np.intp).ravel()).reshape(len(counts), -1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a model without any of the documents
            columns = [np.nanquantile(row[index], share, axis=1) for row in ratio]
        return np.stack(columns, axis=1)


@dataclass(frozen=True)
class TwoSources:
    """Spearman of one variant with the target, and its intervals by what is resampled.

    document_error: standard error of its Fisher z over documents, the models given.
    reliability: of the metric over documents (`split_half`).
    """

    value: float
    models: Interval
    documents: Interval
    both: Interval
    document_error: float
    reliability: float


def two_sources(
    parts: DocumentParts,
    target: Floats,
    seed: int,
    resamples: int = DEFAULT_RESAMPLES,
    clusters: Sequence[str] | None = None,
) -> TwoSources:
    """Resample models, documents, or both; percentile intervals at 95%.

    Args:
        parts: of a variant, oriented as the target is.
        target: `[n]`.
        seed: of both draws.
        resamples: of each interval.
        clusters: series of models to draw as wholes; None draws models.
    """
    count = target.size
    whole = settled(parts.values(np.ones((1, parts.documents))))
    counts = document_counts(parts.documents, resamples, seed)
    values = settled(parts.values(counts))
    every_target = np.broadcast_to(target, values.shape)
    drawn = draw(count, resamples, seed, clusters).groups
    by_models, by_both, first = [], [], 0
    for group in drawn:
        rows = slice(first, first + len(group))
        first += len(group)
        by_models.append(_spearman(whole[0][group], target[group]))
        by_both.append(_spearman(np.take_along_axis(values[rows], group, axis=1), target[group]))
    by_documents = _spearman(values, every_target)
    z = np.arctanh(np.clip(by_documents[~np.isnan(by_documents)], -0.999, 0.999))
    return TwoSources(
        value=float(spearman_rows(whole, target[None])[0]),
        models=percentile_interval(np.concatenate(by_models)),
        documents=percentile_interval(by_documents),
        both=percentile_interval(np.concatenate(by_both)),
        document_error=float(z.std()) if z.size else math.nan,
        reliability=split_half(parts, seed),
    )


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

    √ of the target's reliability 1 − mean(se²) / var(scores); 0 where its noise is as large as
    the differences between models, NaN without standard errors.

    Args:
        scores: `[n]`.
        errors: `[n]` standard errors, NaN where unknown.
    """
    spread = float(scores.var(ddof=1)) if scores.size > 1 else 0.0
    if not np.isfinite(errors).all() or spread <= 0:
        return math.nan
    return math.sqrt(max(1.0 - float((errors**2).mean()) / spread, 0.0))


def _spearman(x: Floats, y: Floats) -> Floats:
    """`[R]` Spearman over the points with a value; NaN where undefined."""
    found = [
        spearman_rows(np.where(np.isnan(part_x), 0.0, part_x), part_y, np.isfinite(part_x))
        for part_x, part_y in zip(_chunks(x), _chunks(y), strict=True)
    ]
    return np.concatenate(found)


def _chunks(rows: Floats | Indices) -> list[Floats]:
    return np.array_split(rows, math.ceil(len(rows) / _ROWS_AT_ONCE))
