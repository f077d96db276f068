"""Two models on the same documents or items: the difference, its interval and an exact test.

If two models are equally good, exchanging their results within a document leaves the law of all
results unchanged (Fisher 1935; Pitman 1937). A value is a ratio of sums over documents; with R the
ratio of both models' sums together, which no exchange changes, the difference of the two values has
the sign of Σ dᵢ, dᵢ = (topᵢ − R bottomᵢ) of the first model less that of the second. An exchange
turns the sign of dᵢ: the test compares |Σ dᵢ| with all patterns of signs. With answers that are
right or wrong it is McNemar's exact test: binomial over the items on which the models differ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import binomtest

from analysis.statistics.correlations import Floats
from analysis.statistics.document_noise import DocumentParts
from analysis.statistics.resampling import DEFAULT_RESAMPLES, LEAST_DRAWN

MOST_EXACT = 40
"""Documents with a difference of which all patterns are counted; beyond, random ones are drawn."""
DRAWS = 100_000
_AT_ONCE = 1_000
_SLACK = 1e-10
"""Of the sum of all |d|: sums of the same differences in another order are equal."""


@dataclass(frozen=True)
class Comparison:
    """Two models on the documents that both have; values are before a monotone last step.

    ci95_low, ci95_high: of the difference, documents resampled; None below `LEAST_DRAWN`.
    p: two-sided, of this comparison alone.
    higher, lower: documents on which the first model's own value is above or below the other's.
    """

    value: float
    other_value: float
    difference: float
    ci95_low: float | None
    ci95_high: float | None
    p: float
    test: Literal["sign-flip", "sign-flip-drawn", "mcnemar"]
    documents: int
    higher: int
    lower: int


def compare(parts: DocumentParts, seed: int) -> Comparison | None:
    """Compare the two models of `[3, 2, D]` parts; None without a document of both.

    Documents that one of them lacks are left out. `seed`: of resampled documents and drawn signs.
    """
    shared = DocumentParts(parts.parts[:, :, parts.present.all(axis=0)], parts.aggregation)
    top, bottom = shared.sums
    documents = top.shape[1]
    if not documents:
        return None
    value, other = shared.values(np.ones((1, documents)))[0].tolist()
    generator = np.random.default_rng(seed)
    low = high = None
    if documents >= LEAST_DRAWN:
        shares = np.full(documents, 1 / documents)
        counts = generator.multinomial(documents, shares, size=DEFAULT_RESAMPLES)
        drawn = shared.values(counts.astype(np.float64))
        low, high = np.nanquantile(drawn[:, 0] - drawn[:, 1], (0.025, 0.975)).tolist()
    ratios = top / np.where(bottom != 0, bottom, np.nan)
    higher, lower = int((ratios[0] > ratios[1]).sum()), int((ratios[0] < ratios[1]).sum())
    test: Literal["sign-flip", "sign-flip-drawn", "mcnemar"] = "mcnemar"
    if np.isin(ratios, (0.0, 1.0)).all() and np.ptp(bottom) == 0:
        p = float(binomtest(lower, higher + lower).pvalue) if higher + lower else 1.0
    else:
        deviations = top - top.sum() / bottom.sum() * bottom
        p, is_exact = sign_flip_p(deviations[0] - deviations[1], generator)
        test = "sign-flip" if is_exact else "sign-flip-drawn"
    return Comparison(value, other, value - other, low, high, p, test, documents, higher, lower)


def sign_flip_p(differences: Floats, generator: np.random.Generator) -> tuple[float, bool]:
    """Two-sided p that `[n]` differences sum to 0, and whether all patterns were counted.

    Otherwise `DRAWS` random patterns and the observed one are counted, so that the level is kept.
    """
    moved = _scaled(differences)
    reached = abs(float(moved.sum())) - _SLACK
    if moved.size <= MOST_EXACT or reached <= 0:
        return exact_sign_flip_p(moved), True
    count = 0
    for _ in range(DRAWS // _AT_ONCE):
        signs = 2.0 * generator.integers(0, 2, (_AT_ONCE, moved.size), dtype=np.int8) - 1
        count += int((np.abs(signs @ moved) >= reached).sum())
    return (1 + count) / (1 + DRAWS), False


def exact_sign_flip_p(differences: Floats) -> float:
    """Of all patterns of signs of `[n]` differences; NaN where one is missing.

    Each pattern is one of the first half and one of the second: 2^(n/2) sums are kept.
    """
    moved = _scaled(differences)
    reached = abs(float(moved.sum())) - _SLACK
    if not reached > 0:
        return math.nan if math.isnan(reached) else 1.0
    half = moved.size // 2
    one, other = _all_sums(moved[:half]), np.sort(_all_sums(moved[half:]))
    count = int((other.size - np.searchsorted(other, reached - one)).sum())
    return math.ldexp(count, 1 - moved.size)


def _scaled(differences: Floats) -> Floats:
    """Those that aren't 0, in units of the sum of all sizes."""
    scale = float(np.abs(differences).sum()) or 1.0
    sizes = np.abs(differences)
    return np.asarray(differences[~(sizes <= _SLACK * scale)] / scale)


def _all_sums(differences: Floats) -> Floats:
    """`[2^n]`, the sums under all patterns of signs."""
    sums = np.zeros(1)
    for difference in differences:
        sums = np.concatenate([sums - difference, sums + difference])
    return sums
