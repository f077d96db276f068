"""Run an extraction: load each model once, score its tasks, store whole units, publish.

Three threads: this one scores; one has the next model's files found, read and hashed, or the next
document tokenised; one encodes and writes the rows of the document before.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from itertools import islice
from typing import TYPE_CHECKING

from extract.background import Background, Prefetch
from extract.checkpoints import checkpoint_here, find_checkpoint
from extract.devices import PeakMemory, available_memory
from extract.failures import (
    DeviceLostError,
    DoesNotFitError,
    Failure,
    Outcome,
    explain,
    may_do_elsewhere,
    raise_if_lost,
    why_failed,
)
from extract.models import loading
from extract.planning.cost import planned_memory
from extract.planning.documents import PlannedDocument
from extract.planning.plan import ModelPlan, plan_model
from extract.planning.selection import Selection
from extract.references import References
from extract.scoring.statistics import Scored
from extract.tokenization import TokenizedDocument
from extract.unit_rows import (
    Job,
    ScoredUnit,
    divergence_rows,
    model_file,
    token_rows,
    top_token_rows,
    unit_record,
    write_model,
)
from extract.work_claims import claim
from warehouse.errors import TokenmartError
from warehouse.probes.request import Condition, Ids, Request, with_bos
from warehouse.problem.models import ModelSpec
from warehouse.progress import Progress
from warehouse.sources.documents import text_size
from warehouse.store.schema import TOKENS
from warehouse.store.token_files import (
    finished_units,
    publish,
    write_side_rows,
    write_top_tokens,
    write_unit,
)

if TYPE_CHECKING:
    from extract.scoring.engine import Engine


def scoring_groups(todo: Sequence[Condition]) -> list[list[Condition]]:
    """Conditions scored in one call: those that share the whole document's KV cache.

    The others are scored apart, so that no row depends on what else happened to be missing.
    """
    sharing = [c for c in todo if c.kind.reads_document]
    alone = [[c] for c in todo if c not in sharing]
    return [sharing, *alone] if sharing else alone


def split_by_cache(together: Sequence[Condition]) -> list[list[Condition]]:
    """Conditions of one call in two: those that need the document's KV cache, and the others."""
    cached = [c for c in together if c.kind.shares_prefix]
    alone = [c for c in together if not c.kind.shares_prefix]
    return [group for group in (alone, cached) if group]


class Extraction:
    """Runs a selection of a problem: the only place where units are computed and stored.

    Args:
        selection, documents: what to compute.
        progress: called as units finish.
        since: when a run of several workers started, in ISO format, UTC: units that failed
            since then are not tried again by the next worker.
        as_worker: others of this run try what this process can't do: a model that it can't load
            or place, a document for which it has no memory. Only the last process records that
            as failed.
    """

    def __init__(
        self,
        selection: Selection,
        documents: Sequence[PlannedDocument],
        progress: Progress,
        since: str | None = None,
        as_worker: bool = False,
    ) -> None:
        self.problem, self.workspace = selection.problem, selection.workspace
        self.selection, self.documents = selection, documents
        self.progress, self.since, self.as_worker = progress, since, as_worker
        self.outcome = Outcome()
        self.memory = PeakMemory(selection.device)
        # asked before a model is loaded: another one may be there when a model is planned
        self.available = available_memory(selection.device)
        longest = max((text_size(document.text).tokens for document in documents), default=0)
        self.longest = min(longest, selection.max_tokens or longest)
        self.plans = Prefetch(self._plan, selection.models)
        self.references = References(self.workspace.store, progress)

    def run(self) -> Outcome:
        """Compute what is missing, model by model; a model that fails does not stop the others.

        Raises:
            StorageError: nothing more can be stored; what was finished is kept.
            DeviceLostError: the GPU failed.
        """
        try:
            with closing(self.references):
                self._convert_first()
                for spec in self.selection.models:
                    self._run_spec(spec)
        except Exception:
            # not after an interrupt, which would wait for a download
            self.plans.close()
            raise
        return self.outcome

    def _convert_first(self) -> None:
        """Convert GGUF files and pickled weights that are here: beside a model that is being scored
        it takes the cores from it, which slowed it tenfold on two.

        What can't be converted fails when its turn comes.
        """
        problem, workspace = self.problem, self.workspace
        folders = problem.folders(workspace, offline=True)
        for spec in self.selection.models:
            path = spec.present(folders)
            pickled = getattr(spec.source, "pickled", False)
            if path is None or not (path.is_file() or pickled):
                continue
            with suppress(TokenmartError):
                if checkpoint_here(spec, folders) is None:
                    self.progress(f"{spec.full_id}: converting its weights, once", 0)
                    find_checkpoint(spec, workspace, problem.name, problem.argument)

    def _run_spec(self, spec: ModelSpec) -> None:
        plans: list[ModelPlan] = []

        def work() -> None:
            self.progress(f"{spec.full_id}: looking for its files", 0)
            plans.append(self.plans.take())
            self._count(plans[0])
            # its row may have been damaged and moved away
            if plans[0].tasks or not model_file(plans[0]).is_file():
                self._run_model(plans[0])

        try:
            if reason := why_failed(spec.full_id, work):
                self.outcome.failures.append(Failure(spec.full_id, reason))
                # without a plan its files were not found, and fingerprints of units are not known
                for plan in plans if not self.as_worker else ():
                    for task in plan.tasks:
                        self._fail(Job(plan, task), reason)
        finally:
            for plan in plans:
                self._publish(plan)

    def _plan(self, spec: ModelSpec) -> ModelPlan:
        planned_memory(self.selection, spec, self.longest, available=self.available)
        return plan_model(self.selection, spec, self.documents, self.since)

    def _count(self, plan: ModelPlan) -> None:
        """Report what of a plan is finished already."""
        step = "tokenizing" if plan.tasks else "nothing to do"
        self.progress(f"{plan.spec.full_id}: {step}", plan.done, False)
        self.outcome.failures += dict.fromkeys(plan.failed)
        self.outcome.finished_before += plan.done - len(plan.failed)

    def _fail(self, job: Job, reason: str) -> None:
        """Record what is missing of a document as failed."""
        with self._claim(job) as ours:
            for condition in job.plan.left(job.task) if ours else ():
                failed = ScoredUnit(condition, (), (), reason, 0, 0.0, self.memory.bytes())
                self._store(job, failed)
        self.progress(job.label, len(job.task.missing), False)

    def _publish(self, plan: ModelPlan) -> None:
        """Merge a model's units into the files that readers see, once: they are rewritten whole."""
        for condition in self.selection.conditions:
            publish(self.workspace, self.problem.name, plan.spec.model_id, condition.name)

    def _run_model(self, plan: ModelPlan) -> None:
        # before the model is loaded, so that both are never in memory together
        self.references.compute(plan, self._load)
        scorer: Engine | None = None
        texts = Prefetch(plan.tokenize, [task.document for task in plan.tasks])
        with Background() as storing, closing(texts):
            for task in plan.tasks:
                try:
                    tokenized = texts.take()
                    plan.refuse_less(task, tokenized)
                except TokenmartError as error:  # such a document fails alone
                    reason = explain(error, plan.spec.full_id)
                    number = task.document.doc_id
                    self.outcome.failures.append(Failure(plan.spec.full_id, reason, number))
                    self._fail(Job(plan, task), reason)
                    continue
                texts.start()
                if scorer is None:
                    scorer = self._load_and_record(plan, tokenized)
                    # not sooner: two models would be read from the disk at once
                    self.plans.start()
                storing.check()
                self._claim_and_score(Job(plan, task, tokenized, scorer), storing)
        if not plan.tasks:
            self._load_and_record(plan, plan.tokenize(self.documents[0]))

    def _load_and_record(self, plan: ModelPlan, first: TokenizedDocument) -> Engine:
        self.progress(f"{plan.spec.full_id}: loading and checking", 0)
        scorer = self._load(plan, with_bos(first.ids, plan.tokenizer.bos))
        write_model(plan, scorer.parameters)
        return scorer

    def _load(self, plan: ModelPlan, sample: Ids) -> Engine:
        folder = plan.checkpoint.folder
        needed = planned_memory(self.selection, plan.spec, self.longest, folder, self.available)
        return loading.load_engine(
            loading.Loading(
                spec=plan.spec,
                checkpoint=plan.checkpoint,
                device=self.selection.device,
                dtype=plan.dtype,
                attention=self.selection.attention,
                memory=needed,
                sample=sample,
                top_k=max((c.top_k for task in plan.tasks for c in task.missing), default=0),
                fused=self.selection.fused,
            )
        )

    def _claim_and_score(self, job: Job, storing: Background) -> None:
        """Score one document if no other process has it; its claim is held until it is stored."""
        spec, document, missing = job.plan.spec, job.task.document, job.task.missing
        self.progress(job.label, 0)
        with ExitStack() as held:
            ours = held.enter_context(self._claim(job))
            todo = job.plan.left(job.task) if ours else ()
            if ours:  # another process has done the rest since the plan was made
                self.outcome.finished_before += len(missing) - len(todo)
            else:
                self.outcome.elsewhere += len(missing)
            if not todo:
                self.progress(job.label, len(missing), False)
                return
            scored: list[ScoredUnit] = []
            for together in scoring_groups(todo):
                try:
                    scored += self._score_conditions(job, together)
                except DoesNotFitError:
                    # what needs no cache of the document is scored alone; the others are refused
                    for part in split_by_cache(together):
                        scored += self._score_conditions(job, part)
            self.outcome.failures += [
                Failure(spec.full_id, unit.reason, document.doc_id)
                for unit in scored
                if unit.reason
            ]
            storing.finish()
            release = held.pop_all()

        def store() -> None:
            with release:
                for unit in scored:
                    self._store(job, unit)
            self.progress(job.label, len(missing))

        storing.submit(store)

    def _claim(self, job: Job) -> AbstractContextManager[bool]:
        folder = self.workspace.store / "claims" / self.problem.name / job.plan.spec.model_id
        return claim(folder / f"doc-{job.task.document.doc_id:06d}.claim")

    def _is_done(self, job: Job, condition: Condition) -> bool:
        keys = self.workspace, self.problem.name, job.plan.spec.model_id
        unit = finished_units(*keys, condition.name).get(job.task.document.doc_id)
        return unit is not None and unit.status == "done"

    def _score_conditions(self, job: Job, together: Sequence[Condition]) -> list[ScoredUnit]:
        """Score conditions in one call; seconds are shared by the tokens that each processed.

        Nothing where it failed and another worker is to try.

        Raises:
            DoesNotFitError: not all of them fit, and some might alone.
            DeviceLostError: the GPU failed.
        """
        assert job.tokenized is not None and job.scorer is not None
        self.memory.reset()
        started = time.perf_counter()
        reason = ""
        results: Sequence[Scored] = ()
        built: list[list[Request]] = [[] for _ in together]
        try:
            reading = job.plan.reading(job.task.document, job.tokenized, together)
            built = [condition.build(reading) for condition in together]
            requests = [request for group in built for request in group]
            if reference := together[0].reference:  # scored alone
                results, waited = self.references.compare(job.scorer, reference, requests)
                started -= waited
            else:
                results = list(job.scorer.score(requests))
        except Exception as error:  # the next document is tried
            raise_if_lost(error)
            fitting = isinstance(error, DoesNotFitError) and len(split_by_cache(together)) > 1
            if fitting or isinstance(error, DeviceLostError):
                raise
            reason = explain(error, job.plan.spec.full_id)
            if self.as_worker and may_do_elsewhere(error):
                number = job.task.document.doc_id
                self.outcome.failures.append(Failure(job.plan.spec.full_id, reason, number))
                return []
        seconds = time.perf_counter() - started
        processed = sum(result.tokens_processed for result in results)
        scored, left = [], iter(results)
        for condition, group in zip(together, built, strict=True):
            of_group = list(islice(left, len(group)))
            tokens = sum(result.tokens_processed for result in of_group)
            share = tokens / processed if processed else 1 / len(together)
            peaks = self.memory.bytes(), self.memory.reserved_bytes()
            unit = ScoredUnit(condition, group, of_group, reason, tokens, seconds * share, *peaks)
            scored.append(unit)
        return scored

    def _store(self, job: Job, scored: ScoredUnit) -> None:
        """Store one unit; without a tokenised document it failed before it was tokenised.

        A failure doesn't replace a finished unit, which other settings may have given: it is
        reported only.
        """
        if scored.reason and self._is_done(job, scored.condition):
            return
        rows = TOKENS.empty_table()
        if not scored.reason and job.tokenized is not None:
            number = job.task.document.doc_id
            rows = token_rows(number, job.tokenized, scored.requests, scored.results)
        unit = unit_record(job, scored, rows.num_rows)
        top_k = scored.condition.top_k
        choices = top_token_rows(rows, scored.results, top_k) if top_k and rows.num_rows else None
        write_top_tokens(self.workspace, unit, choices, top_k)
        if scored.condition.reference:
            compared = divergence_rows(rows, scored.results) if rows.num_rows else None
            write_side_rows(self.workspace.store / "divergences", unit, compared)
        write_unit(self.workspace, unit, rows)
        self.outcome.units += not scored.reason
        self.outcome.tokens += scored.tokens
