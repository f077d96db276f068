"""Groups of tasks, and the metrics that they average."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from plugins.benchmarks.harness.stored_items import condition_of
from plugins.benchmarks.schema import EVAL_GROUPS


def group_rows(group: Any, conditions: Mapping[str, str]) -> tuple[str, pa.Table]:
    """Partition key of a group, and its metrics and tasks in the schema of `eval_groups`.

    Args:
        group: the harness's object.
        conditions: task → partition key; the group's has their ending.
    """
    tasks = [str(task.task_name) for task in group.get_all_tasks()]
    members = {task: conditions[task] for task in tasks if task in conditions}
    endings = {key.removeprefix(condition_of(task, "")) for task, key in members.items()}
    ending = endings.pop() if len(endings) == 1 else "mixed"
    rows = [
        {
            "group_name": str(group.name),
            "member": member,
            "metric": average.metric,
            "filter": name,
            "weight_by_size": bool(average.weight_by_size),
        }
        for average in group.aggregate_metric_list
        for name in average.filter_list or [None]
        for member in members.values()
    ]
    table = pa.Table.from_pylist(rows, schema=EVAL_GROUPS)
    return condition_of(str(group.name), ending), table
