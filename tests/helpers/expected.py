"""Metric → its expected values, and how near the marts must come."""

from __future__ import annotations

from collections.abc import Callable

import expected_conditions
import expected_excerpts
import expected_full
import expected_pairs
import pytest
from metric_oracle import Oracle, Values

EXPECTED: dict[str, Callable[[Oracle], Values]] = {
    **expected_full.EXPECTED,
    **expected_pairs.EXPECTED,
    **expected_excerpts.EXPECTED,
    **expected_conditions.EXPECTED,
}


def assert_agrees(found: Values, expected: Values) -> None:
    """Same values to 1e-9 relative; null where the formula has nothing to say."""
    assert expected
    assert set(found) >= set(expected)
    for key, got in found.items():
        value = expected.get(key)
        assert (got is None) == (value is None), (key, got, value)
        if value is not None:
            assert got == pytest.approx(value, rel=1e-9, abs=1e-12), key
