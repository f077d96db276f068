"""Groups of tasks, and the metrics that they average."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from plugins.benchmarks.harness.stored_items import condition_of
from plugins.benchmarks.schema import EVAL_GROUPS

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Average:
    """A metric that a group averages over items or tasks, for one filter or for each (None)."""

    metric: str
    filter: str | None
    weight_by_size: bool


@dataclass(frozen=True)
class EvalGroup:
    """A group that has values of its own.

    Attributes:
        name: as in the harness.
        tasks: names of its tasks, at any depth.
        averages: metrics that it averages over them.
    """

    name: str
    tasks: tuple[str, ...]
    averages: tuple[Average, ...]

    def condition(self, conditions: Mapping[str, str]) -> str:
        """Partition key: name of the group and settings of its tasks' run.

        Args:
            conditions: task → partition key.
        """
        endings = {
            conditions[task].removeprefix(condition_of(task, ""))
            for task in self.tasks
            if task in conditions
        }
        return condition_of(self.name, endings.pop() if len(endings) == 1 else "mixed")

    def rows(self, conditions: Mapping[str, str]) -> pa.Table:
        """Rows in the schema of `eval_groups`.

        Args:
            conditions: task → partition key.
        """
        import pyarrow as pa

        rows = [
            {
                "group_name": self.name,
                "member": conditions[task],
                "metric": average.metric,
                "filter": average.filter,
                "weight_by_size": average.weight_by_size,
            }
            for average in self.averages
            for task in self.tasks
            if task in conditions
        ]
        return pa.Table.from_pylist(rows, schema=EVAL_GROUPS)
