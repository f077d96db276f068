"""Store groups of imported tasks; a group averages the values of its tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from plugins.benchmarks.harness.imports.logged_groups import LoggedGroup
from plugins.benchmarks.harness.stored_items import store_group, stored_group
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace


@dataclass(frozen=True)
class ImportedGroup:
    """A group in a file of results.

    Attributes:
        place: the file, for messages.
        logged: the metrics that it averages.
        runs: its tasks → settings of their run.
    """

    place: str
    logged: LoggedGroup
    runs: dict[str, str]

    def stored(
        self,
        workspace: Workspace,
        problem: str,
        condition_of_run: Callable[[str, str], str],
        has_other_models: Callable[[str], bool],
        *,
        force: bool,
    ) -> Callable[[], list[str]]:
        """Compare the group with the stored one; returns a function that stores it and returns
        notes.

        Args:
            workspace: the checkout.
            problem: name of the problem.
            condition_of_run: task and run → partition key.
            has_other_models: partition key of a task → whether other models have results of it.
            force: replace a stored group that differs, unless other models have results of it.

        Raises:
            TokenmartError: it averages other metrics or tasks than the stored group.
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

        if before is not None and not _same(before, rows, self.logged.either):
            shared = any(map(has_other_models, before["member"].unique().to_pylist()))
            remedy = ", as other models have results" if shared else ", or replace it with --force"
            if shared or not force:
                raise TokenmartError(
                    f"{self.place}: the group {group.name!r} averages other tasks or metrics than "
                    f"the one imported before; keep them in problems of their own{remedy} (nothing "
                    "was imported)"
                )
        return store


def _same(before: pa.Table | None, rows: pa.Table, either: frozenset[str]) -> bool:
    """Whether a stored group has these values; weights may differ if the values are equal."""
    if before is None:
        return False
    old, new = (
        {(r["member"], r["metric"], r["filter"]): r["weight_by_size"] for r in each.to_pylist()}
        for each in (before, rows)
    )
    return old.keys() == new.keys() and all(
        old[key] == new[key] or f"{key[1]},{key[2]}" in either for key in new
    )
