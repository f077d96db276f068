"""Mixtures of fractions and percent are found; values on one scale are not."""

from __future__ import annotations

import pytest

from plugins.benchmarks.scores.mixed_scales import mixed_scales


@pytest.mark.parametrize(
    ("values", "names"),
    [
        # one of three runs is in percent
        ([("a", 0.3), ("b", 0.4), ("c", 35.0)], ("c",)),
        # one of three runs is a fraction
        ([("a", 30.0), ("b", 40.0), ("c", 0.35)], ("c",)),
        # a run changes its scale half-way
        ([("a", 0.3), ("a", 0.4), ("b", 0.3), ("b", 42.0), ("b", 45.0)], ("b",)),
        # as many of each: the fractions
        ([("a", 0.3), ("b", 40.0)], ("a",)),
        # 0.05 may be a percent or a fraction, and so may 7
        ([("a", 0.05), ("b", 40.0)], ()),
        ([("a", 0.5), ("b", 7.0)], ()),
        # one scale from small to large values
        ([("a", 0.5), ("b", 3.0), ("c", 40.0)], ()),
        ([("a", 0.3), ("b", 0.4)], ()),
        ([("a", float("nan")), ("b", -12.0)], ()),
        ([], ()),
    ],
)
def test_names_on_the_rarer_scale(values, names):
    assert mixed_scales(values) == names
