"""Spearman, Pearson, Kendall and partial correlation, for one pair or for a batch of pairs.

The batch forms take `[resamples, points]` arrays and return one coefficient per row; an
undefined coefficient (a constant column, fewer than `MINIMUM_POINTS` points) is NaN. At the end:
how correlations and intervals are shown; that needs no scipy, which is imported where it computes.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.intp]

MINIMUM_POINTS = 3
"""Two points correlate perfectly whatever they are: below three the result is undefined."""


@dataclass(frozen=True)
class Interval:
    """A 95% confidence interval; `low` and `high` are NaN where there is none.

    degenerate: resamples with an undefined statistic, left out; 0 without a bootstrap.
    """

    low: float
    high: float
    method: str
    degenerate: int = 0

    @property
    def record(self) -> dict[str, Any]:
        """As JSON-ready values."""
        return {
            "low": number(self.low),
            "high": number(self.high),
            "method": self.method,
            "degenerate_resamples": self.degenerate,
        }


def number(value: float) -> float | None:
    """Twelve digits, None for NaN: what is left beyond is the rounding of the machine."""
    return None if math.isnan(value) else round(value, 12)


def codes(labels: Iterable[Hashable]) -> Indices:
    """`[n]` labels as integers from 0, in the order of their first appearance."""
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(label, len(known)) for label in labels], dtype=np.intp)


def without_rounding(values: Floats) -> Floats:
    """Values without the rounding of sums, so that two that are equal tie in their ranks.

    The last bits of a mean depend on the order of addition, that is, on the number of threads or
    on the linear algebra library. Values are rounded to 1e-10 of the decade of their median
    magnitude, which outliers don't move.

    Args:
        values: of one metric, of any shape, NaN where missing.
    """
    sizes = np.abs(values[np.isfinite(values) & (values != 0)])
    if not sizes.size:
        return values
    digits = 10 - math.floor(math.log10(float(np.median(sizes))))
    return np.asarray(np.round(values, digits)) if abs(digits) < 300 else values


def masked_ranks(values: Floats, keep: Flags) -> Floats:
    """`[rows, points]` ranks from 1 among each row's kept points, 0 outside; ties share a mean."""
    from scipy.stats import rankdata

    return np.where(keep, rankdata(np.where(keep, values, np.inf), axis=1), 0.0)


def unit_ranks_within(values: Floats, families: Indices | None) -> Floats:
    """`[rows, n]` centred ranks of unit length, less their family means; NaN where constant."""
    from scipy.stats import rankdata

    ranks: Floats = rankdata(values, axis=1)
    if families is None:
        ranks = ranks - ranks.mean(axis=1, keepdims=True)
    else:
        sizes = np.bincount(families)
        member = (np.arange(sizes.size)[:, None] == families) / sizes[:, None]
        ranks = ranks - (ranks @ member.T)[:, families]
    length = np.linalg.norm(ranks, axis=1, keepdims=True)
    return np.asarray(ranks / np.where(length > 1e-9, length, math.nan))


def pearson_rows(x: Floats, y: Floats, keep: Flags | None = None) -> Floats:
    """`[rows]` Pearson's r of `[rows, points]` over each row's kept points; NaN where undefined."""
    weights = np.ones(x.shape) if keep is None else keep.astype(np.float64)
    count = weights.sum(axis=1)
    safe_count = np.maximum(count, 1.0)
    dx = (x - ((x * weights).sum(axis=1) / safe_count)[:, None]) * weights
    dy = (y - ((y * weights).sum(axis=1) / safe_count)[:, None]) * weights
    sxx = (dx * dx).sum(axis=1)
    syy = (dy * dy).sum(axis=1)
    # A column is constant when its spread is rounding noise relative to its size.
    flat_x = sxx <= count * (1e-14 * np.abs(x * weights).max(axis=1, initial=0.0)) ** 2
    flat_y = syy <= count * (1e-14 * np.abs(y * weights).max(axis=1, initial=0.0)) ** 2
    defined = (count >= MINIMUM_POINTS) & ~flat_x & ~flat_y
    with np.errstate(invalid="ignore", divide="ignore"):
        r = (dx * dy).sum(axis=1) / (np.sqrt(sxx) * np.sqrt(syy))
    return np.where(defined, np.clip(r, -1.0, 1.0), np.nan)


def spearman_rows(x: Floats, y: Floats, keep: Flags | None = None) -> Floats:
    """Spearman's rho: `pearson_rows` of the ranks among each row's kept points."""
    flags = np.ones(x.shape, dtype=np.bool_) if keep is None else keep
    if keep is None and len(y) > 1 and y.strides[0] == 0:  # one row, broadcast
        rank_y = np.broadcast_to(masked_ranks(y[:1], flags[:1]), y.shape)
    else:
        rank_y = masked_ranks(y, flags)
    return pearson_rows(masked_ranks(x, flags), rank_y, flags)


def pearson(x: Floats, y: Floats) -> float:
    """Pearson's r of two columns of n points, scipy's; NaN where undefined."""
    from scipy.stats import pearsonr

    if not _defined(x, y) or math.isnan(
        float(pearson_rows(_unit_scale(x)[None], _unit_scale(y)[None])[0])
    ):
        return math.nan
    return float(pearsonr(_unit_scale(x), _unit_scale(y)).statistic)


def spearman(x: Floats, y: Floats) -> float:
    """Spearman's rho of two columns of n points, scipy's; NaN where undefined."""
    from scipy.stats import spearmanr

    return float(spearmanr(x, y).statistic) if _defined(x, y) else math.nan


def kendall(x: Floats, y: Floats) -> float:
    """Kendall's tau-b of two columns of n points, scipy's; NaN where undefined."""
    from scipy.stats import kendalltau

    return float(kendalltau(x, y).statistic) if _defined(x, y) else math.nan


def partial_spearman(x: Floats, y: Floats, control: Floats) -> float:
    """Spearman's rho of `[n]` columns with the rank of `control` held constant.

    The first-order partial correlation of the ranks; NaN where undefined.
    """
    xy, xz, yz = spearman(x, y), spearman(x, control), spearman(y, control)
    spread = (1.0 - xz**2) * (1.0 - yz**2)
    if not spread > 1e-12:
        return math.nan
    return float(np.clip((xy - xz * yz) / math.sqrt(spread), -1.0, 1.0))


def _defined(x: Floats, y: Floats) -> bool:
    return x.size >= MINIMUM_POINTS and bool(np.ptp(x) > 0 and np.ptp(y) > 0)


def _unit_scale(values: Floats) -> Floats:
    """Divide by the largest magnitude, so that squares neither overflow nor vanish."""
    largest = float(np.abs(values).max(initial=0.0))
    return values / largest if largest > 0 else values


def signed(value: float, digits: int = 2, undefined: str = "–") -> str:
    """A correlation with its sign; only a perfect one is shown as ±1, see `before_rounding`."""
    return undefined if math.isnan(value) else f"{before_rounding(value, digits):+.{digits}f}"


def unsigned(value: float, digits: int) -> str:
    """A number without a sign, a p-value for instance; a dash where it is undefined."""
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def before_rounding(value: float, digits: int) -> float:
    """A number that isn't rounded to ±1 unless it is perfect: 0.996 with two digits is 0.99."""
    almost = 1 - 0.5 * 10**-digits <= abs(value) < 1 - 1e-9
    return math.copysign(1 - 10**-digits, value) if almost else value


def span(interval: Interval, undefined: str = "–") -> str:
    """Both ends of an interval of correlations; near ±1 it is shown wider, never narrower."""
    if math.isnan(interval.low):
        return undefined
    low = before_rounding(interval.low, 2) if interval.low > 0 else interval.low
    high = before_rounding(interval.high, 2) if interval.high < 0 else interval.high
    return f"{low:+.2f} to {high:+.2f}"
