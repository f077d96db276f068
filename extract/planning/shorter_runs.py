"""Finished units are never replaced by others that have less, unless `--force` is given."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from warehouse.errors import TokenmartError
from warehouse.store.ledger import UnitRecord
from warehouse.store.token_files import finished_units, has_top_tokens

if TYPE_CHECKING:
    from extract.planning.plan import ModelPlan, Task
    from extract.planning.selection import Selection
    from extract.tokenization import TokenizedDocument
    from warehouse.problem.models import ModelSpec


def refuse_less(
    selection: Selection,
    spec: ModelSpec,
    limits: Sequence[int],
    tasks: Sequence[Task],
    ledgers: Mapping[str, Mapping[int, UnitRecord]],
) -> None:
    """Stop before finished units are replaced by others of the same text that have less of it.

    Args:
        limits: of the tokens of a document that the model reads.
        tasks: what would be computed.
        ledgers: the units that are stored, by condition and document.

    Raises:
        TokenmartError: they would be.
    """
    replaced = [
        (unit, condition)
        for task in tasks
        for condition in task.missing
        if (unit := ledgers[condition.name].get(task.document.doc_id)) is not None
        and unit.status == "done"
        and unit.document_sha256 == task.document.sha256
    ]
    read_more = [unit for unit, _ in replaced if limits and unit.document_tokens > min(limits)]
    with_choices = [
        unit
        for unit, condition in replaced
        if has_top_tokens(selection.workspace, unit, condition.top_k + 1)
    ]
    if read_more:
        most = max(unit.document_tokens for unit in read_more)
        what = f"{len(read_more)} finished units read up to {most:,} tokens of a document and "
        what += f"would be replaced by others of at most {min(limits):,}"
    elif with_choices:
        what = f"{len(with_choices)} finished units have more of the most likely tokens than "
        what += "--top-k asks for and would be replaced"
    else:
        return
    raise TokenmartError(
        f"{spec.full_id}: {what}; use --force to replace them",
        code="shorter-run",
        where=spec.full_id,
    )


def refuse_fewer_rows(plan: ModelPlan, documents: Mapping[int, TokenizedDocument]) -> None:
    """Stop before finished units are replaced by others of the same tokens that score fewer.

    So it is with a probe of which the problem file now asks for fewer excerpts or shorter targets.

    Args:
        documents: of the plan's tasks, by id.

    Raises:
        TokenmartError: they would be.
    """
    selection, spec = plan.selection, plan.spec
    if selection.force:
        return
    keys = selection.workspace, selection.problem.name, spec.model_id
    ledgers = {c.name: finished_units(*keys, c.name) for c in selection.conditions}
    for task in plan.tasks:
        number = task.document.doc_id
        for condition in task.missing if number in documents else ():
            unit = ledgers[condition.name].get(number)
            if (
                unit is None
                or unit.status != "done"
                or unit.document_sha256 != task.document.sha256
                or unit.document_tokens_total != documents[number].total_tokens
                or json.loads(unit.probe_params) == condition.params
            ):
                continue
            reading = plan.reading(task.document, documents[number], [condition])
            rows = sum(len(request.positions) for request in condition.build(reading))
            if rows < unit.rows:
                raise TokenmartError(
                    f"{spec.full_id}: condition {condition.name} scored {unit.rows:,} tokens of "
                    f"document {number} and would be replaced by {rows:,}; give the probe another "
                    "name, or use --force to replace finished units",
                    code="shorter-run",
                    where=condition.name,
                )
