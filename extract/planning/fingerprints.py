"""What the rows of a unit depend on, and its fingerprint: equal ones are never recomputed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from extract.checkpoints import Checkpoint
from extract.planning.documents import PlannedDocument
from extract.planning.selection import Selection
from extract.scoring.statistics import ENGINE_VERSION, PROGRAM
from warehouse.probes.request import Condition
from warehouse.problem.models import ModelSpec
from warehouse.store.ledger import fingerprint

_OF_TEXTS = ("max_tokens", "too_long", "room")
"""Facts of a model that its hidden states do not depend on: which tokens of a text it reads."""


def model_facts(
    selection: Selection, spec: ModelSpec, checkpoint: Checkpoint, tokenizer: str, dtype: str
) -> dict[str, Any]:
    """What rows of a model depend on, for any document; `tokenizer` is its fingerprint."""
    rules = selection.problem.documents
    return {
        "revision": checkpoint.revision,
        "interventions": describe_interventions(spec),
        "tokenizer": tokenizer,
        "dtype": dtype,
        "backend": PROGRAM,
        "engine": ENGINE_VERSION,
        # Fused kernels differ by the order of float32 sums. Eager attention also rounds its
        # weights to the dtype, which moves log-probs as far as everything else in that dtype
        # together: its rows are never mixed with the others'
        "attention": "eager" if selection.attention == "eager" else "fused",
        "max_tokens": selection.max_tokens,
        "too_long": rules.too_long,
        # `headroom` by its name in version 0.1: fingerprints of stored units have it
        **({"room": rules.headroom} if rules.headroom else {}),
        **describe_corrections(spec, rules.too_long),
    }


def describe_interventions(spec: ModelSpec) -> list[dict[str, Any]]:
    """Plain values for the fingerprint and the models table."""
    return [item.model_dump(exclude_none=True) for item in spec.interventions]


def describe_corrections(spec: ModelSpec, too_long: str = "refuse") -> dict[str, Any]:
    """Corrections of a configuration in the problem file, as far as rows depend on them."""
    rope = {} if spec.rope is None else {"rope": spec.rope.model_dump(exclude_none=True)}
    return rope | ({"context": spec.context} if spec.context and too_long == "truncate" else {})


def imported_fingerprint(
    facts: dict[str, Any], document: PlannedDocument, condition: Condition
) -> str:
    """What a unit of imported log-probs depends on: all facts but the program and its numbers."""
    elsewhere = dict.fromkeys(("dtype", "backend", "engine", "attention"), "imported")
    return unit_fingerprint(facts | elsewhere, document, condition, None)


def unit_fingerprint(
    facts: dict[str, Any],
    document: PlannedDocument,
    condition: Condition,
    reference: Mapping[str, Any] | None,
) -> str:
    """Hash of all that a unit's rows depend on; `reference`: facts of the model compared with."""
    kind = condition.kind
    parts = {**facts, "document": document.sha256, "kind": kind.name, "params": condition.params}
    if kind.revision > 1:
        parts["kind_revision"] = kind.revision
    if kind.reads_foreign and document.foreign:
        parts["foreign"] = document.foreign.sha256
    if reference is not None:
        of_reference = {name: fact for name, fact in reference.items() if name not in _OF_TEXTS}
        parts["reference"] = of_reference
    return fingerprint(parts)
