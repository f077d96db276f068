"""Noise of a correlation: from the models that were drawn, and from the documents they read.

A metric is a sum over documents; other documents would have given other values. Deutsch, Dror &
Roth (2021) resample inputs, systems or both; the interval over both is the one for new models on
new documents. The target has noise of its own: its standard errors bound what any metric can reach
(`noise_ceiling`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
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
from analysis.statistics.resampling import DEFAULT_RESAMPLES, LEAST_DRAWN

Aggregation = Literal["micro", "macro", "weighted"]
"""Aggregation of documents to a value, in the terms of the metric library; quantiles of documents
have no interval."""


@dataclass(frozen=True, eq=False)
class DocumentParts:
    """The parts of one variant's value: n models × D documents.

    parts: `[3, n, D]`, numerator, denominator and weight, NaN where a model has nothing for a
        document.
    aggregation: `micro`, the ratio of the sums; else the mean (`macro`), or the mean weighted by
        the weight, of the documents' own ratios.
    A monotone last step (an exponential) changes no rank and is left out.
    """

    parts: Floats
    aggregation: Aggregation = "micro"

    @property
    def present(self) -> Flags:
        """`[n, D]`, where there is something to add up."""
        numerator, denominator, _ = self.parts
        finite = np.isfinite(numerator) & np.isfinite(denominator)
        return np.asarray(finite & (denominator != 0))

    @property
    def sums(self) -> tuple[Floats, Floats]:
        """`[n, D]` each: a value is the sum of the first over the sum of the second."""
        top, bottom, weight = self.parts
        if self.aggregation != "micro":
            with np.errstate(invalid="ignore", divide="ignore"):
                ratio = np.where(self.present, top / bottom, np.nan)
            bottom = weight if self.aggregation == "weighted" else np.ones(ratio.shape)
            top = ratio * bottom
        return np.where(self.present, top, 0.0), np.where(self.present, bottom, 0.0)

    def values(self, counts: Floats) -> Floats:
        """The variant's value of each model on resampled documents.

        Args:
            counts: `[R, D]`, how often each document was drawn.

        Returns:
            `[R, n]`, NaN where a model has none of the drawn documents.
        """
        above, below = (counts @ part.T for part in self.sums)
        return np.asarray(above / np.where(below != 0, below, np.nan))


@dataclass(frozen=True)
class DocumentNoise:
    """Effect of sampling documents on one variant's correlation, over the models with a value.

    documents: how many; with fewer than `LEAST_DRAWN` there are no intervals, and with fewer series
        of models none of both.
    interval: 95% percentile interval of Spearman with documents resampled.
    of_both: with documents and models resampled, whole series of models at once.
    reliability: of the metric over documents (`split_half`).
    """

    documents: int
    interval: Interval
    of_both: Interval
    reliability: float


def document_noise(
    parts: DocumentParts, metric: Floats, target: Floats, series: Sequence[str], seed: int
) -> DocumentNoise | None:
    """Resample documents, and documents with models.

    Args:
        parts: of a variant on each document, oriented as the target is.
        metric: `[n]`, its values, NaN where missing.
        target: `[n]`.
        series: `[n]` labels of what is drawn as a whole.
        seed: of the resamples.

    Returns:
        None with fewer than three models that have a value and a document.
    """
    here = np.isfinite(metric) & parts.present.any(axis=1)
    if here.sum() < 3:
        return None
    scored, scores = DocumentParts(parts.parts[:, here], parts.aggregation), target[here]
    labels, documents = list(compress(series, here)), scored.parts.shape[2]
    interval = of_both = Interval(math.nan, math.nan, f"fewer than {LEAST_DRAWN}")
    if documents >= LEAST_DRAWN:
        generator = np.random.default_rng([seed, 1])
        share = np.full(documents, 1.0 / documents)
        counts = generator.multinomial(documents, share, size=DEFAULT_RESAMPLES)
        values = without_rounding(scored.values(counts.astype(np.float64)))
        interval = _interval(_rho(values, np.broadcast_to(scores, values.shape)))
        if len(set(labels)) >= LEAST_DRAWN:
            drawn = _drawn_series(labels, DEFAULT_RESAMPLES, seed)
            groups = np.split(values, np.cumsum([len(models) for models in drawn])[:-1])
            both = [
                _rho(np.take_along_axis(rows, models, axis=1), scores[models])
                for rows, models in zip(groups, drawn, strict=True)
            ]
            of_both = _interval(np.concatenate(both))
    return DocumentNoise(documents, interval, of_both, split_half(scored, seed))


def _drawn_series(labels: Sequence[str], resamples: int, seed: int) -> list[Indices]:
    """As many series as there are, with replacement: indices `[rows, size]` for each size."""
    alone = len(set(labels)) == len(labels)
    names = list(labels) if alone else sorted(set(labels))
    members = [np.flatnonzero([label == name for label in labels]) for name in names]
    chosen = np.random.default_rng(seed).integers(0, len(names), size=(resamples, len(names)))
    by_size: dict[int, list[Indices]] = {}
    for row in chosen:
        index = np.concatenate([members[place] for place in row])
        by_size.setdefault(index.size, []).append(index)
    return [np.stack(by_size[size]) for size in sorted(by_size)]


def _rho(values: Floats, targets: Floats) -> Floats:
    """`[R]` Spearman over the models with a value; NaN where undefined."""
    kept = np.isfinite(values)
    return spearman_rows(np.where(kept, values, 0.0), targets, kept)


def _interval(rho: Floats) -> Interval:
    """Between the outer quantiles of the resamples with a defined correlation."""
    defined = rho[~np.isnan(rho)]
    low, high = np.quantile(defined, (0.025, 0.975)) if defined.size else (math.nan, math.nan)
    return Interval(float(low), float(high), "percentile", rho.size - defined.size)


def split_half(parts: DocumentParts, seed: int, halves: int = 200) -> float:
    """Reliability of a metric over documents: correlation of its values on two halves of them.

    The mean Pearson correlation over random halves, stepped up to all documents by Spearman and
    Brown's formula 2r / (1 + r). NaN with fewer than 4 documents or an undefined correlation.
    """
    documents = parts.parts.shape[2]
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
