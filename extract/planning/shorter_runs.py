"""Finished units are never replaced by others that have less, unless `--force` is given."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from warehouse.errors import TokenmartError
from warehouse.problem.unit_states import OTHER_TEXT, Unit
from warehouse.store.token_files import finished_units, has_top_tokens

if TYPE_CHECKING:
    from extract.planning.plan import ModelPlan
    from extract.planning.selection import Selection
    from extract.tokenization import TokenizedDocument
    from warehouse.problem.models import ModelSpec


def refuse_less(selection: Selection, spec: ModelSpec, missing: Sequence[Unit]) -> None:
    """Stop before finished units are replaced by others of the same text that have less of it.

    Args:
        missing: what would be computed; of another text is what has the reason `OTHER_TEXT`.

    Raises:
        TokenmartError: they would be.
    """
    limits = [n for n in (selection.max_tokens, selection.most_tokens(spec)) if n is not None]
    replaced = [
        unit.record
        for unit in missing
        if unit.record and unit.record.status == "done" and unit.why != OTHER_TEXT
    ]
    read = [each.document_tokens for each in replaced]
    top_k = {condition.name: condition.top_k for condition in selection.conditions}
    with_choices = [
        each
        for each in replaced
        if has_top_tokens(selection.workspace, each, top_k[each.condition] + 1)
    ]
    if limits and read and max(read) > min(limits):
        what = f"finished units read up to {max(read):,} tokens of a document, others would read "
        what += f"at most {min(limits):,}"
    elif with_choices:
        what = f"{len(with_choices)} finished units have more of the most likely tokens than "
        what += "--top-k asks for"
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
