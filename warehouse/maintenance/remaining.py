"""Remaining work for all models and documents of a problem, and its time on this machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import mean

import pyarrow.parquet as pq

from warehouse.paths import Workspace
from warehouse.problem.spec import Problem
from warehouse.store.ledger import UnitRecord, whole_tokens
from warehouse.store.token_files import finished_units


@dataclass(frozen=True)
class Remaining:
    """Units (model, condition, document) that are missing, of all; seconds None where unmeasured.

    Units of cut documents, as a demo makes them, are missing: a submission needs whole ones.
    `seconds` is at the speed that the ledger has, which on longer documents is too high.
    """

    missing: int
    units: int
    models: int
    seconds: float | None

    def __str__(self) -> str:
        if self.seconds is None:
            time = "for a time that is unknown, since nothing is measured yet"
        elif self.seconds < 3600:
            time = f"for about {max(1, round(self.seconds / 60)):,} min"
        else:
            time = f"for about {self.seconds / 3600:,.1f} h"
        where = "" if self.seconds is None else " at the speed measured so far, or more"
        return (
            f"{self.missing:,} of {self.units:,} units of whole documents are missing, of "
            f"{self.models} models: extraction would run {time}{where}"
        )


def remaining(problem: Problem, workspace: Workspace) -> Remaining:
    """Look at the ledger of every ranked model; nothing is loaded.

    Raises:
        StorageError: a published file is damaged.
    """
    conditions = [c.name for probe in problem.probes for c in probe.conditions()]
    ledger = {
        (spec.model_id, condition): [
            unit
            for unit in finished_units(workspace, problem.name, spec.model_id, condition).values()
            if unit.status == "done"
        ]
        for spec in problem.ranked_models
        for condition in conditions
    }
    limit = problem.documents.max_tokens
    documents = _documents(problem, workspace)
    everything = [unit for units in ledger.values() for unit in units]
    tokens = mean(whole_tokens(unit, limit) for unit in everything) if everything else 0.0
    missing, seconds, unmeasured = 0, 0.0, False
    lacking: set[str] = set()
    for (model_id, condition), units in ledger.items():
        left = documents - sum(unit.document_tokens >= whole_tokens(unit, limit) for unit in units)
        if left <= 0:
            continue
        missing += left
        lacking.add(model_id)
        speed = _speed(units) or _speed(u for u in everything if u.condition == condition)
        unmeasured |= speed is None
        seconds += left * tokens * (speed or 0.0)
    return Remaining(
        missing, documents * len(ledger), len(lacking), None if unmeasured else seconds
    )


def _documents(problem: Problem, workspace: Workspace) -> int:
    table = problem.place(workspace).documents_table
    if table.is_file():
        return int(pq.read_metadata(table).num_rows)
    return problem.documents.count or 1


def _speed(units: Iterable[UnitRecord]) -> float | None:
    """Seconds for a token of a document."""
    found = list(units)
    tokens = sum(unit.document_tokens for unit in found)
    return sum(unit.seconds for unit in found) / tokens if tokens else None
