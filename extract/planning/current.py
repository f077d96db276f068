"""Which units of the ledger match the present request, judged by the ledger alone.

No checkpoint is looked for: a model's changed revision or tokenizer shows only in a fingerprint,
and `plan_model` compares these.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from extract.planning.cuts import most_tokens
from extract.planning.plan import Selection, max_tokens_of
from extract.scoring.numerics import ENGINE_VERSION
from warehouse.paths import Workspace
from warehouse.probes.request import Condition
from warehouse.problem.models import ModelSpec
from warehouse.problem.spec import Problem
from warehouse.store.ledger import UnitRecord, whole_tokens
from warehouse.store.token_files import finished_units


def current_units(
    problem: Problem,
    selection: Selection,
    spec: ModelSpec,
    condition: Condition,
    documents: Mapping[int, str],
    workspace: Workspace,
) -> list[UnitRecord]:
    """Failed units, and done ones that are what is asked for, of one model and condition.

    Args:
        problem, selection, spec, condition: what is asked for.
        documents: SHA-256 by number; empty where a text is not here yet.
        workspace: where the ledger is.

    Raises:
        StorageError: the published file is damaged.
    """
    params = json.dumps(condition.params, sort_keys=True)
    # `auto` leaves the dtype to the device, which may be another machine's
    dtype = selection.dtype if selection.dtype != "auto" else spec.dtype
    limit = max_tokens_of(problem, selection)
    most = most_tokens(problem, spec, workspace)

    def is_asked_for(unit: UnitRecord) -> bool:
        return (
            unit.probe_params == params
            and documents[unit.doc_id] in ("", unit.document_sha256)
            and dtype in ("auto", unit.dtype)
            and (unit.engine, unit.backend) == (ENGINE_VERSION, selection.backend)
            and _fewest_tokens(problem, unit, limit, most)
            <= unit.document_tokens
            <= whole_tokens(unit, limit)
        )

    ledger = finished_units(workspace, problem.name, spec.model_id, condition.name)
    return [
        unit
        for unit in ledger.values()
        if unit.doc_id in documents and (unit.status == "failed" or is_asked_for(unit))
    ]


def _fewest_tokens(problem: Problem, unit: UnitRecord, limit: int | None, most: int | None) -> int:
    whole = whole_tokens(unit, limit)
    if problem.documents.too_long != "truncate":
        return whole
    # a context that only the configuration gives, which is not here, can cut anywhere
    return 0 if most is None else min(whole, most)
