"""Everything ever tried for a problem beside the present build: it counts, whatever is shown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from warehouse.metrics.tries import Direction, Try, remember, tries

if TYPE_CHECKING:
    from warehouse.paths import Workspace

CatalogueRow = Sequence[Any]
"""Metric, variant, family, parameters, direction, admissible, formula, description."""


def variants_of_build(
    values: Sequence[tuple[Any, ...]], catalogue: Mapping[tuple[str, str], CatalogueRow]
) -> list[Try]:
    """The variants of the present build that are described, as tries.

    Args:
        values: metric, variant, model_id, value, as metric_values has them.
        catalogue: by metric and variant.
    """
    of_variant: dict[tuple[str, str], dict[str, float]] = {}
    for metric, variant, model_id, value in values:
        column = of_variant.setdefault((metric, variant), {})
        if value is not None:
            column[model_id] = float(value)
    return [
        Try(key[0], key[1], "variant", _definition(catalogue[key]), _direction(catalogue[key]), own)
        for key, own in of_variant.items()
        if key in catalogue
    ]


def tried_besides(workspace: Workspace, problem: str, present: Sequence[Try]) -> list[Try]:
    """Write down what is present, and return what was tried for the problem and isn't.

    Raises:
        StorageError: the record can't be read or written; nothing would count it then.
    """
    remember(workspace, problem, present)
    here = {entry.key for entry in present}
    return [entry for entry in tries(workspace, problem) if entry.key not in here]


def _definition(row: CatalogueRow) -> str:
    parameters = json.loads(row[3]) if isinstance(row[3], str) and row[3] else row[3] or {}
    return json.dumps({"formula": row[6] or "", "parameters": parameters}, sort_keys=True)


def _direction(row: CatalogueRow) -> Direction:
    return "lower" if row[4] == "lower" else "higher"
