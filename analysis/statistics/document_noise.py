"""Noise of a correlation from the documents that were read.

A metric is a sum over documents; other documents would have given other values (Deutsch, Dror &
Roth 2021). The target has noise of its own: its standard errors bound what any metric can reach
(`noise_ceiling`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from analysis.statistics.correlations import (
    Flags,
    Floats,
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

    def values(self, counts: Floats) -> Floats:
        """The variant's value of each model on resampled documents.

        Args:
            counts: `[R, D]`, how often each document was drawn.

        Returns:
            `[R, n]`, NaN where a model has none of the drawn documents.
        """
        top, bottom, weight = self.parts
        if self.aggregation != "micro":
            with np.errstate(invalid="ignore", divide="ignore"):
                ratio = np.where(self.present, top / bottom, np.nan)
            bottom = weight if self.aggregation == "weighted" else np.ones(ratio.shape)
            top = ratio * bottom
        below = counts @ np.where(self.present, bottom, 0.0).T
        above = counts @ np.where(self.present, top, 0.0).T
        return np.asarray(above / np.where(below != 0, below, np.nan))


@dataclass(frozen=True)
class DocumentNoise:
    """Effect of sampling documents on one variant's correlation, over the models with a value.

    documents: how many; with fewer than `LEAST_DRAWN` there is no interval.
    interval: 95% percentile interval of Spearman with documents resampled.
    reliability: of the metric over documents (`split_half`).
    """

    documents: int
    interval: Interval
    reliability: float


def document_noise(
    parts: DocumentParts, metric: Floats, target: Floats, seed: int
) -> DocumentNoise | None:
    """Resample documents.

    Args:
        parts: of a variant on each document, oriented as the target is.
        metric: `[n]`, its values, NaN where missing.
        target: `[n]`.
        seed: of the resamples.

    Returns:
        None with fewer than three models that have a value and a document.
    """
    here = np.isfinite(metric) & parts.present.any(axis=1)
    if here.sum() < 3:
        return None
    own = DocumentParts(parts.parts[:, here], parts.aggregation)
    documents = own.parts.shape[2]
    interval = Interval(math.nan, math.nan, f"fewer than {LEAST_DRAWN}")
    if documents >= LEAST_DRAWN:
        generator = np.random.default_rng([seed, 1])
        share = np.full(documents, 1.0 / documents)
        counts = generator.multinomial(documents, share, size=DEFAULT_RESAMPLES)
        values = without_rounding(own.values(counts.astype(np.float64)))
        kept = np.isfinite(values)
        targets = np.broadcast_to(target[here], values.shape)
        rho = spearman_rows(np.where(kept, values, 0.0), targets, kept)
        rho = rho[~np.isnan(rho)]
        low, high = np.quantile(rho, (0.025, 0.975)) if rho.size else (math.nan, math.nan)
        undefined = DEFAULT_RESAMPLES - rho.size
        interval = Interval(float(low), float(high), "percentile", undefined)
    return DocumentNoise(documents, interval, split_half(own, seed))


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
