"""The pairs of conditions that a problem file declares, as a table that SQL can read."""

from __future__ import annotations

import pyarrow as pa

from warehouse.files import storage_errors
from warehouse.paths import Workspace
from warehouse.problem.spec import Problem
from warehouse.store.schema import CONDITION_PAIRS
from warehouse.store.token_files import write_table


def store_pairs(problem: Problem, workspace: Workspace) -> None:
    """Write the table of a problem's declared pairs; without any there is no table.

    Raises:
        StorageError: the disk is full or the folder can't be written.
    """
    folder = workspace.data / "condition_pairs" / f"problem={problem.name}"
    path = folder / "condition_pairs.parquet"
    if not problem.compare:
        with storage_errors(path):
            path.unlink(missing_ok=True)
        return
    rows = [{"condition": long, "short_condition": short} for long, short in problem.compare]
    write_table(path, pa.Table.from_pylist(rows, schema=CONDITION_PAIRS))
