"""Metrics of logged samples as the harness computed them, for each item and for the task.

A line of samples has the output of `process_results` for its item; the file of results next to it
has the task's aggregates. Neither file records the aggregation function, so the usual ones are
tried. If none of them gives the task's value, the items have no value here. Without a file of
results, only metrics that every task aggregates in the same way have a value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from plugins.benchmarks.harness.imports.sample_files import RunFacts, metrics_of
from warehouse.errors import TokenmartError

_NO_RESULTS = (
    "no results_<date>.json next to the samples has the task's aggregate of its items' values"
)


@dataclass(frozen=True)
class _Way:
    """An aggregation function: a weighted mean, or the exponential of one.

    aggregate: mean or exp, as in `eval_scores`. read: function that returns value and weight of an
    item.
    """

    aggregate: str
    read: Callable[[Any], tuple[float, float]]


def _plain(value: Any) -> tuple[float, float]:
    if not isinstance(value, int | float):
        raise TypeError
    return float(value), 1.0


def _negative(value: Any) -> tuple[float, float]:
    return -_plain(value)[0], 1.0


def _by_unit(value: Any) -> tuple[float, float]:
    nats, units = value
    return -float(nats) / float(units), float(units)


def _bits_by_unit(value: Any) -> tuple[float, float]:
    nats, units = _by_unit(value)
    return nats / math.log(2), units


_MEAN, _EXP = _Way("mean", _plain), _Way("exp", _negative)
_WAYS = (_MEAN, _EXP, _Way("exp", _by_unit), _Way("mean", _bits_by_unit))
_ALIKE = {
    **dict.fromkeys(
        ("acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match", "em"), _MEAN
    ),
    "perplexity": _EXP,
    "word_perplexity": _WAYS[2],
    "byte_perplexity": _WAYS[2],
    "bits_per_byte": _WAYS[3],
}
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
        row = {
            "item": None,
            "filter": filter_name,
            "metric": metric,
            "value": None,
            "weight": None,
            "aggregate": None,
            "items": None,
            "better": None if better is None else "higher" if better else "lower",
            "reason": None,
        }
        whole = facts.values.get(f"{metric},{filter_name}")
        way = _way(metric, [value for _, value in values], whole)
        if metric == "acc" and _is_finite(whole) and way is None and _are_flags(values):
            mean = math.fsum(value for _, value in values) / len(values)
            raise TokenmartError(
                f"{samples[0][0]}: the mean acc of the samples is {mean:g}, in the file of "
                f"results next to them it is {whole:g}: the two are of different runs; "
                "replace the file of results by that of this run, or remove it"
            )
        if _is_finite(whole):
            yield {**row, "value": float(whole), "items": len(values)}
        elif whole is not None:
            yield {**row, "reason": f"its value is {whole!r}"[:120] + ", not one finite number"}
        elif way is None:
            yield {**row, "reason": _NO_RESULTS}
        for item, value in values if way else ():
            assert way is not None
            number, weight = way.read(value)
            yield {
                **row, "item": item, "value": number, "weight": weight, "aggregate": way.aggregate,
            }  # fmt: skip


def renamed_filters(samples: Sequence[Mapping[str, Any]], facts: RunFacts) -> dict[str, str]:
    """Number of a filter in the samples → its name in the file of results.

    Both are in the task's order. Names are used only if all means agree with the file of results.
    """
    numbered = list(dict.fromkeys(str(sample["filter"]) for sample in samples))
    named = list(dict.fromkeys(key.partition(",")[2] for key in facts.values))
    given = ["none", *(f"filter-{number}" for number in range(2, len(numbered) + 1))]
    if numbered != given or len(numbered) != len(named):
        return {}
    names = dict(zip(numbered, named, strict=True))
    for number, name in names.items():
        own = [metrics_of(dict(each)) for each in samples if str(each["filter"]) == number]
        for metric in own[0]:
            values = [each.get(metric) for each in own]
            if _way(metric, values, facts.values.get(f"{metric},{name}")) is None:
                return {}
    return names


def _way(metric: str, values: Sequence[Any], whole: Any) -> _Way | None:
    """The aggregation that gives the task's value; if it is unknown, the metric's usual one."""
    if whole is None:
        way = _ALIKE.get(metric)
        return way if way and _total(way, values) is not None else None
    if not _is_finite(whole):
        return None
    for way in _WAYS:
        total = _total(way, values)
        if total is not None and math.isclose(total, whole, rel_tol=1e-6, abs_tol=1e-9):
            return way
    return None


def _total(way: _Way, values: Sequence[Any]) -> float | None:
    """Result of an aggregation over all items; None if it fails or is not a number."""
    try:
        read = [way.read(value) for value in values]
        mean = math.fsum(v * w for v, w in read) / math.fsum(w for _, w in read)
        total = math.exp(mean) if way.aggregate == "exp" else mean
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        return None
    return total if math.isfinite(total) else None


def _are_flags(values: Sequence[tuple[int, Any]]) -> bool:
    return all(isinstance(value, int | float) and value in (0, 1) for _, value in values)


def _is_finite(value: Any) -> TypeGuard[float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value)
