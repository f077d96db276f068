"""Contents of a problem file as tables for SQL: checkpoints, pairs of conditions."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.files import storage_errors
from warehouse.paths import Workspace
from warehouse.problem.spec import Problem
from warehouse.remote import source
from warehouse.store.parquet_files import write_table
from warehouse.store.schema import CONDITION_PAIRS, LINEUP


def store_lineup(problem: Problem, workspace: Workspace) -> None:
    """Write the table of a problem's checkpoints, whether they were extracted or not.

    What is done to a checkpoint has its size and is left out.

    Raises:
        StorageError: the disk is full or the folder can't be written.
    """
    rows = [
        {"model_id": model.model_id, "parameters": model.parameters}
        for model in problem.ranked_models
        if model.base is None
    ]
    path = workspace.store / "lineup" / f"problem={problem.name}" / "lineup.parquet"
    table = pa.Table.from_pylist(rows, schema=LINEUP)
    # a file that is rewritten would have dbt build everything again
    with suppress(OSError, pa.ArrowInvalid):
        if pq.ParquetFile(source(path)).read().equals(table):
            return
    write_table(path, table)


def store_pairs(problem: Problem, workspace: Workspace) -> None:
    """Write the table of a problem's declared pairs; without any there is no table.

    Raises:
        StorageError: the disk is full or the folder can't be written.
    """
    folder = workspace.store / "condition_pairs" / f"problem={problem.name}"
    path = folder / "condition_pairs.parquet"
    if not problem.compare:
        with storage_errors(path):
            path.unlink(missing_ok=True)
        return
    rows = [{"condition": long, "short_condition": short} for long, short in problem.compare]
    write_table(path, pa.Table.from_pylist(rows, schema=CONDITION_PAIRS))
