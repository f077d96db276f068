"""Rankings by brute force: every pair compared, as HELM's definition reads."""

from __future__ import annotations

import math
from collections.abc import Mapping

Column = Mapping[str, float | None]
"""Entry → score; None where the run failed."""


def win_rates(column: Column, direction: str) -> dict[str, float]:
    """Entry → share of the others it beats, half of those it equals."""
    found = {entry: score for entry, score in column.items() if score is not None}
    if len(found) < 2 or direction not in ("higher", "lower"):
        return {}
    sign = 1 if direction == "higher" else -1
    rates = {}
    for entry, score in found.items():
        others = [sign * other for name, other in found.items() if name != entry]
        won = sum(1.0 if other < sign * score else 0.5 for other in others if other <= sign * score)
        rates[entry] = won / len(others)
    return rates


def geometric_mean(values: list[float]) -> float:
    """The n-th root of the product; 0 when one is 0."""
    return math.prod(values) ** (1 / len(values))


def rank_of(scores: Mapping[str, float], entry: str) -> int:
    """1 + entries with a better score."""
    return 1 + sum(round(other, 12) > round(scores[entry], 12) for other in scores.values())
