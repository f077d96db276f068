"""Doing the work: load each model once, score its tasks, store whole units, publish."""

from __future__ import annotations

import contextlib
import datetime
import gc
import json
import resource
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from extract.claims import claim
from extract.engine import Engine, NonFiniteLogits, Scored
from extract.estimate import CHARACTERS_PER_TOKEN, planned_memory
from extract.interventions import describe
from extract.loading import Encoded, context_limit, load_model
from extract.memory import Footprint, refuse_too_large
from extract.plan import (
    BRANCH_TOKENS,
    Document,
    ModelPlan,
    Selection,
    Task,
    encode,
    is_done,
    max_tokens_of,
    plan_model,
)
from extract.probes import Condition, Request
from warehouse.errors import StorageError, TokenmartError
from warehouse.ledger import UnitRecord, content_sha256
from warehouse.paths import Workspace
from warehouse.problem import Problem
from warehouse.schema import MODELS, TOKENS
from warehouse.store import finished_units, publish, write_table, write_unit

PUBLISH_SECONDS = 120.0


@dataclass
class Outcome:
    """What a run did: units computed, failures by name, units left to other processes."""

    units: int = 0
    tokens: int = 0
    failures: list[str] = field(default_factory=list)
    elsewhere: int = 0


Progress = Callable[[str, int], None]
"""Called with what is being done and how many units were finished since the last call."""


@cache
def code_revision(root: Path) -> tuple[str, bool]:
    """Commit of the checkout and whether it has uncommitted changes; ("unknown", False) if none."""
    try:
        commit, state = (
            subprocess.run(
                ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True
            ).stdout.strip()
            for arguments in (
                ("rev-parse", "HEAD"),
                ("status", "--porcelain", "--untracked-files=no"),
            )
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown", False
    return commit, bool(state)


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


class PeakMemory:
    """Peak memory since `reset`: of the GPU's allocator, else of the process, in bytes."""

    def __init__(self, device: str) -> None:
        self.gpu = device.startswith("cuda") or (device == "auto-map" and _has_gpu())

    def reset(self) -> None:
        """Start anew; on Linux the kernel's high-water mark of this process is cleared."""
        if self.gpu:
            import torch

            torch.cuda.reset_peak_memory_stats()
            return
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")

    def bytes(self) -> int:
        """The peak."""
        if self.gpu:
            import torch

            return int(torch.cuda.max_memory_allocated())
        with contextlib.suppress(OSError, IndexError, ValueError):
            status = Path("/proc/self/status").read_text()
            return int(status.split("VmHWM:")[1].split()[0]) * 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def token_rows(
    doc_id: int, encoded: Encoded, requests: Sequence[Request], results: Sequence[Scored]
) -> pa.Table:
    """Rows of one unit in the token schema, sorted by (segment, position)."""
    if not requests:
        return TOKENS.empty_table()
    join: Callable[[list[Any]], Any] = np.concatenate
    positions = join([request.positions for request in requests])
    columns = {
        "doc_id": np.full(len(positions), doc_id, dtype=np.int32),
        "segment": join([np.full(len(r.positions), r.segment, dtype=np.int32) for r in requests]),
        "position": positions,
        "context_tokens": join([request.context_tokens for request in requests]),
        "token_id": join([request.targets for request in requests]),
        "char_start": encoded.char_start[positions],
        "char_end": encoded.char_end[positions],
        **{
            name: join([getattr(result.scores, name) for result in results])
            for name in ("logprob", "entropy", "rank", "top_logprob")
        },
    }
    return pa.table({f.name: pa.array(columns[f.name], f.type) for f in TOKENS}, schema=TOKENS)


def scoring_groups(todo: Sequence[Condition]) -> list[list[Condition]]:
    """Conditions scored in one call: those that share the whole document's KV cache.

    The others are scored apart, so that no row depends on what else happened to be missing.
    """
    sharing = [c for c in todo if c.kind in ("full", "retrieval_with_document")]
    apart = [[c] for c in todo if c not in sharing]
    return [sharing, *apart] if sharing else apart


class Extraction:
    """Runs a selection of a problem: the only place where units are computed and stored."""

    def __init__(
        self,
        problem: Problem,
        selection: Selection,
        documents: Sequence[Document],
        workspace: Workspace,
        progress: Progress,
        attention: str | None = None,
    ) -> None:
        self.problem = problem
        self.selection = selection
        self.documents = documents
        self.workspace = workspace
        self.progress = progress
        self.attention = attention
        self.outcome = Outcome()
        self.memory = PeakMemory(selection.device)
        longest = max((len(d.text) for d in documents), default=0) / CHARACTERS_PER_TOKEN
        limit = max_tokens_of(problem, selection)
        self.longest = int(min(longest, limit) if limit else longest)

    def run(self) -> Outcome:
        """Compute what is missing, model by model; a model that fails does not stop the others.

        Raises:
            StorageError: nothing more can be stored; what was finished is kept.
        """
        for spec in self.selection.models:
            try:
                needed, known = planned_memory(spec, self.selection, self.longest, self.workspace)
                if known:
                    refuse_too_large(spec, needed, self.selection.device, self.longest)
                plan = plan_model(
                    self.problem, self.selection, spec, self.documents, self.workspace
                )
                try:
                    if plan.tasks:
                        self._run_model(plan, needed)
                finally:
                    self._publish(plan)
            except StorageError:
                raise
            except TokenmartError as error:
                self.outcome.failures.append(error.format_message())
            gc.collect()
        return self.outcome

    def _publish(self, plan: ModelPlan) -> None:
        for condition in self.selection.conditions:
            publish(self.workspace, self.problem.name, plan.spec.model_id, condition.name)

    def _run_model(self, plan: ModelPlan, needed: Footprint) -> None:
        encoded = {
            task.document.doc_id: encode(plan, task.document, self.problem, self.selection)
            for task in plan.tasks
        }
        self.progress(f"{plan.spec.full_id}: loading", 0)
        model = load_model(
            plan.checkpoint,
            plan.spec,
            device=self.selection.device,
            dtype=plan.dtype,
            attention=self.attention,
            room=needed.forward,
        )
        self._write_model(plan, model)
        attention = str(getattr(model.config, "_attn_implementation", "unknown"))
        try:
            engine = Engine(model, branch_tokens=BRANCH_TOKENS)
        except NonFiniteLogits as error:
            self._record_failure(plan, attention, encoded, str(error))
            return
        published = time.monotonic()
        for task in plan.tasks:
            self.progress(f"{plan.spec.full_id}: document {task.document.doc_id}", 0)
            lock = (
                self.workspace.data
                / "claims"
                / self.problem.name
                / plan.spec.model_id
                / f"doc-{task.document.doc_id:06d}.claim"
            )
            with claim(lock) as ours:
                todo = self._still_missing(plan, task) if ours else ()
                if not ours:
                    self.outcome.elsewhere += len(task.missing)
                elif todo:
                    self._run_task(
                        plan, task, todo, engine, attention, encoded[task.document.doc_id]
                    )
            self.progress(
                f"{plan.spec.full_id}: document {task.document.doc_id}", len(task.missing)
            )
            if time.monotonic() - published > PUBLISH_SECONDS:
                self._publish(plan)
                published = time.monotonic()

    def _still_missing(self, plan: ModelPlan, task: Task) -> tuple[Condition, ...]:
        """What another process has not finished since the plan was made."""
        left = []
        for condition in task.missing:
            ledger = finished_units(
                self.workspace, self.problem.name, plan.spec.model_id, condition.name
            )
            unit = ledger.get(task.document.doc_id)
            if not is_done(unit, task.fingerprints[condition.name]):
                left.append(condition)
        return tuple(left)

    def _record_failure(
        self,
        plan: ModelPlan,
        attention: str,
        encoded: Mapping[int, tuple[Encoded, int]],
        reason: str,
    ) -> None:
        """Every missing unit of a model that can't be scored at all, in the ledger."""
        for task in plan.tasks:
            sizes = encoded[task.document.doc_id]
            for condition in task.missing:
                self._store(plan, task, condition, attention, sizes, TOKENS.empty_table(), reason)
        self.outcome.failures.append(f"{plan.spec.full_id}: {reason}")

    def _run_task(
        self,
        plan: ModelPlan,
        task: Task,
        todo: Sequence[Condition],
        engine: Engine,
        attention: str,
        sizes: tuple[Encoded, int],
    ) -> None:
        encoded = sizes[0]
        for together in scoring_groups(todo):
            built = [c.build(encoded.ids, plan.tokenizer.bos) for c in together]
            requests = [request for group in built for request in group]
            self.memory.reset()
            started = time.perf_counter()
            reason, results = "", list[Scored]()
            try:
                results = engine.score(requests)
            except (NonFiniteLogits, TokenmartError) as error:
                reason = str(error)
                self.outcome.failures.append(
                    f"{plan.spec.full_id}, document {task.document.doc_id}: {reason}"
                )
            seconds = time.perf_counter() - started
            processed = sum(result.tokens_processed for result in results)
            at = 0
            for condition, group in zip(together, built, strict=True):
                mine = results[at : at + len(group)]
                at += len(group)
                spent = sum(result.tokens_processed for result in mine)
                share = spent / processed if processed else 1 / len(together)
                rows = (
                    TOKENS.empty_table()
                    if reason
                    else token_rows(task.document.doc_id, encoded, group, mine)
                )
                self._store(
                    plan, task, condition, attention, sizes, rows, reason, spent, seconds * share
                )

    def _store(
        self,
        plan: ModelPlan,
        task: Task,
        condition: Condition,
        attention: str,
        sizes: tuple[Encoded, int],
        rows: pa.Table,
        reason: str,
        tokens: int = 0,
        seconds: float = 0.0,
    ) -> None:
        unit = self._record(
            plan, task, condition, rows, attention, len(sizes[0].ids), sizes[1], reason,
            tokens=tokens, seconds=seconds,
        )  # fmt: skip
        write_unit(self.workspace, unit, rows)
        self.outcome.units += not reason
        self.outcome.tokens += tokens

    def _record(
        self,
        plan: ModelPlan,
        task: Task,
        condition: Condition,
        table: pa.Table,
        attention: str,
        used: int,
        total: int,
        reason: str,
        *,
        tokens: int,
        seconds: float,
    ) -> UnitRecord:
        commit, dirty = code_revision(self.workspace.root)
        return UnitRecord(
            problem=self.problem.name,
            model_id=plan.spec.model_id,
            probe=condition.name,
            probe_kind=condition.kind,
            probe_params=json.dumps(condition.params, sort_keys=True),
            doc_id=task.document.doc_id,
            fingerprint=task.fingerprints[condition.name],
            status="failed" if reason else "done",
            reason=reason,
            rows=table.num_rows,
            tokens_processed=tokens,
            tokens_scored=table.num_rows,
            seconds=round(seconds, 4),
            peak_bytes=self.memory.bytes(),
            device=self.selection.device,
            dtype=plan.dtype,
            attention=attention,
            document_sha256=task.document.sha256,
            document_tokens=used,
            document_tokens_total=total,
            torch_version=version("torch"),
            transformers_version=version("transformers"),
            tokenmart_version=version("tokenmart"),
            code_revision=commit,
            code_dirty=dirty,
            seed=condition.seed,
            finished_at=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            content_sha256=content_sha256(table),
        )

    def _write_model(self, plan: ModelPlan, model: Any) -> None:
        spec = plan.spec
        row = {
            "full_id": spec.full_id,
            "family": spec.family,
            "base_id": spec.base_id,
            "revision": plan.checkpoint.revision,
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "trained_context": context_limit(plan.config, spec) or 0,
            "licence": spec.licence,
            "tokenizer_sha256": plan.tokenizer_sha256,
            "prepends_bos": plan.tokenizer.bos is not None,
            "interventions": json.dumps(describe(spec.interventions)),
        }
        path = (
            self.workspace.models
            / f"problem={self.problem.name}"
            / f"model_id={spec.model_id}"
            / "model.parquet"
        )
        write_table(path, pa.Table.from_pylist([row], schema=MODELS))
