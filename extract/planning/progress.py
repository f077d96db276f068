"""Progress of an extraction: planned work, and the part that the ledger has."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from extract.planning.cost import model_size, planned_lengths
from extract.planning.plan import PlannedDocument
from extract.planning.selection import Selection, planned_units
from warehouse.probes.request import Condition
from warehouse.problem.models import ModelSpec
from warehouse.sources.documents import text_size


class PlannedWork:
    """Work of units, for a progress bar: tokens of the text times the model's number of weights.

    A model of unknown size counts as the median of the others, all conditions count alike.
    """

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        sizes = {
            spec.full_id: model_size(spec, selection.workspace, problem=selection.problem.name)
            for spec in selection.models
        }
        weights = {name: float(size.parameters) for name, size in sizes.items() if size}
        usual = median(weights.values()) if weights else 1.0
        self._weights = {name: weights.get(name, usual) for name in sizes}

    def of(
        self, spec: ModelSpec, document: PlannedDocument, conditions: Sequence[Condition]
    ) -> float:
        """Work of some conditions of one document."""
        limit = self.selection.max_tokens
        whole = text_size(document.text).tokens
        (tokens,) = planned_lengths(self.selection, spec, [min(whole, limit or whole)])
        return self._weights[spec.full_id] * max(1, tokens) * len(conditions)

    def of_model(self, spec: ModelSpec, documents: Sequence[PlannedDocument]) -> float:
        """Work of all selected conditions of some documents."""
        return sum(self.of(spec, each, self.selection.conditions) for each in documents)

    def total(self, documents: Sequence[PlannedDocument]) -> float:
        """Work of the whole selection."""
        return sum(self.of_model(spec, documents) for spec in self.selection.models)


def count_finished(selection: Selection, documents: Sequence[PlannedDocument]) -> int:
    """Selected units in the ledger that are done or failed."""
    texts = {document.doc_id: document.sha256 for document in documents}
    return sum(
        unit.state in ("done", "failed")
        for spec in selection.models
        for unit in planned_units(selection, spec, texts)
    )


def finished_work(
    selection: Selection, documents: Sequence[PlannedDocument], work: PlannedWork
) -> tuple[int, float]:
    """Selected units that the ledger has as done, and their part of the planned work."""
    by_id = {document.doc_id: document for document in documents}
    texts = {doc_id: document.sha256 for doc_id, document in by_id.items()}
    done = [
        (spec, by_id[unit.doc_id])
        for spec in selection.models
        for unit in planned_units(selection, spec, texts)
        if unit.state == "done"
    ]
    # all conditions count alike
    finished = sum(work.of(spec, document, selection.conditions[:1]) for spec, document in done)
    return len(done), finished
