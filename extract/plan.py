"""What has to be computed: fingerprints, missing units, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from extract.interventions import describe
from extract.loading import (
    Checkpoint,
    DocumentTokenizer,
    Encoded,
    context_limit,
    find_checkpoint,
    load_config,
    load_tokenizer,
    tokenizer_fingerprint,
)
from extract.probes import Condition, conditions
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.problem.spec import ModelSpec, Problem
from warehouse.store.ledger import UnitRecord, fingerprint
from warehouse.store.token_files import finished_units


@dataclass(frozen=True)
class Selection:
    """The part of a problem to run, and how."""

    models: tuple[ModelSpec, ...]
    conditions: tuple[Condition, ...]
    documents: int | None
    max_tokens: int | None
    device: str
    dtype: str
    attention: str | None = None
    compiled: bool = False


@dataclass(frozen=True)
class Document:
    """One proxy document."""

    doc_id: int
    name: str
    sha256: str
    text: str


@dataclass(frozen=True)
class Task:
    """The missing conditions of one (model, document), scored together."""

    document: Document
    fingerprints: dict[str, str]
    missing: tuple[Condition, ...]


@dataclass(frozen=True)
class ModelPlan:
    """One model, ready to load, and the tasks left for it.

    `done` counts settled units, `failed` says which of them failed and why.

    Tokenizer and configuration are loaded when they are first needed: a plan with nothing to
    do costs a look at the ledger.
    """

    spec: ModelSpec
    checkpoint: Checkpoint
    tokenizer_sha256: str
    dtype: str
    tasks: tuple[Task, ...]
    done: int
    failed: tuple[str, ...]

    @cached_property
    def tokenizer(self) -> DocumentTokenizer:
        """The model's tokenizer."""
        return load_tokenizer(self.checkpoint, self.spec)

    @cached_property
    def config(self) -> Any:
        """The model's configuration, interventions applied."""
        return load_config(self.checkpoint, self.spec)


def select(
    problem: Problem,
    *,
    models: Sequence[str] = (),
    probes: Sequence[str] = (),
    documents: int | None = None,
    max_tokens: int | None = None,
    demo: bool = False,
    device: str,
    dtype: str,
    attention: str | None = None,
    compiled: bool = False,
) -> Selection:
    """Resolve the command line's words against the problem.

    Raises:
        ProblemFileError: an unknown model or probe; the message lists the known ones.
        TokenmartError: an attention that can't run here, or no demo.
    """
    if demo:
        if problem.demo is None:
            raise TokenmartError(
                f"problem {problem.name} has no `demo` section; leave out --demo or add one"
            )
        documents = documents or problem.demo.documents
        max_tokens = max_tokens or problem.demo.max_tokens
        models = models or problem.demo.models
    chosen = [problem.model(name) for name in models] if models else list(problem.models)
    wanted = [problem.probe(name) for name in probes] if probes else list(problem.probes)
    return Selection(
        models=tuple(dict.fromkeys(chosen)),
        conditions=tuple(c for probe in dict.fromkeys(wanted) for c in conditions(probe)),
        documents=documents,
        max_tokens=max_tokens,
        device=device,
        dtype=dtype,
        attention=resolve_attention(attention, device),
        compiled=compiled,
    )


def documents_of(table: pa.Table, limit: int | None) -> list[Document]:
    """The first `limit` documents.

    Raises:
        TokenmartError: a document is empty.
    """
    rows = table.slice(0, limit).to_pylist()
    for row in rows:
        if not row["text"].strip():
            raise TokenmartError(
                f"document {row['doc_id']} ({row['name']}) is empty; remove it from the corpus"
            )
    return [Document(row["doc_id"], row["name"], row["sha256"], row["text"]) for row in rows]


def resolve_dtype(spec: ModelSpec, asked: str, device: str) -> str:
    """The dtype to compute in: the command line's, the model's, or what the device does best.

    On a GPU bfloat16 where it is supported, else float16; on a processor bfloat16 when it has
    instructions for it, else float32.
    """
    import torch

    wanted = asked if asked != "auto" else spec.dtype
    if wanted != "auto":
        return wanted
    if device == "cpu" or (device == "auto-map" and not torch.cuda.is_available()):
        fast = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
        return "bfloat16" if fast else "float32"
    if device.startswith(("cuda", "auto-map")) and not torch.cuda.is_bf16_supported():
        return "float16"
    return "bfloat16"


def resolve_device(asked: str) -> str:
    """`auto` → the first GPU (all of them for several), else the processor.

    Raises:
        TokenmartError: a device that is not here.
    """
    import torch

    if asked == "auto":
        if torch.cuda.is_available():
            return "cuda" if torch.cuda.device_count() == 1 else "auto-map"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    if asked.startswith("cuda") and not torch.cuda.is_available():
        raise TokenmartError(
            f"--device {asked}: no CUDA device here; use --device cpu, or see `tokenmart doctor`"
        )
    try:
        if asked != "auto-map":
            torch.empty(0, device=asked)
    except RuntimeError as error:
        raise TokenmartError(
            f"--device {asked}: not a device here; use auto, cpu, cuda, cuda:0 or auto-map"
        ) from error
    return asked


def resolve_attention(asked: str | None, device: str) -> str | None:
    """The attention implementation to load models with; None leaves it to transformers.

    Raises:
        TokenmartError: FlashAttention 2 where it can't run.
    """
    if asked == "flash_attention_2":
        from transformers.utils import is_flash_attn_2_available

        if not device.startswith(("cuda", "auto-map")) or not is_flash_attn_2_available():
            raise TokenmartError(
                f"--attention flash_attention_2: needs a CUDA device (here: {device}) and the "
                "flash-attn package; leave --attention out: SDPA has flash kernels of its own"
            )
    return asked


def max_tokens_of(problem: Problem, selection: Selection) -> int | None:
    """Explicit truncation in tokens: the smaller of the command line's and the problem's."""
    limits = [n for n in (selection.max_tokens, problem.documents.max_tokens) if n is not None]
    return min(limits, default=None)


def unit_fingerprint(plan_parts: dict[str, Any], document: Document, condition: Condition) -> str:
    """Fingerprint of one unit; see `warehouse.store.ledger.fingerprint`."""
    return fingerprint(
        {
            **plan_parts,
            "document": document.sha256,
            "kind": condition.kind,
            "params": condition.params,
        }
    )


def plan_model(
    problem: Problem,
    selection: Selection,
    spec: ModelSpec,
    documents: Sequence[Document],
    workspace: Workspace,
    since: str | None = None,
) -> ModelPlan:
    """Find a model's files and what is left to compute for it. Nothing heavy is loaded.

    Args:
        problem: the problem.
        selection: which part of it, and how.
        spec: the model.
        documents: the selected documents.
        workspace: where its files and the ledger are.
        since: units that failed since then are settled; without it failed units are tried again.

    Raises:
        TokenmartError: files are missing or can't be read.
        StorageError: a published file is damaged.
    """
    checkpoint = find_checkpoint(spec, workspace, problem.name)
    tokenizer_sha256 = tokenizer_fingerprint(checkpoint, spec, workspace)
    dtype = resolve_dtype(spec, selection.dtype, selection.device)
    parts = {
        "revision": checkpoint.revision,
        "interventions": describe(spec.interventions),
        "tokenizer": tokenizer_sha256,
        "dtype": dtype,
        "max_tokens": max_tokens_of(problem, selection),
        "too_long": problem.documents.too_long,
    }
    finished = {
        condition.name: finished_units(workspace, problem.name, spec.model_id, condition.name)
        for condition in selection.conditions
    }
    tasks, failed, done = [], [], 0
    for document in documents:
        prints = {
            condition.name: unit_fingerprint(parts, document, condition)
            for condition in selection.conditions
        }
        missing = tuple(
            condition
            for condition in selection.conditions
            if not is_settled(
                finished[condition.name].get(document.doc_id), prints[condition.name], since
            )
        )
        failed += [
            f"{spec.full_id}, document {document.doc_id}: {unit.reason}"
            for condition in selection.conditions
            if condition not in missing
            and (unit := finished[condition.name][document.doc_id]).status == "failed"
        ]
        done += len(selection.conditions) - len(missing)
        if missing:
            tasks.append(Task(document, prints, missing))
    return ModelPlan(
        spec, checkpoint, tokenizer_sha256, dtype, tuple(tasks), done, tuple(dict.fromkeys(failed))
    )


def is_settled(unit: UnitRecord | None, wanted: str, since: str | None) -> bool:
    """Whether the ledger holds this unit with this fingerprint: done, or failed in this run."""
    if unit is None or unit.fingerprint != wanted:
        return False
    return unit.status == "done" or (since is not None and unit.finished_at >= since)


def encode(
    plan: ModelPlan, document: Document, problem: Problem, selection: Selection
) -> tuple[Encoded, int]:
    """A document in the model's tokens, cut where the problem says so; and its whole length.

    Raises:
        TokenmartError: no tokens, or longer than the model's context and not to be cut.
    """
    encoded = plan.tokenizer.encode(document.text)
    total = len(encoded.ids)
    if total < 2:
        raise TokenmartError(
            f"document {document.doc_id} ({document.name}): {total} tokens for "
            f"{plan.spec.full_id}; remove it from the corpus"
        )
    limit = max_tokens_of(problem, selection)
    keep = total if limit is None else min(total, limit)
    context = context_limit(plan.config, plan.spec)
    room = None if context is None else context - (plan.tokenizer.bos is not None)
    if room is not None and keep > room:
        if problem.documents.too_long == "refuse":
            raise TokenmartError(
                f"document {document.doc_id} ({document.name}): {keep} tokens for "
                f"{plan.spec.full_id}, whose context is {context}; set documents.max_tokens, "
                "documents.too_long: truncate, or the model's `context` in the problem file"
            )
        keep = room
    cut = slice(0, keep)
    return Encoded(encoded.ids[cut], encoded.char_start[cut], encoded.char_end[cut]), total


@dataclass(frozen=True)
class Cost:
    """Estimated work: tokens through the backbone, rows, FLOPs, seconds, bytes on disk."""

    tokens: int
    rows: int
    flops: float
    seconds: float
    disk_bytes: int


BYTES_PER_ROW = 10
CPU_FLOPS_PER_CORE = {"float32": 6e10, "bfloat16": 1.2e11, "float16": 2e10}
GPU_FLOPS = 1.2e14
"""Sustained speed assumed for estimates: a 2024 server processor's core, an A100-class GPU."""


def estimate(
    tokens_per_document: Sequence[int],
    selected: Sequence[Condition],
    *,
    parameters: int,
    dtype: str,
    device: str,
) -> Cost:
    """Cost of scoring documents of these lengths under the conditions, with one model.

    FLOPs: 2 × parameters per token, plus attention at 4 × width × layers per pair of tokens,
    where width × layers follows from the parameters of a typical decoder (12 · layers · width²,
    width = 128 · layers).
    """
    processed = rows = 0
    pairs = 0.0
    for n in tokens_per_document:
        shared = False
        for condition in selected:
            if condition.kind == "full":
                processed, rows, pairs = processed + n, rows + n, pairs + n * n / 2
                shared = True
            elif condition.kind == "window":
                length = condition.params["context"] + condition.params["stride"]
                windows = -(-max(0, n - condition.params["context"]) // condition.params["stride"])
                processed += windows * length
                rows += max(0, n - condition.params["context"])
                pairs += windows * length**2 / 2
            else:
                count = condition.params["excerpts"]
                span = condition.params["excerpt_tokens"] + condition.params["answer_tokens"]
                with_document = condition.kind == "retrieval_with_document"
                trunk = n if with_document and not shared else 0
                processed += trunk + count * span
                rows += count * condition.params["answer_tokens"]
                pairs += trunk * n / 2 + count * span * (n if with_document else span)
    layers = (parameters / (12 * 128**2)) ** (1 / 3)
    flops = 2.0 * parameters * processed + 4.0 * 128 * layers**2 * pairs
    if device == "cpu":
        import psutil

        cores = psutil.cpu_count(logical=False) or 1
        speed = CPU_FLOPS_PER_CORE[dtype] * cores
    else:
        speed = GPU_FLOPS
    return Cost(processed, rows, flops, flops / speed, rows * BYTES_PER_ROW)
