"""Numbers in sentences: what is rounded, and what must not look perfect."""

from __future__ import annotations

import math

import pytest

from analysis.statistics.correlations import Interval
from analysis.statistics.formats import signed, span, unsigned


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1.0, "+1.00"), (0.9994, "+0.99"), (0.994, "+0.99"), (-0.996, "-0.99"), (-1.0, "-1.00")],
)
def test_only_a_perfect_correlation_is_shown_as_one(value: float, shown: str) -> None:
    assert signed(value) == shown


def test_an_interval_contains_its_estimate_as_shown() -> None:
    assert signed(0.999) == "+0.99"
    assert span(Interval(0.9982, 0.9998, "")) == "+0.99 to +1.00"
    assert span(Interval(-0.9998, -0.9982, "")) == "-1.00 to -0.99"
    assert span(Interval(-0.5, 0.994, "")) == "-0.50 to +0.99"


def test_what_is_no_correlation_is_rounded() -> None:
    assert (unsigned(0.99997, 4), unsigned(math.nan, 2)) == ("1.0000", "–")
