"""Rows stored before complete weights were recorded: kept only if the files have all tensors."""

from __future__ import annotations

from extract.backends.backend import DEFAULT
from extract.checkpoints import Checkpoint
from extract.models.weights import COMPLETE
from warehouse.errors import TokenmartError
from warehouse.files import remembered
from warehouse.paths import Workspace
from warehouse.problem.models import ModelSpec
from warehouse.store.ledger import UnitRecord


def lacks_record(unit: UnitRecord) -> bool:
    """Whether there is no record that a finished unit's model had all its tensors."""
    return unit.status == "done" and not unit.weights and unit.backend == DEFAULT


def has_all_tensors(checkpoint: Checkpoint, spec: ModelSpec, workspace: Workspace) -> bool:
    """Whether a checkpoint's files contain each tensor of its model; no weights are read.

    Those that do are compared once; the others are refused when they are loaded.
    """

    def compared() -> str:
        from extract.models.loading import check_weights

        check_weights(checkpoint, spec)
        return COMPLETE

    try:
        remembered(f"all tensors|{checkpoint.revision}", compared, workspace)
    except TokenmartError:
        return False
    return True
