"""Metrics of logged samples as the harness computed them, for each item and for the task.

A line of samples has the output of `process_results` for its item; the file of results next to it
has the task's aggregates. Neither records the aggregation function: it is the one that the
harness's registry has for the metric's name, else the mean, and items have values only where it
gives the task's value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from plugins.benchmarks.harness.imports.sample_files import RunFacts, metrics_of
from warehouse.errors import TokenmartError

NO_RESULTS = "no results_<date>.json next to the samples has this metric"

_Pair = tuple[float, float]


def _plain(value: Any) -> _Pair:
    return float(value), 1.0


def _negative(value: Any) -> _Pair:
    return -float(value), 1.0


def _by_unit(value: Any) -> _Pair:
    nats, units = value
    return -float(nats) / float(units), float(units)


def _bits_by_unit(value: Any) -> _Pair:
    nats, units = _by_unit(value)
    return nats / math.log(2), units


_Way = tuple[str, Callable[[Any], _Pair]]
"""`mean`, or `exp` for the exponential of the mean; and value and weight of an item."""

_WAYS: dict[str, _Way] = {
    **dict.fromkeys(("acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match", "em"),
                    ("mean", _plain)),
    "perplexity": ("exp", _negative),
    "word_perplexity": ("exp", _by_unit),
    "byte_perplexity": ("exp", _by_unit),
    "bits_per_byte": ("mean", _bits_by_unit),
}  # fmt: skip
"""Metrics that the harness's registry aggregates in the same way for every task."""


def logged_scores(
    samples: Sequence[tuple[str, Mapping[str, Any]]], facts: RunFacts
) -> Iterator[dict[str, Any]]:
    """The metrics of one task in the columns of `eval_scores`, without those of the requests.

    Args:
        samples: samples of one file, with file and line; each has a `filter`.
        facts: facts from the file of results next to it.

    Raises:
        TokenmartError: the accuracy in the file of results differs from that of the samples.
    """
    found: dict[tuple[str, str], list[tuple[int, Any]]] = {}
    for _, sample in samples:
        for metric, value in metrics_of(dict(sample)).items():
            key = metric, str(sample["filter"])
            found.setdefault(key, []).append((int(sample["doc_id"]), value))
    for (metric, filter_name), values in found.items():
        better = facts.better.get(metric)
        row: dict[str, Any] = dict.fromkeys(
            ("item", "value", "weight", "aggregate", "items", "reason")
        )
        row |= {
            "filter": filter_name,
            "metric": metric,
            "better": None if better is None else "higher" if better else "lower",
        }
        whole = facts.values.get(f"{metric},{filter_name}")
        aggregate, read = _WAYS.get(metric, ("mean", _plain))
        total, pairs = _total(aggregate, read, [value for _, value in values])
        known = whole is not None or metric in _WAYS
        fits = (
            total is not None
            and known
            and (not _is_finite(whole) or math.isclose(total, whole, rel_tol=1e-6, abs_tol=1e-9))
        )
        if metric == "acc" and _is_finite(whole) and total is not None and not fits:
            raise TokenmartError(
                f"{samples[0][0]}: the mean acc of the samples is {total:g}, in the file of "
                f"results next to them {whole:g}: they are of different runs",
                code="other-run",
                where=samples[0][0],
            )
        if _is_finite(whole):
            yield {**row, "value": float(whole), "items": len(values)}
        elif whole is not None:
            yield {**row, "reason": f"its value is {whole!r}"[:120] + ", not one finite number"}
        elif not fits:
            yield {**row, "reason": NO_RESULTS}
        if fits and (whole is None or _is_finite(whole)):
            for (item, _), (number, weight) in zip(values, pairs, strict=True):
                yield {
                    **row, "item": item, "value": number, "weight": weight, "aggregate": aggregate,
                }  # fmt: skip


def _total(
    aggregate: str, read: Callable[[Any], _Pair], values: Sequence[Any]
) -> tuple[float | None, list[_Pair]]:
    """Result of an aggregation, None if it fails or is not finite; value and weight by item."""
    try:
        pairs = [read(value) for value in values]
        mean = math.fsum(v * w for v, w in pairs) / math.fsum(w for _, w in pairs)
        total = math.exp(mean) if aggregate == "exp" else mean
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        return None, []
    return (total, pairs) if math.isfinite(total) else (None, [])


def _is_finite(value: Any) -> TypeGuard[float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value)
