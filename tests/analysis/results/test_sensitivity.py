"""What a correlation hangs on: kinds left out, and parts of the target."""

from __future__ import annotations

import math

import numpy as np
import pytest

from analysis.results.sensitivity import by_part, kinds_left_out

KINDS = ["a", "a", "b", "b", "c", "c", "d", "d"]
TARGET = np.arange(8.0)


def test_a_kind_that_spoils_the_ranking_is_found() -> None:
    """All but kind `d` are in order; `d` is put first by the metric and last by the target."""
    metric = np.array([0.0, 1, 2, 3, 4, 5, -2, -1])
    found = kinds_left_out(metric, TARGET, KINDS)
    assert [each.kinds for each in found.each] == [("a",), ("b",), ("c",), ("d",)]
    assert [each.models for each in found.each] == [6] * 4
    assert found.each[3].spearman == pytest.approx(1)
    # ranks 3, 4, 5, 6, 1, 2 against 1 to 6: squares of differences 4·4 + 2·16 = 48
    assert found.each[0].spearman == pytest.approx(1 - 6 * 48 / (6 * 35))
    # with two kinds left out four models are left: too few to say anything
    assert found.lowest is None and found.highest is None


def test_the_two_kinds_that_move_it_furthest_are_named() -> None:
    kinds = [*KINDS, "e", "e"]
    target = np.arange(10.0)
    metric = np.array([0.0, 1, 2, 3, 4, 5, -4, -3, -2, -1])
    found = kinds_left_out(metric, target, kinds)
    assert found.highest is not None and found.lowest is not None
    assert found.highest.kinds == ("d", "e") and found.highest.spearman == pytest.approx(1)
    # ranks 5, 6, 1, 2, 3, 4 against 1 to 6: squares of differences 2·16 + 4·4 = 48
    assert found.lowest.models == 6 and found.lowest.spearman == pytest.approx(1 - 48 / 35)


def test_too_few_models_are_no_correlation() -> None:
    found = kinds_left_out(np.arange(4.0), np.arange(4.0), ["a", "b", "c", "d"])
    assert all(math.isnan(each.spearman) and each.models == 3 for each in found.each)


def test_each_part_of_the_target_is_correlated_by_itself() -> None:
    metric = np.arange(5.0)
    parts = {"near": -metric, "far": metric, "unknown": np.array([0, 1, 2, 3, np.nan])}
    found = by_part(metric, parts)
    assert found["near"] == pytest.approx(-1) and found["far"] == pytest.approx(1)
    assert math.isnan(found["unknown"])
