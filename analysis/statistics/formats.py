"""Numbers in sentences and tables."""

from __future__ import annotations

import math

from analysis.statistics.correlations import Interval


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
