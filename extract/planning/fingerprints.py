"""What the rows of a unit depend on: the facts of a model, and a hash of them with the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from warehouse.probes.request import Condition
from warehouse.problem.models import ModelSpec
from warehouse.store.ledger import fingerprint

_OF_TEXTS = ("max_tokens", "too_long", "room")
"""Facts of a model that its hidden states do not depend on: which tokens of a text it reads."""


class _Text(Protocol):
    """A document, as far as a fingerprint has it."""

    @property
    def sha256(self) -> str: ...

    @property
    def foreign(self) -> _Text | None: ...


def describe_interventions(spec: ModelSpec) -> list[dict[str, Any]]:
    """Plain values for the fingerprint and the models table."""
    return [item.model_dump(exclude_none=True) for item in spec.interventions]


def describe_corrections(spec: ModelSpec, too_long: str = "refuse") -> dict[str, Any]:
    """Corrections of a configuration in the problem file, as far as rows depend on them."""
    rope = {} if spec.rope is None else {"rope": spec.rope.model_dump(exclude_none=True)}
    return rope | ({"context": spec.context} if spec.context and too_long == "truncate" else {})


def imported_fingerprint(facts: dict[str, Any], document: _Text, condition: Condition) -> str:
    """What a unit of imported log-probs depends on: all facts but the program and its numbers."""
    elsewhere = dict.fromkeys(("dtype", "backend", "engine", "attention"), "imported")
    return unit_fingerprint(facts | elsewhere, document, condition, None)


def unit_fingerprint(
    facts: dict[str, Any],
    document: _Text,
    condition: Condition,
    reference: Mapping[str, Any] | None,
) -> str:
    """Hash of all that a unit's rows depend on; `reference` are the facts of a condition's own."""
    kind = condition.kind
    parts = {**facts, "document": document.sha256, "kind": kind.name, "params": condition.params}
    if kind.revision > 1:
        parts["kind_revision"] = kind.revision
    if kind.reads_foreign and document.foreign:
        parts["foreign"] = document.foreign.sha256
    if reference is not None:
        own = {name: fact for name, fact in reference.items() if name not in _OF_TEXTS}
        parts["reference"] = own
    return fingerprint(parts)
