"""Merges of a problem file in the store: a ranking has these, with the weights that they make."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from plugins.merging.problem import MergeProblem
from plugins.merging.tables import MERGE_ENTRIES
from warehouse.paths import Workspace
from warehouse.store.parquet_files import read_table, write_table

if TYPE_CHECKING:
    from plugins.merging.make import Plan


def stored_entries(problem: str, workspace: Workspace) -> dict[str, dict[str, str]]:
    """Entry → its row of `merge_entries`."""
    path = _entries_path(problem, workspace)
    rows = read_table(path).to_pylist() if path.is_file() else []
    return {row["entry"]: row for row in rows}


def store_entries(problem: MergeProblem, plans: Collection[Plan], workspace: Workspace) -> None:
    """Write the merges of a problem file; of one without a plan, the weights known before.

    Raises:
        StorageError: the data folder can't be written.
    """
    made = {plan.merge.name: plan.fingerprint for plan in plans}
    before = stored_entries(problem.name, workspace)
    rows = []
    for merge in problem.merges:
        known = before.get(merge.name, {})
        same = known.get("recipe_sha256") == merge.recipe_sha256
        last = known["fingerprint"] if same else ""
        rows.append(
            {
                "entry": merge.name,
                "recipe_sha256": merge.recipe_sha256,
                "fingerprint": made.get(merge.name, last),
            }
        )
    table = pa.Table.from_pylist(rows, schema=MERGE_ENTRIES)
    write_table(_entries_path(problem.name, workspace), table)


def _entries_path(problem: str, workspace: Workspace) -> Path:
    return workspace.store / "merge_entries" / f"problem={problem}" / "entries.parquet"
