"""Metrics that a harness task computes from responses: filters, `process_results`, aggregation.

A task may define its own metrics. Its own functions run here on our responses, so that a metric
with the harness's name has the harness's value. If they can't run, the reason is stored instead.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plugins.benchmarks.harness.aggregation import AGGREGATIONS, Aggregation
from plugins.benchmarks.harness.tasks import EvalTask, EvalUnit, quiet_harness


@dataclass(frozen=True)
class Response:
    """A model's response to one request: log-likelihood and whether it is greedy, or a text."""

    loglikelihood: float
    is_greedy: bool
    text: str


@dataclass(frozen=True)
class AnsweredUnit:
    """A unit and its responses, in the order of its requests.

    Attributes:
        unit: with its requests.
        responses: None for a request that could not be scored.
    """

    unit: EvalUnit
    responses: Sequence[Response | None]


_Place = tuple[int, int]
"""Unit and segment of a request: its key in the tables of `eval`."""


def filtered_answers(task: EvalTask, answered: Sequence[AnsweredUnit]) -> Iterator[dict[str, Any]]:
    """Generated texts without a filter (`none`) and after each of the task's own filters.

    Rows have the columns doc_id, segment, filter and answer of `eval_answers`.
    """
    names = [ensemble.name for ensemble in _filters(task)]
    if "none" not in names:
        for answers in answered:
            for segment, (request, response) in enumerate(
                zip(answers.unit.requests, answers.responses, strict=True)
            ):
                if request.kind == "generate_until" and response is not None:
                    yield _answer((answers.unit.number, segment), "none", response.text)
    placed = [
        (place, instance)
        for place, instance in _instances(answered)
        if instance.request_type == "generate_until"
    ]
    if placed:
        _apply_filters(task, [instance for _, instance in placed])
    for name in names:
        for place, instance in placed:
            answer = instance.filtered_resps[name]
            while isinstance(answer, list):
                answer = answer[0] if answer else None
            yield _answer(place, name, None if answer is None else str(answer))


def _answer(place: _Place, name: str, text: str | None) -> dict[str, Any]:
    return {"doc_id": place[0], "segment": place[1], "filter": name, "answer": text}


def _filters(task: EvalTask) -> list[Any]:
    return list(getattr(task.task, "_filters", None) or [])


def _apply_filters(task: EvalTask, instances: Sequence[Any]) -> None:
    with quiet_harness():
        for ensemble in _filters(task):
            ensemble.apply(instances)


def _instances(answered: Sequence[AnsweredUnit]) -> list[tuple[_Place, Any]]:
    """Copies of the harness's instances with our responses, by document and index.

    If an instance has no response, its document is left out.
    """
    instances: dict[int, tuple[_Place, Any]] = {}
    unanswered = set()
    for answers in answered:
        for segment, (request, response) in enumerate(
            zip(answers.unit.requests, answers.responses, strict=True)
        ):
            key = id(request.instance)
            if key not in instances:
                copied = copy.copy(request.instance)
                copied.resps, copied.filtered_resps = [], {}
                instances[key] = (answers.unit.number, segment), copied
            instance = instances[key][1]
            if response is None:
                unanswered.add(instance.doc_id)
            elif request.kind == "generate_until":
                instance.resps.append(response.text)
            elif request.kind == "loglikelihood_rolling":
                instance.resps.append(response.loglikelihood)
            else:
                instance.resps.append((response.loglikelihood, response.is_greedy))
    whole = (pair for pair in instances.values() if pair[1].doc_id not in unanswered)
    return sorted(whole, key=lambda pair: (pair[1].doc_id, pair[1].idx))


def score_rows(
    task: EvalTask, answered: Sequence[AnsweredUnit], absent: str = ""
) -> Iterator[dict[str, Any]]:
    """The task's own metrics in the columns of `eval_scores`, for the task and for each item.

    Args:
        task: with the harness's object.
        answered: its stored units.
        absent: reason why responses are missing, empty if none are; if not empty, no metric has a
            value.
    """
    reason = absent
    if not reason and getattr(task.task, "UNSAFE_CODE", False):
        reason = "the task runs generated code, which the harness does on request only"
    values: dict[tuple[str, str], list[tuple[int, Any]]] = {}
    if not reason:
        try:
            values = _values(task, answered)
        except Exception as error:  # whatever the task's own code raises
            reason = _failed("process_results", error)
    aggregations = task.task.aggregation()
    if reason:
        for name in [ensemble.name for ensemble in _filters(task)] or ["none"]:
            for metric in aggregations:
                yield _row(task, name, metric, reason=reason)
        return
    for (metric, name), of_items in values.items():
        yield from _metric_rows(task, name, metric, of_items, aggregations.get(metric))


def _failed(what: str, error: Exception) -> str:
    reason = (str(error).strip().splitlines() or [""])[0][:200]
    return f"{what} of the task failed ({type(error).__name__}: {reason})"


def _values(
    task: EvalTask, answered: Sequence[AnsweredUnit]
) -> dict[tuple[str, str], list[tuple[int, Any]]]:
    """Results of `process_results` by metric and filter: item and value."""
    instances = [instance for _, instance in _instances(answered)]
    _apply_filters(task, instances)
    by_item: dict[int, list[Any]] = {}
    for instance in instances:
        by_item.setdefault(int(instance.doc_id), []).append(instance)
    values: dict[tuple[str, str], list[tuple[int, Any]]] = {}
    with quiet_harness():
        for name in instances[0].filtered_resps if instances else ():
            for item, of_item in by_item.items():
                responses = [instance.filtered_resps[name] for instance in of_item]
                result: Mapping[str, Any] = task.task.process_results(of_item[0].doc, responses)
                for metric, value in result.items():
                    values.setdefault((metric, name), []).append((item, value))
    return values


def _metric_rows(
    task: EvalTask, name: str, metric: str, of_items: Sequence[tuple[int, Any]], stated: Any
) -> Iterator[dict[str, Any]]:
    from lm_eval.api.metrics import mean

    aggregation = mean if stated is None else stated
    try:
        with quiet_harness():
            whole = aggregation([value for _, value in of_items])
    except Exception as error:  # whatever the task's own code raises
        yield _row(task, name, metric, reason=_failed("aggregation", error))
        return
    number = _number(whole)
    if number is None:
        shown = f"its value is {whole!r}"[:120]
        yield _row(task, name, metric, reason=f"{shown}, not one finite number")
        return
    yield _row(task, name, metric, value=number, items=len(of_items))
    mean_of = _aggregation(aggregation)
    if mean_of is None:
        return
    aggregate, read = mean_of
    for item, value in of_items:
        try:
            number, weight = read(value)
        except (TypeError, ValueError, IndexError, ZeroDivisionError):
            continue
        if math.isfinite(number):
            of_item = {"value": number, "weight": weight, "aggregate": aggregate}
            yield _row(task, name, metric, item=item, **of_item)


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _aggregation(function: Any) -> Aggregation | None:
    """The mean that an aggregation is; None for F1, BLEU, or an aggregation of the task's own."""
    from lm_eval.api import metrics

    name = getattr(function, "__name__", "")
    return AGGREGATIONS.get(name) if function is getattr(metrics, name, None) else None


def _row(task: EvalTask, name: str, metric: str, **columns: Any) -> dict[str, Any]:
    better = task.task.higher_is_better().get(metric)
    return {
        "item": None,
        "filter": name,
        "metric": metric,
        "value": None,
        "weight": None,
        "aggregate": None,
        "items": None,
        "better": None if better is None else "higher" if better else "lower",
        "reason": None,
        **columns,
    }
