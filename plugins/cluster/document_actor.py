"""Score documents in an actor, which keeps its model loaded while documents are of that model."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from extract.background import Prefetch
from extract.devices import free_unused
from extract.extraction import Extraction
from extract.failures import Failure, explain
from extract.planning.documents import PlannedDocument
from extract.planning.plan import ModelPlan
from extract.planning.selection import Selection
from extract.tokenization import TokenizedDocument
from warehouse.errors import TokenmartError
from warehouse.problem.models import ModelSpec
from warehouse.progress import no_progress

if TYPE_CHECKING:
    from extract.scoring.engine import Engine


@dataclass(frozen=True)
class Report:
    """Result of one task.

    units, tokens: numbers of computed units and tokens.
    elsewhere: number of units claimed by another process, to be checked again.
    failures: as reported by `Extraction`.
    loads: number of checkpoints that this actor has loaded so far.
    """

    units: int
    tokens: int
    elsewhere: int
    failures: tuple[Failure, ...]
    loads: int


class _OneModel(Extraction):
    """An extraction of one model, called for one document at a time."""

    wanted = -1
    loads = 0
    _whole: ModelPlan | None = None
    _scorer: Engine | None = None
    _failure = ""

    def _plan(self, spec: ModelSpec) -> ModelPlan:
        if self._whole is None:
            self._whole = super()._plan(spec)
        # a copy keeps the tokenizer that the plan loaded
        plan = copy(self._whole)
        object.__setattr__(self._whole, "failed", ())  # reported once
        mine = tuple(task for task in plan.tasks if task.document.doc_id == self.wanted)
        object.__setattr__(plan, "tasks", mine)
        return plan

    def _load_and_record(self, plan: ModelPlan, first: TokenizedDocument) -> Engine:
        if self._failure:  # it would fail again for each document
            raise TokenmartError(self._failure)
        if self._scorer is None:
            try:
                self._scorer = super()._load_and_record(plan, first)
            except Exception as error:
                self._failure = explain(error)
                raise
            self.loads += 1
        return self._scorer

    def _publish(self, plan: ModelPlan) -> None:
        """Do nothing: the head publishes each model once, because publishing rewrites files."""


class DocumentActor:
    """Scores the documents it is given; a Ray actor, or a plain object in tests.

    Args:
        selection, documents, since: see `Extraction`.
    """

    def __init__(
        self, selection: Selection, documents: Sequence[PlannedDocument], since: str
    ) -> None:
        self._selection, self._documents, self._since = selection, documents, since
        self._run: _OneModel | None = None
        self._loads = 0

    def score(self, model: str, document: int, others: bool) -> Report:
        """Score the missing conditions of one document of one model, and store the rows.

        Args:
            others: what fails here will be tried by another actor, so it isn't recorded as failed
                if that one may be able to do it.

        Raises:
            StorageError: the rows can't be stored.
        """
        spec = self._selection.problem.model(model)
        run = self._run
        if run is None or run.selection.models != (spec,):
            self._loads += run.loads if run else 0
            # release the previous model's memory first
            self._run = run = None
            free_unused()
            chosen = replace(self._selection, models=(spec,))
            run = _OneModel(chosen, self._documents, no_progress, self._since)
            self._run = run
        run.wanted, run.as_worker = document, others
        run.plans = Prefetch(run._plan, [spec])
        run.outcome = type(run.outcome)()
        outcome = run.run()
        return Report(
            outcome.units,
            outcome.tokens,
            outcome.elsewhere,
            tuple(outcome.failures),
            self._loads + run.loads,
        )
