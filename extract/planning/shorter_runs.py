"""Finished units are never replaced by others that have less, unless `--force` is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from warehouse.errors import TokenmartError
from warehouse.problem.unit_states import OTHER_TEXT, Unit
from warehouse.store.token_files import has_top_tokens

if TYPE_CHECKING:
    from extract.planning.selection import Selection
    from warehouse.problem.models import ModelSpec


def refuse_less(selection: Selection, spec: ModelSpec, missing: Sequence[Unit]) -> None:
    """Stop before finished units are replaced by others of the same text that have less of it.

    Args:
        missing: what would be computed; of another text is what has the reason `OTHER_TEXT`.

    Raises:
        TokenmartError: they would be.
    """
    most = selection.most_tokens(spec)
    # of a model without BOS one more is read
    limits = [n for n in (selection.max_tokens, most and most + 1) if n is not None]
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
