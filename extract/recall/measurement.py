"""Measuring the recall target: load each model once, ask it, store its answers as they come."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from extract.backends.backend import Loading, find_backend
from extract.device_errors import DeviceLostError, raise_if_lost
from extract.device_memory import release_memory
from extract.failures import Failure, LibraryMessages, explain
from extract.planning.plan import ModelPlan, Selection, plan_model
from extract.planning.unrecorded_weights import has_all_tensors
from extract.recall.contexts import make_contexts
from extract.recall.items import build_items, describe_items, score_items
from extract.recall.store import (
    extendable_fingerprint,
    is_measured,
    items_path,
    lacks_record,
    measured_contexts,
    recall_items_path,
    store_answers,
    stored_answers,
    target_fingerprint,
)
from warehouse.errors import StorageError, TokenmartError
from warehouse.paths import Workspace
from warehouse.problem.models import ModelSpec
from warehouse.problem.spec import Problem, RecallTarget
from warehouse.progress import Progress
from warehouse.remote import source
from warehouse.sources.place import Place
from warehouse.store.parquet_files import write_table


@dataclass(frozen=True)
class RecallOutcome:
    """Result of a run: models measured, models that failed with reasons, warnings of libraries."""

    measured: int
    failures: tuple[Failure, ...]
    messages: LibraryMessages


def recall_target(problem: Problem, contexts: int | None, demo: bool) -> RecallTarget:
    """The target to measure.

    Args:
        problem: the problem.
        contexts: contexts per model instead of the file's.
        demo: use the demo's lengths and tasks, and its number of contexts unless one is given.

    Raises:
        TokenmartError: the problem has no target that could be measured.
    """
    target = problem.target
    if target is None:
        raise TokenmartError(
            f"problem {problem.name} has no target: nothing to measure; add `target: "
            "{kind: recall, …}` to its problem file, or leave `tokenmart recall` out"
        )
    if not isinstance(target, RecallTarget):
        raise TokenmartError(
            f"problem {problem.name}: its target is a locked file, nothing to measure; "
            f"see `tokenmart data fetch --problem {problem.asked} --only target`"
        )
    small = problem.demo if demo else None
    changed = {"contexts": contexts or (small and small.contexts)}
    for name in ("lengths", "tasks", "overall"):
        changed[name] = small and getattr(small, name)
    return target.model_copy(update={k: v for k, v in changed.items() if v})


def measure_recall(
    problem: Problem,
    target: RecallTarget,
    selection: Selection,
    workspace: Workspace,
    progress: Progress,
) -> RecallOutcome:
    """Measure what is missing, model by model; a model that fails does not stop the others.

    Answers are stored context by context: an interrupted run resumes after the last one. More
    contexts than are asked for stay.

    Args:
        problem: the problem.
        target: from `recall_target`.
        selection: which models, and how.
        workspace: where answers go.
        progress: called as models finish.

    Raises:
        StorageError: nothing more can be stored; what was measured is kept.
    """
    texts = target.filler.texts(Place(workspace))
    failures: list[Failure] = []
    messages = LibraryMessages()
    measured = 0
    for spec in selection.models:
        label, reason = f"{spec.full_id}: recall", ""
        try:
            plan = plan_model(problem, selection, spec, [], workspace)
            with messages.about(spec.full_id):
                job = _Measuring(problem, target, plan, selection, workspace, texts, progress)
                measured += job.run()
        except (StorageError, DeviceLostError):
            raise
        except Exception as error:  # whatever it was, the next model is tried
            raise_if_lost(error)
            reason = explain(error).removeprefix(f"{spec.full_id}: ")
        # after the handler, whose exception keeps the model in memory
        release_memory()
        if reason:
            failures.append(Failure(spec.full_id, reason))
        progress(label, 1)
    return RecallOutcome(measured, tuple(failures), messages)


@dataclass(frozen=True)
class _Measuring:
    """One model of a run."""

    problem: Problem
    target: RecallTarget
    plan: ModelPlan
    selection: Selection
    workspace: Workspace
    texts: Sequence[tuple[str, str]]
    progress: Progress

    @property
    def spec(self) -> ModelSpec:
        return self.plan.spec

    def run(self) -> bool:
        """Measure what is missing; whether anything was."""
        path = items_path(self.problem, self.spec.model_id, self.workspace)
        backend = self.selection.backend
        extendable = extendable_fingerprint(self.target, self.plan, backend)
        files = self.plan.checkpoint, self.spec, self.workspace
        if lacks_record(path, backend) and not has_all_tensors(*files):
            # an earlier version asked a model of which a part was drawn at random
            path.unlink()
        answers = stored_answers(path, extendable)
        there = measured_contexts(answers)
        whole = target_fingerprint(self.target, self.plan, backend)
        if is_measured(path, whole) or there >= self.target.contexts:
            self._describe(max(there, self.target.contexts))
            return False
        self._refuse_too_long()
        contexts = make_contexts(self.target, self.texts)
        todo = build_items(self.target, contexts, self.plan.tokenizer, there)
        scorer = None
        # one file, rewritten after each context: a reader never meets half a context
        for number, items in todo:
            self.progress(f"{self.spec.full_id}: recall, context {number + 1}", 0)
            if scorer is None:
                sample = items[0].request.prefix if items else None
                loading = Loading(
                    self.spec,
                    self.plan.checkpoint,
                    self.selection.device,
                    self.plan.dtype,
                    sample=sample,
                )
                scorer = find_backend(backend).load(loading)
                scorer.check()
            answers = pa.concat_tables(
                [answers.replace_schema_metadata(None), score_items(scorer, items, self.target)]
            )
            so_far = self.target.model_copy(update={"contexts": number + 1})
            measured = target_fingerprint(so_far, self.plan, backend)
            store_answers(path, answers, measured, extendable, scorer.weights)
        self._describe(self.target.contexts)
        return True

    def _describe(self, contexts: int) -> None:
        """Write down what the items ask; what `overall` averages may have changed since."""
        target = self.target.model_copy(update={"contexts": contexts})
        table = describe_items(target, make_contexts(target, self.texts))
        path = recall_items_path(self.problem, self.spec.model_id, self.workspace)
        # a file that is rewritten would have dbt build everything again
        with suppress(OSError, pa.ArrowInvalid):
            if pq.ParquetFile(source(path)).read().equals(table):
                return
        write_table(path, table)

    def _refuse_too_long(self) -> None:
        limit, longest = self.plan.context_limit, self.target.lengths[-1]
        if limit is not None and longest > limit:
            raise TokenmartError(
                f"{self.spec.full_id}: target length {longest} is beyond its context of "
                f"{limit} tokens; shorten target.lengths or set the model's `context`"
            )
