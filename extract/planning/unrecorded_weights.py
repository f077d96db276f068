"""Units stored before complete weights were recorded: kept only if the files have all tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from extract.backends.backend import DEFAULT
from extract.checkpoints import Checkpoint
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.problem.spec import ModelSpec
from warehouse.sources.hashes import remembered
from warehouse.store.ledger import UnitRecord


def lacks_record(unit: UnitRecord) -> bool:
    """Whether nothing says that a finished unit's model had all its tensors."""
    return unit.status == "done" and not unit.weights and unit.backend == DEFAULT


def are_whole(
    finished: Iterable[Mapping[int, UnitRecord]],
    checkpoint: Checkpoint,
    spec: ModelSpec,
    workspace: Workspace,
) -> bool:
    """Whether the units that lack the record came from files with all tensors of the model.

    Files and model are compared once for a checkpoint, without reading any weights.
    """
    if not any(lacks_record(unit) for units in finished for unit in units.values()):
        return True

    def compared() -> str:
        from extract.scoring.loading import check_weights

        try:
            check_weights(checkpoint, spec)
        except TokenmartError:
            return "incomplete"
        return "complete"

    return remembered(f"weights|{checkpoint.revision}", compared, workspace) == "complete"
