"""Groups in the harness's file of results, and the metrics that they average.

The file does not record whether a group averages items or tasks, so both means of its tasks' values
are compared with the group's value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plugins.benchmarks.harness.groups import Average, EvalGroup
from plugins.benchmarks.harness.imports.sample_files import facts_of, part_of


@dataclass(frozen=True)
class LoggedGroup:
    """A group in a file of results.

    Attributes:
        group: the metrics that it averages, over items if both means are equal.
        either: `metric,filter` of values that equal both means.
        neither: `metric,filter` of values that equal neither mean; `group` leaves them out.
    """

    group: EvalGroup
    either: frozenset[str]
    neither: tuple[str, ...]


def logged_groups(results: Mapping[str, Any]) -> Iterator[LoggedGroup]:
    """The groups in a file of results that have values.

    Args:
        results: the file's content; `group_subtasks` names the parts of each group, `n-samples` has
            the number of items of each task.
    """
    parts = results.get("group_subtasks")
    if not isinstance(parts, dict):
        return
    for name in parts:
        values = facts_of(results, name).values
        tasks = tuple(dict.fromkeys(_leaves(parts, name, frozenset())))
        if values and tasks != (name,):
            yield _logged_group(results, name, tasks, values)


def _leaves(parts: Mapping[str, Any], name: str, above: frozenset[str]) -> Iterator[str]:
    """Tasks of a group at any depth; `above` are the groups that contain it."""
    below = parts.get(name)
    if not below:
        yield name
    elif name not in above:
        for part in below:
            yield from _leaves(parts, str(part), above | {name})


def _logged_group(
    results: Mapping[str, Any], name: str, tasks: tuple[str, ...], values: Mapping[str, Any]
) -> LoggedGroup:
    sizes = [_size(results, task) for task in tasks]
    averages: list[Average] = []
    either: set[str] = set()
    neither: list[str] = []
    for key, value in values.items():
        own = [facts_of(results, task).values.get(key) for task in tasks]
        weights = {True: sizes, False: [1] * len(tasks)}
        fitting = [by_size for by_size, each in weights.items() if _is_mean(value, own, each)]
        if not fitting:
            neither.append(key)
            continue
        if len(fitting) == len(weights):
            either.add(key)
        metric, _, filter_name = key.partition(",")
        averages.append(Average(metric, filter_name, fitting[0]))
    return LoggedGroup(EvalGroup(name, tasks, tuple(averages)), frozenset(either), tuple(neither))


def _size(results: Mapping[str, Any], task: str) -> Any:
    counts = part_of(results, "n-samples", task)
    return counts.get("effective") if isinstance(counts, dict) else None


def _is_mean(value: Any, own: Sequence[Any], weights: Sequence[Any]) -> bool:
    """Whether a value is the weighted mean of all tasks' values; False if one is missing."""
    try:
        products = [float(each) * float(w) for each, w in zip(own, weights, strict=True)]
        mean = math.fsum(products) / math.fsum(map(float, weights))
        return math.isclose(mean, float(value), rel_tol=1e-9, abs_tol=1e-12)
    except (TypeError, ValueError, ZeroDivisionError):
        return False
