"""What lm-evaluation-harness averages: value and weight of an item in a metric's mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

Pair = tuple[float, float]
"""Value of an item, and its weight in the mean."""

Aggregation = tuple[str, Callable[[Any], Pair]]
"""`mean`, or `exp` for the exponential of the mean; and the function of an item's logged value."""


def _plain(value: Any) -> Pair:
    if not isinstance(value, Real):
        raise TypeError(f"{value!r} is no number")
    return float(value), 1.0


def _by_unit(value: Any) -> Pair:
    nats, units = value
    return -float(nats) / float(units), float(units)


def _bits_by_unit(value: Any) -> Pair:
    nats, units = _by_unit(value)
    return nats / math.log(2), units


def _brier(value: Any) -> Pair:
    from lm_eval.api.metrics import brier_score

    return float(brier_score([value])), 1.0


AGGREGATIONS: dict[str, Aggregation] = {
    "mean": ("mean", _plain),
    "perplexity": ("exp", lambda value: (-float(value), 1.0)),
    "weighted_perplexity": ("exp", _by_unit),
    "bits_per_byte": ("mean", _bits_by_unit),
    "brier_score": ("mean", _brier),
}
"""Functions of `lm_eval.api.metrics` that are weighted means, by name."""


def pairs_of(aggregation: Aggregation, values: Sequence[Any]) -> tuple[float | None, list[Pair]]:
    """Result of an aggregation, None if it fails or is not finite; value and weight by item."""
    aggregate, read = aggregation
    try:
        pairs = [read(value) for value in values]
        mean = math.fsum(v * w for v, w in pairs) / math.fsum(w for _, w in pairs)
        total = math.exp(mean) if aggregate == "exp" else mean
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        return None, []
    return (total, pairs) if math.isfinite(total) else (None, [])
