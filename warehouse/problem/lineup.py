"""The models that a problem file names, as a table that SQL can read."""

from __future__ import annotations

import pyarrow as pa

from warehouse.paths import Workspace
from warehouse.problem.spec import Problem
from warehouse.store.schema import LINEUP
from warehouse.store.token_files import write_table


def store_lineup(problem: Problem, workspace: Workspace) -> None:
    """Write the table of a problem's models, whether they were extracted or not.

    Raises:
        StorageError: the disk is full or the folder can't be written.
    """
    parameters = {model.full_id: model.parameters for model in problem.models}
    rows = [
        {
            "model_id": model.model_id,
            "parameters": model.parameters or parameters.get(model.base or model.full_id),
        }
        for model in problem.ranked_models
    ]
    path = workspace.data / "lineup" / f"problem={problem.name}" / "lineup.parquet"
    write_table(path, pa.Table.from_pylist(rows, schema=LINEUP))
