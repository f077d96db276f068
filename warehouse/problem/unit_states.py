"""Which units of a problem are current: one rule, over the ledger and the problem file.

A plan, an extraction, `status` and `data gc` all read the states that are computed here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from warehouse.errors import StorageError, TokenmartError
from warehouse.paths import Workspace
from warehouse.probes.request import Condition
from warehouse.problem.models import ModelSpec
from warehouse.problem.spec import Problem
from warehouse.problem.tables import documents_path
from warehouse.store.ledger import UnitRecord, fingerprint
from warehouse.store.parquet_files import read_table
from warehouse.store.token_files import finished_units

State = Literal["done", "failed", "outdated", "missing"]

OTHER_MODEL = "the model is not in the problem file"
OTHER_PROBE = "the probe is not in the problem file"
OTHER_PARAMETERS = "the probe's parameters have changed"
OTHER_REFERENCE = "the reference model has changed"
OTHER_TEXT = "the document has changed or is not in the corpus"


def _kept(unit: UnitRecord) -> str:
    return ""


@dataclass(frozen=True)
class NeededUnits:
    """The units that a problem, or a run of a part of it, needs.

    Attributes:
        problem: its name.
        models: ids.
        conditions: their parameters by name, as in the ledger.
        documents: sha256 of each text by number, empty for a text that is not here yet; None
            where no text is here, and any will do.
        why_recomputed: why a run computes a stored unit again; empty for one that it keeps.
        references: `model_identity` of each condition's reference, where its files are here.
    """

    problem: str
    models: tuple[str, ...]
    conditions: Mapping[str, str]
    documents: Mapping[int, str] | None
    why_recomputed: Callable[[UnitRecord], str] = _kept
    references: Mapping[str, str] = field(default_factory=dict)

    @property
    def only_document(self) -> int | None:
        """The one document, where it is one."""
        documents = self.documents or ()
        return next(iter(documents)) if len(documents) == 1 else None

    def why_outdated(self, unit: UnitRecord) -> str:
        """Why a stored unit is none of these; empty for a current one."""
        if unit.model_id not in self.models:
            return OTHER_MODEL
        if unit.condition not in self.conditions:
            return OTHER_PROBE
        if unit.probe_params != self.conditions[unit.condition]:
            return OTHER_PARAMETERS
        if unit.reference != self.references.get(unit.condition, unit.reference):
            return OTHER_REFERENCE
        if self.documents is not None:
            sha256 = self.documents.get(unit.doc_id)
            if sha256 is None or sha256 not in ("", unit.document_sha256):
                return OTHER_TEXT
        return self.why_recomputed(unit)


@dataclass(frozen=True)
class Unit:
    """A needed unit: its state, and its record if it is done, failed or outdated."""

    model_id: str
    condition: str
    doc_id: int
    state: State
    record: UnitRecord | None = None
    why: str = ""
    """Why it failed, or is outdated."""


def unit_states(workspace: Workspace, needed: NeededUnits) -> list[Unit]:
    """Every needed unit, by model, condition and document.

    Raises:
        StorageError: a published file is damaged.
    """
    found = []
    for model_id in needed.models:
        for condition in needed.conditions:
            keys = needed.problem, model_id, condition
            ledger = finished_units(workspace, *keys, needed.only_document)
            for doc_id in ledger if needed.documents is None else needed.documents:
                record = ledger.get(doc_id)
                state: State = "missing"
                why = ""
                if record is not None:
                    why = needed.why_outdated(record)
                    state = "outdated" if why else record.status
                    why = why or record.reason
                found.append(Unit(model_id, condition, doc_id, state, record, why))
    return found


def parameters_of(conditions: Sequence[Condition]) -> dict[str, str]:
    """Parameters of conditions by name, as they are in the ledger."""
    return {each.name: json.dumps(each.params, sort_keys=True) for each in conditions}


def needed_units(
    problem: Problem, workspace: Workspace, models: Sequence[ModelSpec] | None = None
) -> NeededUnits:
    """The units of a problem file, of all its models or some, whatever the settings of a run."""
    conditions = [each for probe in problem.probes for each in probe.conditions()]
    return NeededUnits(
        problem.name,
        tuple(model.model_id for model in (problem.models if models is None else models)),
        parameters_of(conditions),
        stored_documents(problem, workspace),
        references=references_here(problem, workspace, conditions),
    )


def model_identity(spec: ModelSpec, revision: str) -> str:
    """Hash of a model's weights and of what the problem file changes in them."""
    changes = spec.model_dump(mode="json", include={"interventions", "rope", "bos"})
    return fingerprint({"revision": revision, **changes})


def references_here(
    problem: Problem, workspace: Workspace, conditions: Sequence[Condition]
) -> dict[str, str]:
    """`model_identity` of each condition's reference; of those whose files are here."""
    folders = problem.folders(workspace, offline=True)
    found = {}
    for condition in conditions:
        # what is wrong with its files stops an extraction
        with suppress(TokenmartError, OSError):
            spec = problem.model(condition.reference) if condition.reference else None
            if spec is not None and spec.present(folders) is not None:
                found[condition.name] = model_identity(spec, spec.locate(folders).revision)
    return found


def stored_documents(problem: Problem, workspace: Workspace) -> dict[int, str] | None:
    """SHA-256 of a problem's documents by number; None where they are not here or damaged."""
    with suppress(FileNotFoundError, StorageError):
        table = read_table(documents_path(problem, workspace), ["doc_id", "sha256"])
        return dict(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return None
