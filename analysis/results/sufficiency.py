"""How many documents suffice: reliability of a metric, and its ranking, against their number."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from analysis.statistics.correlations import Floats, spearman_rows
from analysis.statistics.document_noise import DocumentParts, split_half

SUBSETS = 400
"""Random sets of documents of each size."""


@dataclass(frozen=True)
class Point:
    """A metric computed on so many documents, over random sets of them.

    Attributes:
        documents: of a set.
        reliability: Spearman and Brown's prophecy from the split-half reliability of all
            documents; NaN with fewer than 4.
        same_ranking: mean Spearman of its values with those on all documents.
        target: mean Spearman with the target.
        low, high: 5% and 95% of that, over the sets.
    """

    documents: int
    reliability: float
    same_ranking: float
    target: float
    low: float
    high: float


def sufficiency(parts: DocumentParts, target: Floats, seed: int) -> list[Point]:
    """Points at 1, 2, 4 … documents, and at all.

    Sets are drawn without replacement. Those of nearly all documents overlap: their spread says how
    much a result hangs on these documents, not what new ones would do.

    Args:
        parts: of a variant, oriented as the target is, over the models of the target.
        target: `[n]`.
        seed: of the sets.
    """
    whole = parts.values(np.ones((1, parts.documents)))
    reliability = split_half(parts, seed)
    generator = np.random.default_rng([seed, 3])
    found = []
    for size in sizes(parts.documents):
        chosen = generator.random((SUBSETS, parts.documents)).argsort(axis=1) < size
        values = parts.values(chosen.astype(np.float64))
        complete = values[np.isfinite(values).all(axis=1)]
        if not len(complete):
            continue
        alike = spearman_rows(complete, np.broadcast_to(whole, complete.shape))
        rho = spearman_rows(complete, np.broadcast_to(target, complete.shape))
        low, high = np.nanquantile(rho, [0.05, 0.95])
        found.append(
            Point(
                documents=size,
                reliability=prophecy(reliability, size / parts.documents),
                same_ranking=float(np.nanmean(alike)),
                target=float(np.nanmean(rho)),
                low=float(low),
                high=float(high),
            )
        )
    return found


def sizes(documents: int) -> list[int]:
    """1, 2, 4 … and all."""
    return sorted({documents, *(2**power for power in range(documents.bit_length()))} - {0})[
        : documents.bit_length() + 1
    ]


def prophecy(reliability: float, factor: float) -> float:
    """Reliability of a measurement so many times as long: k r / (1 + (k − 1) r).

    Spearman (1910) and Brown (1910). NaN where a negative reliability makes it undefined.
    """
    below = 1 + (factor - 1) * reliability
    return factor * reliability / below if below > 0 else math.nan
