"""Numbers in sentences and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analysis.statistics.correlations import Interval
from warehouse.terminal import counted


def signed(value: float, digits: int = 2, undefined: str = "–") -> str:
    """A correlation with its sign; only a perfect one is shown as ±1, see `before_rounding`."""
    return undefined if math.isnan(value) else f"{before_rounding(value, digits):+.{digits}f}"


def unsigned(value: float, digits: int) -> str:
    """A number without a sign, a p-value for instance; a dash where it is undefined."""
    return "–" if math.isnan(value) else f"{before_rounding(value, digits):.{digits}f}"


def before_rounding(value: float, digits: int) -> float:
    """A number that isn't rounded to ±1 unless it is perfect: 0.996 with two digits is 0.99."""
    almost = 1 - 0.5 * 10**-digits <= abs(value) < 1 - 1e-9
    return math.copysign(1 - 10**-digits, value) if almost else value


def span(interval: Interval, undefined: str = "–") -> str:
    """Both ends of an interval of correlations."""
    if math.isnan(interval.low):
        return undefined
    return f"{signed(interval.low)} to {signed(interval.high)}"


def first_few(names: Sequence[str], most: int, noun: str = "") -> str:
    """The first names of a list, and how many more there are."""
    count = len(names) - most
    more = counted(count, f"more {noun}") if noun else f"{count} more"
    return ", ".join(names[:most]) + (f" and {more}" if count > 0 else "")
