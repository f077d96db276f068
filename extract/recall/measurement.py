"""Measuring the recall target: load each model once, ask it, store its answers as they come."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from extract.devices import available_memory
from extract.failures import Failure, Outcome, why_failed
from extract.models import loading
from extract.planning.cost import Footprint, footprint, model_size, refuse_too_large
from extract.planning.fingerprints import describe_corrections
from extract.planning.plan import ModelPlan, plan_model
from extract.planning.selection import Selection
from extract.recall.contexts import RECALL_VERSION, make_contexts, words_sha256
from extract.recall.items import describe_items, encoded_items, score_items
from extract.scoring.budgets import SUFFIX_TOKENS
from warehouse.errors import StorageError, TokenmartError
from warehouse.paths import Workspace
from warehouse.problem.models import ModelSpec
from warehouse.problem.spec import Problem, RecallTarget
from warehouse.progress import Progress
from warehouse.sources.folders import ProblemFolders
from warehouse.store.ledger import fingerprint
from warehouse.store.parquet_files import read_table, write_table
from warehouse.store.schema import DOWNSTREAM, table_path

WEIGHTS_KEY = b"tokenmart.weights"
"""Footer key: the record of how weights were loaded."""

FINGERPRINT_KEY = b"tokenmart.recall_apart_from_contexts"
"""Footer key of measured items: hash of everything that they depend on."""


def target_fingerprint(target: RecallTarget, plan: ModelPlan) -> str:
    """Hash of everything that measured items depend on.

    The number of contexts is no part of it: the first contexts are always alike, so answers with
    the same fingerprint can be added to.
    """
    of_model = ("revision", "interventions", "tokenizer", "dtype", "backend", "engine")
    measured = {key: value for key, value in target.measured.items() if key != "contexts"}
    return fingerprint(
        {
            **{name: plan.facts[name] for name in of_model},
            **describe_corrections(plan.spec),
            "recall": RECALL_VERSION,
            "names": words_sha256(target.tasks),
            "target": measured,
        }
    )


def items_path(problem: Problem, model_id: str, workspace: Workspace) -> Path:
    """The measured items of one model."""
    return table_path(workspace, "downstream", problem.name, model_id)


def recall_items_path(problem: Problem, model_id: str, workspace: Workspace) -> Path:
    """The questions of those items."""
    return table_path(workspace, "recall_items", problem.name, model_id)


def recall_target(problem: Problem, contexts: int | None) -> RecallTarget:
    """The target to measure, with `contexts` where given.

    Raises:
        TokenmartError: the problem has no target that could be measured.
    """
    target = problem.target
    if not isinstance(target, RecallTarget):
        raise TokenmartError(
            f"problem {problem.name}: it has no target that is measured (`target: {{kind: recall, "
            "…}`), leave `tokenmart recall` out",
            code="nothing-to-measure",
            where=problem.name,
        )
    return target.model_copy(update={"contexts": contexts}) if contexts else target


def measure_recall(target: RecallTarget, selection: Selection, progress: Progress) -> Outcome:
    """Measure what is missing, model by model; a model that fails does not stop the others.

    Answers are stored context by context: an interrupted run resumes after the last one. More
    contexts than are asked for stay. Units of the outcome are models that were measured.

    Raises:
        DeviceLostError: the GPU failed.
        StorageError: nothing more can be stored; what was measured is kept.
    """
    texts = target.filler.texts(ProblemFolders(selection.workspace))
    outcome = Outcome()
    # asked before a model is loaded
    available = available_memory(selection.device)
    for spec in selection.models:

        def job(spec: ModelSpec = spec) -> None:
            progress(f"{spec.full_id}: recall", 0)
            plan = plan_model(selection, spec, [])
            outcome.units += _measure(target, plan, texts, available, progress)

        if reason := why_failed(spec.full_id, job):
            outcome.failures.append(Failure(spec.full_id, reason))
        progress(f"{spec.full_id}: recall", 1)
    return outcome


def _measure(
    target: RecallTarget,
    plan: ModelPlan,
    texts: Sequence[tuple[str, str]],
    available: int,
    progress: Progress,
) -> bool:
    """Measure what is missing of one model; returns whether anything was.

    Raises:
        TokenmartError: the target's lengths exceed the model's context, the model needs more than
            the `available` bytes, or fewer answers would replace those that are stored.
    """
    spec, selection = plan.spec, plan.selection
    path = items_path(selection.problem, spec.model_id, selection.workspace)
    fingerprint = target_fingerprint(target, plan).encode()
    answers = _stored_answers(path, fingerprint)
    done = len(answers["cluster"].unique())
    if done >= target.contexts:
        _describe(target, max(done, target.contexts), plan, texts)
        return False
    needed = _needed_memory(target, plan, available)
    contexts = make_contexts(target, texts)
    if not done and not selection.force:
        _refuse_fewer(spec, path, describe_items(target, contexts).num_rows)
    scorer = None
    # one file, rewritten after each context: a reader never meets half a context
    for number, encoded in encoded_items(target, contexts, plan.tokenizer, done):
        progress(f"{spec.full_id}: recall, context {number + 1}", 0)
        if scorer is None:
            sample = encoded[0].request.prefix if encoded else None
            chosen = loading.Loading(
                spec,
                plan.checkpoint,
                selection.device,
                plan.dtype,
                memory=needed,
                sample=sample,
            )
            scorer = loading.load_engine(chosen)
        added = score_items(scorer, encoded, target)
        answers = pa.concat_tables([answers.replace_schema_metadata(None), added])
        marks = {FINGERPRINT_KEY: fingerprint, WEIGHTS_KEY: scorer.weights.encode()}
        if number == done:  # before the answers: what isn't described counts, controls too
            _describe(target, target.contexts, plan, texts)
        write_table(path, answers.cast(DOWNSTREAM).replace_schema_metadata(marks))
    return True


def _stored_answers(path: Path, fingerprint: bytes) -> pa.Table:
    """Answers of the same target and model; none where they are of another one."""
    metadata = pq.read_schema(path).metadata if path.is_file() else None
    if (metadata or {}).get(FINGERPRINT_KEY) != fingerprint:
        return DOWNSTREAM.empty_table()
    return read_table(path)


def _needed_memory(target: RecallTarget, plan: ModelPlan, available: int) -> Footprint | None:
    """What the longest context needs; None where the model's size is not known.

    Raises:
        TokenmartError: it is beyond the model's context, or more than the available bytes.
    """
    spec, selection = plan.spec, plan.selection
    limit, longest = plan.context_limit, target.lengths[-1]
    if limit is not None and longest > limit:
        raise TokenmartError(
            f"{spec.full_id}: target length {longest} is beyond its context of {limit} tokens; "
            "shorten target.lengths or set the model's `context`"
        )
    size = model_size(spec, selection.workspace, plan.checkpoint.folder)
    if size is None:
        return None
    needed = footprint(
        spec,
        size,
        dtype=plan.dtype,
        device=selection.device,
        longest=longest,
        suffix_tokens=SUFFIX_TOKENS,
    )
    refuse_too_large(spec, needed, selection.device, available)
    return needed


def _refuse_fewer(spec: ModelSpec, path: Path, asked: int) -> None:
    """Stop before answers of another target are replaced by fewer.

    Raises:
        TokenmartError: they would be (code `shorter-run`).
    """
    stored = 0
    if path.is_file() and pq.read_schema(path).metadata:  # else it has no measured answers
        stored = pq.read_metadata(path).num_rows
    if asked < stored:
        raise TokenmartError(
            f"{spec.full_id}: {stored:,} answers are stored and would be replaced by {asked:,}; "
            "restore the target section of the problem file, or use --force to replace them",
            code="shorter-run",
            where=spec.full_id,
        )


def _describe(
    target: RecallTarget, contexts: int, plan: ModelPlan, texts: Sequence[tuple[str, str]]
) -> None:
    """Write down what the items ask; what `overall` averages may have changed since."""
    target = target.model_copy(update={"contexts": contexts})
    table = describe_items(target, make_contexts(target, texts))
    selection = plan.selection
    path = recall_items_path(selection.problem, plan.spec.model_id, selection.workspace)
    # where nothing changed nothing is written: the folder may be read-only
    with suppress(FileNotFoundError, StorageError):
        if read_table(path).equals(table):
            return
    write_table(path, table)
