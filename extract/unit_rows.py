"""From scored requests to rows: tokens, top-k tokens, the record in the ledger, the model."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from extract.planning.fingerprints import describe_interventions
from extract.planning.plan import ModelPlan, Task
from extract.scoring.statistics import ENGINE_VERSION, PROGRAM, Scored
from extract.tokenization import TokenizedDocument
from warehouse.probes.request import Condition, Request
from warehouse.problem.needed import model_identity
from warehouse.sources.configurations import vocabulary_size
from warehouse.store.ledger import UnitRecord
from warehouse.store.parquet_files import write_table
from warehouse.store.provenance import code_revision
from warehouse.store.schema import DIVERGENCES, MODELS, TOKENS, TOP_TOKENS, table_path
from warehouse.store.token_files import STEP_NATS

if TYPE_CHECKING:
    from extract.scoring.engine import Engine


@dataclass(frozen=True)
class Job:
    """One document of one model; `tokenized` is None if it failed before it was tokenised."""

    plan: ModelPlan
    task: Task
    tokenized: TokenizedDocument | None = None
    scorer: Engine | None = None

    @property
    def label(self) -> str:
        """Its name in the progress bar."""
        return f"{self.plan.spec.full_id}: document {self.task.document.doc_id}"


@dataclass(frozen=True)
class ScoredUnit:
    """One condition of one document, scored or failed, not yet stored."""

    condition: Condition
    requests: Sequence[Request]
    results: Sequence[Scored]
    reason: str
    tokens: int
    seconds: float
    peak_bytes: int
    reserved_bytes: int = 0


def token_rows(
    doc_id: int, document: TokenizedDocument, requests: Sequence[Request], results: Sequence[Scored]
) -> pa.Table:
    """Rows of one unit in the token schema, in the order of the requests."""
    if not requests:
        return TOKENS.empty_table()
    positions = np.concatenate([request.positions for request in requests])
    start, end = document.char_start[positions], document.char_end[positions]
    return columns_of_rows(doc_id, requests, results, start, end)


def columns_of_rows(
    doc_id: int,
    requests: Sequence[Request],
    results: Sequence[Scored],
    char_start: NDArray[np.int32],
    char_end: NDArray[np.int32],
) -> pa.Table:
    """Rows of scored requests in the token schema.

    Args:
        doc_id: of all rows.
        requests: at least one, in the order of the rows.
        results: theirs.
        char_start: shape (rows,); first character of each token in its text.
        char_end: shape (rows,); one past the last.
    """
    columns: dict[str, Any] = {
        "doc_id": np.full(len(char_start), doc_id, dtype=np.int32),
        "segment": _joined(np.full(len(r.positions), r.segment, np.int32) for r in requests),
        "position": _joined(request.positions for request in requests),
        "context_tokens": _joined(request.context_tokens for request in requests),
        "token_id": _joined(request.targets for request in requests),
        "char_start": char_start,
        "char_end": char_end,
    }
    for name in ("logprob", "entropy", "rank", "top_logprob", "varentropy"):
        columns[name] = _joined(getattr(result.scores, name) for result in results)
    return pa.table(columns, schema=TOKENS)


def top_token_rows(tokens: pa.Table, results: Sequence[Scored], top_k: int) -> pa.Table:
    """The top-k tokens of a unit, in the schema of the side table.

    Log-probs are rounded as those of tokens are.

    Args:
        tokens: from `token_rows`.
        results: the same; with `choices`.
        top_k: how many of each token, at least as many as the results have.
    """
    ids = _joined(result.scores.choices for result in results)[:, :top_k]
    logprobs = _joined(result.scores.choice_logprobs for result in results)[:, :top_k]
    step = np.float32(STEP_NATS["logprob"])
    columns: dict[str, Any] = {
        name: np.repeat(tokens[name].to_numpy(), ids.shape[1])
        for name in ("doc_id", "segment", "position")
    }
    columns["choice"] = np.tile(np.arange(1, ids.shape[1] + 1, dtype=np.int32), len(ids))
    columns["choice_id"] = ids.ravel()
    columns["logprob"] = np.round(logprobs.ravel() / step) * step + np.float32(0)
    return pa.table(columns, schema=TOP_TOKENS)


def divergence_rows(tokens: pa.Table, results: Sequence[Scored]) -> pa.Table:
    """Divergences of a unit's tokens from a reference, in the schema of their table.

    Args:
        tokens: from `token_rows`.
        results: the same; each with its `divergence`.
    """
    columns: dict[str, Any] = {
        name: tokens[name].to_numpy() for name in ("doc_id", "segment", "position")
    }
    for name in ("kl_reference_model", "kl_model_reference", "same_top"):
        columns[name] = _joined(getattr(result.divergence, name) for result in results)
    return pa.table(columns, schema=DIVERGENCES)


def _joined(parts: Iterable[Any]) -> NDArray[Any]:
    return np.concatenate(list(parts))


def model_file(plan: ModelPlan) -> Path:
    """Where the warehouse looks for the row of a model."""
    selection = plan.selection
    return table_path(selection.workspace, "models", selection.problem.name, plan.spec.model_id)


def write_model(plan: ModelPlan, parameters: int) -> None:
    """Write the row of a model.

    Raises:
        StorageError: the folder can't be written.
    """
    spec = plan.spec
    row = {
        "full_id": spec.full_id,
        "family": spec.family,
        "base_id": spec.base_id,
        "revision": plan.checkpoint.revision,
        "parameters": parameters,
        "trained_context": plan.context_limit or 0,
        "licence": spec.licence,
        "tokenizer_sha256": plan.tokenizer_sha256,
        "prepends_bos": plan.tokenizer.bos is not None,
        "interventions": json.dumps(describe_interventions(spec)),
        "rope": None if spec.rope is None else spec.rope.model_dump_json(exclude_none=True),
        "vocabulary": vocabulary_size(plan.checkpoint.folder),
    }
    write_table(model_file(plan), pa.Table.from_pylist([row], schema=MODELS))


@cache
def running_code() -> tuple[str, bool]:
    """Commit of the running code and whether it was changed; ("unknown", False) outside git.

    Asked once: what was loaded at the start is what runs.
    """
    revision = code_revision()
    return revision["revision"] or "unknown", bool(revision["dirty"])


def unit_record(job: Job, scored: ScoredUnit, rows: int) -> UnitRecord:
    """The record of a unit; its content hash is set where its rows are stored."""
    commit, dirty = running_code()
    plan, task, tokenized, scorer = job.plan, job.task, job.tokenized, job.scorer
    condition, selection = scored.condition, plan.selection
    other = plan.references.get(condition.reference)
    foreign = task.document.foreign if condition.kind.reads_foreign else None
    return UnitRecord(
        problem=selection.problem.name,
        model_id=plan.spec.model_id,
        condition=condition.name,
        condition_kind=condition.kind.name,
        probe=condition.probe,
        probe_params=json.dumps(condition.params, sort_keys=True),
        doc_id=task.document.doc_id,
        fingerprint=task.fingerprints[condition.name],
        status="failed" if scored.reason else "done",
        reason=scored.reason,
        rows=rows,
        tokens_processed=scored.tokens,
        tokens_scored=rows,
        seconds=round(scored.seconds, 4),
        peak_bytes=scored.peak_bytes,
        device=selection.device,
        dtype=plan.dtype,
        backend=PROGRAM,
        attention=scorer.attention if scorer else "",
        prefixes=scorer.prefixes if scorer else "",
        engine=ENGINE_VERSION,
        document_sha256=task.document.sha256,
        document_tokens=len(tokenized.ids) if tokenized else 0,
        document_tokens_total=tokenized.total_tokens if tokenized else 0,
        torch_version=version("torch"),
        transformers_version=version("transformers"),
        tokenmart_version=version("tokenmart"),
        code_revision=commit,
        code_dirty=dirty,
        seed=condition.seed,
        finished_at=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        content_sha256="",
        over_limit_tokens=tokenized.over_limit_tokens if tokenized else 0,
        weights=scorer.weights if scorer else "",
        reserved_bytes=scored.reserved_bytes,
        reference="" if other is None else model_identity(other.spec, other.checkpoint.revision),
        model_sha256=model_identity(plan.spec, plan.checkpoint.revision),
        foreign_sha256=foreign.sha256 if foreign else "",
    )
