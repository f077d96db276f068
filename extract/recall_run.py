"""Measuring the recall target: load each model once, ask it, store its answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from extract.backends.backend import Loading, find_backend
from extract.failures import Failure, LibraryMessages, explain
from extract.observe import release_memory
from extract.planning.plan import ModelPlan, Selection, plan_model
from extract.recall import (
    Context,
    build_items,
    is_measured,
    items_path,
    make_contexts,
    score_items,
    store_items,
    target_fingerprint,
)
from warehouse.errors import StorageError, TokenmartError
from warehouse.paths import Workspace
from warehouse.problem.spec import Problem, RecallTarget
from warehouse.progress import Progress
from warehouse.sources.place import Place


@dataclass(frozen=True)
class RecallOutcome:
    """What a run did: models measured now, models that failed and why, what libraries said."""

    measured: int
    failures: tuple[Failure, ...]
    messages: LibraryMessages


def recall_target(problem: Problem, contexts: int | None, demo: bool) -> RecallTarget:
    """The target to measure.

    Args:
        problem: the problem.
        contexts: contexts per model instead of the file's.
        demo: takes the demo's lengths, and its number of contexts unless one is given.

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
    changed = {
        "contexts": contexts or (small and small.contexts),
        "lengths": small and small.lengths,
    }
    return target.model_copy(update={k: v for k, v in changed.items() if v})


def measure_recall(
    problem: Problem,
    target: RecallTarget,
    selection: Selection,
    workspace: Workspace,
    progress: Progress,
) -> RecallOutcome:
    """Measure what is missing, model by model; a model that fails does not stop the others.

    Args:
        problem: the problem.
        target: from `recall_target`.
        selection: which models, and how.
        workspace: where answers go.
        progress: called as models finish.

    Raises:
        StorageError: nothing more can be stored; what was measured is kept.
    """
    contexts = make_contexts(target, target.filler.texts(Place(workspace)))
    failures: list[Failure] = []
    messages = LibraryMessages()
    measured = 0
    for spec in selection.models:
        label, reason = f"{spec.full_id}: recall", ""
        try:
            plan = plan_model(problem, selection, spec, [], workspace)
            wanted = target_fingerprint(target, plan, selection.backend)
            path = items_path(problem, spec.model_id, workspace)
            if not is_measured(path, wanted):
                progress(label, 0)
                with messages.about(spec.full_id):
                    answers = _answers(plan, target, contexts, selection)
                store_items(path, answers, wanted)
                measured += 1
        except StorageError:
            raise
        except Exception as error:  # whatever it was, the next model is tried
            reason = explain(error).removeprefix(f"{spec.full_id}: ")
        # after the handler, whose exception keeps the model in memory
        release_memory()
        if reason:
            failures.append(Failure(spec.full_id, reason))
        progress(label, 1)
    return RecallOutcome(measured, tuple(failures), messages)


def _answers(
    plan: ModelPlan, target: RecallTarget, contexts: Sequence[Context], selection: Selection
) -> pa.Table:
    limit = plan.context_limit
    if limit is not None and target.lengths[-1] > limit:
        raise TokenmartError(
            f"{plan.spec.full_id}: target length {target.lengths[-1]} is beyond its context of "
            f"{limit} tokens; shorten target.lengths or set the model's `context`"
        )
    items = build_items(target, contexts, plan.tokenizer)
    sample = items[0].request.trunk if items else None
    scorer = find_backend(selection.backend).load(
        Loading(plan.spec, plan.checkpoint, selection.device, plan.dtype, sample=sample)
    )
    scorer.check()
    return score_items(scorer, items, target)
