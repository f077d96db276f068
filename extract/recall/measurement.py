"""Measuring the recall target: load each model once, ask it, store its answers as they come."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from extract.backends.backend import DEFAULT, ENGINE_VERSION, Loading, find_backend
from extract.failures import Failure, Outcome, why_failed
from extract.models.loading import has_all_tensors
from extract.planning.plan import (
    ModelPlan,
    Selection,
    describe_corrections,
    describe_interventions,
    plan_model,
)
from extract.recall.contexts import (
    ADJECTIVES,
    LETTERS,
    LISTED,
    NOUNS,
    RECALL_VERSION,
    make_contexts,
)
from extract.recall.items import build_items, describe_items, score_items
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.problem.models import ModelSpec
from warehouse.problem.spec import DEFAULT_TASKS, Problem, RecallTarget
from warehouse.progress import Progress
from warehouse.remote import footer, source
from warehouse.sources.place import Place
from warehouse.store.ledger import fingerprint
from warehouse.store.parquet_files import write_table
from warehouse.store.schema import DOWNSTREAM

FINGERPRINT_KEY = b"tokenmart.fingerprint"

WEIGHTS_KEY = b"tokenmart.weights"
"""The backend's record of how weights were loaded; earlier versions stored none."""

SAME_KEY = b"tokenmart.recall_apart_from_contexts"
"""The fingerprint with the number of contexts left out: such files can be added to."""

USABLE_CONTEXTS = 9
"""Contexts from which on a score's standard error is itself known to a quarter."""


def standard_error_note(contexts: int) -> str:
    """A note that standard errors of few contexts are imprecise; empty if there are enough.

    A standard error from C independent contexts has itself a relative error of about
    1 / sqrt(2 (C - 1)), as that of any standard deviation.
    """
    if contexts >= USABLE_CONTEXTS:
        return ""
    known = (
        f"known to about ±{1 / math.sqrt(2 * (contexts - 1)):.0%} only"
        if contexts > 1
        else "unknown"
    )
    return (
        f"{contexts} contexts a model: the scores' standard errors, and the noise ceiling made of "
        f"them, are {known}; `tokenmart recall --contexts {USABLE_CONTEXTS}` makes that ±25%"
    )


def target_fingerprint(target: RecallTarget, plan: ModelPlan, backend: str) -> str:
    """Everything the measured rows depend on."""
    return _fingerprint(target, plan, backend, target.measured)


def extendable_fingerprint(target: RecallTarget, plan: ModelPlan, backend: str) -> str:
    """The same but for the number of contexts, the first of which are always alike."""
    measured = {key: value for key, value in target.measured.items() if key != "contexts"}
    return _fingerprint(target, plan, backend, measured)


def _fingerprint(
    target: RecallTarget, plan: ModelPlan, backend: str, measured: dict[str, Any]
) -> str:
    words = ADJECTIVES + NOUNS
    if target.tasks != DEFAULT_TASKS:
        words += (*LISTED, LETTERS)
    parts = {
        "revision": plan.checkpoint.revision,
        "interventions": describe_interventions(plan.spec),
        **describe_corrections(plan.spec),
        "tokenizer": plan.tokenizer_sha256,
        "dtype": plan.dtype,
        "backend": backend,
        "engine": ENGINE_VERSION,
        "recall": RECALL_VERSION,
        "target": measured,
        "names": hashlib.sha256(" ".join(words).encode()).hexdigest(),
    }
    return fingerprint(parts)


def items_path(problem: Problem, model_id: str, workspace: Workspace) -> Path:
    """The measured items of one model."""
    return (
        workspace.downstream / f"problem={problem.name}" / f"model_id={model_id}" / "items.parquet"
    )


def recall_items_path(problem: Problem, model_id: str, workspace: Workspace) -> Path:
    """The questions of those items."""
    folder = f"problem={problem.name}"
    return workspace.store / "recall_items" / folder / f"model_id={model_id}" / "items.parquet"


def is_measured(path: Path, wanted: str) -> bool:
    """Whether the file contains items with this fingerprint."""
    return _marks(path).get(FINGERPRINT_KEY, b"").decode() == wanted


def stored_answers(path: Path, extendable: str) -> pa.Table:
    """Answers that are there already and can be added to; none of another target or model."""
    if _marks(path).get(SAME_KEY, b"").decode() == extendable:
        return pq.ParquetFile(source(path)).read()
    return DOWNSTREAM.empty_table()


def lacks_record(path: Path, backend: str) -> bool:
    """Whether there are answers without a record that the model had all its tensors."""
    return backend == DEFAULT and path.is_file() and WEIGHTS_KEY not in _marks(path)


def _marks(path: Path) -> dict[bytes, bytes]:
    """Metadata of a stored file; nothing of one that isn't there."""
    return dict(pq.read_schema(footer(path)).metadata or {}) if path.is_file() else {}


def measured_contexts(answers: pa.Table) -> int:
    """From how many contexts answers are."""
    return len(answers["cluster"].unique())


def store_answers(
    path: Path, answers: pa.Table, fingerprint_: str, extendable: str, weights: str
) -> None:
    """Write measured items atomically, with their fingerprints and the record of the weights."""
    marks = {
        FINGERPRINT_KEY: fingerprint_.encode(),
        SAME_KEY: extendable.encode(),
        WEIGHTS_KEY: weights.encode(),
    }
    write_table(path, answers.cast(DOWNSTREAM).replace_schema_metadata(marks))


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
) -> Outcome:
    """Measure what is missing, model by model; a model that fails does not stop the others.

    Answers are stored context by context: an interrupted run resumes after the last one. More
    contexts than are asked for stay.

    Args:
        problem, selection, workspace: as for `Extraction`.
        target: from `recall_target`.
        progress: called as models finish.

    Returns:
        Units are models that were measured.

    Raises:
        DeviceLostError: the GPU failed.
        StorageError: nothing more can be stored; what was measured is kept.
    """
    texts = target.filler.texts(Place(workspace))
    outcome = Outcome()
    for spec in selection.models:

        def job(spec: ModelSpec = spec) -> None:
            plan = plan_model(problem, selection, spec, [], workspace)
            with outcome.messages.about(spec.full_id):
                job = _Measuring(problem, target, plan, selection, workspace, texts, progress)
                outcome.units += job.run()

        if reason := why_failed(spec.full_id, job):
            outcome.failures.append(Failure(spec.full_id, reason))
        progress(f"{spec.full_id}: recall", 1)
    return outcome


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
