"""Groups of imported tasks: stored with the tasks, whose values they average.

The harness's file of results does not record whether a group averages items or tasks: both means of
its tasks' values are compared with its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from plugins.benchmarks.harness.groups import Average, EvalGroup
from plugins.benchmarks.harness.imports.sample_files import facts_of, part_of
from plugins.benchmarks.harness.stored_items import store_group, stored_group
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace


@dataclass(frozen=True)
class ImportedGroup:
    """A group that a file of results gives.

    Attributes:
        place: the file, for messages.
        logged: what it averages.
        runs: its tasks → what sets their run apart.
    """

    place: str
    logged: LoggedGroup
    runs: dict[str, str]

    def stored(
        self,
        workspace: Workspace,
        problem: str,
        condition_of_run: Callable[[str, str], str],
        *,
        force: bool,
    ) -> Callable[[], list[str]]:
        """Check the group against a stored one; what is returned stores it, and gives notes.

        Args:
            workspace: the checkout.
            problem: name of the problem.
            condition_of_run: task and run → partition key.
            force: replace a stored group that differs.

        Raises:
            TokenmartError: it averages something other than the stored group.
        """
        group = self.logged.group
        conditions = {task: condition_of_run(task, run) for task, run in self.runs.items()}
        condition, rows = group.condition(conditions), group.rows(conditions)
        before = stored_group(workspace, problem, condition)

        def store() -> list[str]:
            if not _same(before, rows, self.logged.either):
                store_group(workspace, problem, condition, rows)
            return [
                f"{self.place}: {group.name}: {key} is the mean of neither its tasks nor their "
                "items; it was not imported"
                for key in self.logged.neither
            ]

        if before is not None and not force and not _same(before, rows, self.logged.either):
            raise TokenmartError(
                f"{self.place}: the group {group.name!r} averages other tasks or metrics than the "
                "one imported before; keep them in problems of their own, or replace it with "
                "--force (nothing was imported)"
            )
        return store


def _same(before: pa.Table | None, rows: pa.Table, either: frozenset[str]) -> bool:
    """Whether a stored group gives these values: weights may differ where both give the same."""
    if before is None:
        return False
    old, new = (
        {(r["member"], r["metric"], r["filter"]): r["weight_by_size"] for r in each.to_pylist()}
        for each in (before, rows)
    )
    return old.keys() == new.keys() and all(
        old[key] == new[key] or f"{key[1]},{key[2]}" in either for key in new
    )


@dataclass(frozen=True)
class LoggedGroup:
    """A group in a file of results.

    Attributes:
        group: what it averages; items where the means of items and of tasks are equal.
        either: `metric,filter` of values that equal both means.
        neither: `metric,filter` of values that equal none; `group` leaves them out.
    """

    group: EvalGroup
    either: frozenset[str]
    neither: tuple[str, ...]


def logged_groups(results: Mapping[str, Any]) -> Iterator[LoggedGroup]:
    """The groups in a file of results that have values.

    Args:
        results: the file's content; `group_subtasks` names the parts of each group, `n-samples`
            how many items a task has.
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
    """Tasks of a group at any depth; `above` are the groups that it is in."""
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
    """Whether a value is the weighted mean of all tasks' values; not where one is missing."""
    try:
        products = [float(each) * float(w) for each, w in zip(own, weights, strict=True)]
        mean = math.fsum(products) / math.fsum(map(float, weights))
        return math.isclose(mean, float(value), rel_tol=1e-9, abs_tol=1e-12)
    except (TypeError, ValueError, ZeroDivisionError):
        return False
