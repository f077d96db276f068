"""Which models are points of one series: doses of one treatment, checkpoints of one run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warehouse.problem.spec import ModelSpec

if TYPE_CHECKING:
    from warehouse.problem.kinds import RankedModel


def series_of(model: RankedModel) -> str:
    """The series of which the model is one dose or one checkpoint; its own id if it is alone.

    That is `kind` as the problem file gives it, else what its interventions do, whatever their
    strength. Models of a series follow each other and are no independent evidence. A table has
    each run once.
    """
    if not isinstance(model, ModelSpec):
        return model.full_id
    treatments = [
        f"rope {item.scaling or 'base'}" if item.kind == "rope" else item.kind
        for item in model.interventions
    ]
    return model.kind or "+".join(treatments) or model.full_id
