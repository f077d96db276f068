"""Running tasks on a model: units that are missing are scored and stored, the rest is read back.

The store is that of documents (ledger, claims, whole units), in folders of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from extract.backends.backend import Loading, Scorer, find_backend
from extract.device_errors import DeviceLostError, raise_if_lost
from extract.device_memory import PeakMemory
from extract.failures import Failure, explain
from extract.planning.plan import Document, ModelPlan, Selection, Task, model_parts
from extract.unit_rows import ScoredUnit, model_row, unit_record
from extract.work_claims import claim
from plugins.benchmarks.harness.encoding import PairEncoder
from plugins.benchmarks.harness.scoring import ScoredRequests, answer_text, score_unit
from plugins.benchmarks.harness.tasks import EvalTask, EvalUnit
from warehouse.errors import StorageError
from warehouse.paths import Workspace
from warehouse.probes.request import Condition, ConditionKind, Ids
from warehouse.problem.spec import Problem
from warehouse.progress import Progress
from warehouse.store.ledger import UnitRecord, fingerprint, read_units
from warehouse.store.parquet_files import write_table
from warehouse.store.schema import EVAL_ANSWERS, TOKENS
from warehouse.store.token_files import (
    finished_units,
    partition,
    publish,
    published_path,
    read_rows,
    write_unit,
)

BENCHMARK = ConditionKind("benchmark")
READING_VERSION = 1
"""Rises whenever the same requests may be read otherwise than before."""

PUBLISH_SECONDS = 120.0


@dataclass(frozen=True)
class Response:
    """What a model said to one request: log-likelihood and greediness, or a text."""

    loglikelihood: float
    is_greedy: bool
    text: str


@dataclass
class EvalRun:
    """One model on the tasks of a problem.

    Attributes:
        problem: the problem whose model it is.
        selection: device, dtype, backend.
        plan: the model's files.
        workspace: where rows go.
        progress: called as units finish.
        failures: units that failed, and why.
        units: how many were scored.
        tokens: how many tokens went through the model.
    """

    problem: Problem
    selection: Selection
    plan: ModelPlan
    workspace: Workspace
    progress: Progress
    failures: list[Failure] = field(default_factory=list)
    units: int = 0
    tokens: int = 0

    @cached_property
    def encoder(self) -> PairEncoder:
        """Cuts texts for the model."""
        longest = self.plan.context_limit
        return PairEncoder(self.plan.tokenizer, longest or 2048)

    @cached_property
    def scorer(self) -> Scorer:
        """The model, loaded and checked when the first unit needs it."""
        plan = self.plan
        self.progress(f"{plan.spec.full_id}: loading", 0)
        text = "The quick brown fox jumps over the lazy dog, and then it runs away. " * 12
        scorer = find_backend(self.selection.backend).load(
            Loading(
                spec=plan.spec,
                checkpoint=plan.checkpoint,
                device=self.selection.device,
                dtype=plan.dtype,
                attention=self.selection.attention,
                sample=plan.tokenizer.encode(text).ids,
            )
        )
        scorer.check()
        place = f"problem={self.problem.name}/model_id={plan.spec.model_id}/model.parquet"
        write_table(self.workspace.models / place, model_row(plan, scorer.parameters))
        return scorer

    def run(self, task: EvalTask) -> None:
        """Score what is missing of a task; a unit that fails does not stop the others.

        Raises:
            StorageError: nothing more can be stored; what was finished is kept.
        """
        label = f"{self.plan.spec.full_id}: {task.condition}"
        missing = [unit for unit in task.units if not self._is_done(task, unit, self._ledger(task))]
        self.progress(label, len(task.units) - len(missing))
        published = time.monotonic()
        try:
            for unit in missing:
                self._claim_and_score(task, unit)
                self.progress(label, 1)
                if time.monotonic() - published > PUBLISH_SECONDS:
                    self._publish(task)
                    published = time.monotonic()
        finally:
            self._publish(task)

    def _publish(self, task: EvalTask) -> None:
        publish(self.workspace.evals, self.problem.name, self.plan.spec.model_id, task.condition)

    def _ledger(self, task: EvalTask) -> dict[int, UnitRecord]:
        return finished_units(
            self.workspace.evals, self.problem.name, self.plan.spec.model_id, task.condition
        )

    def _fingerprint(self, unit: EvalUnit) -> str:
        plan = self.plan
        parts = model_parts(
            self.problem,
            self.selection,
            plan.spec,
            plan.checkpoint,
            plan.tokenizer_sha256,
            plan.dtype,
        )
        reading = {"reading": READING_VERSION, "longest": plan.context_limit}
        return fingerprint({**parts, **reading, "requests": unit.sha256})

    def _is_done(self, task: EvalTask, unit: EvalUnit, ledger: dict[int, UnitRecord]) -> bool:
        found = ledger.get(unit.number)
        return (
            found is not None
            and found.status == "done"
            and found.fingerprint == self._fingerprint(unit)
        )

    def _claim_and_score(self, task: EvalTask, unit: EvalUnit) -> None:
        folder = self.workspace.store / "claims" / self.problem.name / self.plan.spec.model_id
        with claim(folder / f"{task.condition}-{unit.number:06d}.claim") as ours:
            if not ours or self._is_done(task, unit, self._ledger(task)):
                return
            memory = PeakMemory(self.selection.device)
            memory.reset()
            started = time.perf_counter()
            reason, scored = "", ScoredRequests(TOKENS.empty_table(), [], [])
            try:
                scored = score_unit(unit, self.scorer, self.encoder)
            except (StorageError, DeviceLostError):
                raise
            except Exception as error:  # the next unit is tried
                raise_if_lost(error)
                reason = explain(error).removeprefix(f"{self.plan.spec.full_id}: ")
                self.failures.append(Failure(f"{self.plan.spec.full_id}, {task.name}", reason))
            seconds = time.perf_counter() - started
            self._store(task, unit, scored, reason, seconds, memory.bytes())

    def _store(
        self,
        task: EvalTask,
        unit: EvalUnit,
        scored: ScoredRequests,
        reason: str,
        seconds: float,
        peak_bytes: int,
    ) -> None:
        condition = Condition(
            name=task.condition,
            kind=BENCHMARK,
            params={"task": task.name, "shots": task.shots},
            probe="eval",
            seed=0,
            build=lambda reading: [],
        )
        document = Document(unit.number, task.name, unit.sha256, "")
        processed = sum(result.tokens_processed for result in scored.results)
        record = unit_record(
            self.problem.name,
            self.selection,
            self.plan,
            Task(document, {task.condition: self._fingerprint(unit)}, (condition,)),
            ScoredUnit(
                condition, scored.requests, scored.results, reason, processed, seconds, peak_bytes
            ),
            scored.rows.num_rows,
            self.scorer if not reason else None,
            None,
        )
        longest = int(pc.max(scored.rows["position"]).as_py() or 0) + 1
        record = replace(record, document_tokens=longest, document_tokens_total=longest)
        # whole float32: choices may lie closer together than the documents' rounding
        write_unit(self.workspace.evals, record, scored.rows, rounded=False)
        self.units += not reason
        self.tokens += processed

    def responses(self, task: EvalTask) -> Iterator[tuple[EvalUnit, UnitRecord, list[Response]]]:
        """What is published of a task, unit by unit; units that aren't are left out.

        One that another process has stored since we published has no rows in the file yet.

        Raises:
            StorageError: the published file is damaged.
        """
        keys = self.problem.name, self.plan.spec.model_id, task.condition
        path = published_path(self.workspace.evals, *keys)
        ledger = {record.doc_id: record for record in read_units(path)}
        done = [unit for unit in task.units if self._is_done(task, unit, ledger)]
        if not done:
            return
        rows = read_rows(path)
        columns = [rows[n].to_numpy() for n in ("doc_id", "segment", "token_id", "logprob", "rank")]
        doc_ids, segments, tokens, logprobs, ranks = columns
        for unit in done:
            first, last = np.searchsorted(doc_ids, [unit.number, unit.number + 1])
            found = []
            for segment, request in enumerate(unit.requests):
                at, to = first + np.searchsorted(segments[first:last], [segment, segment + 1])
                ids: Ids = tokens[at:to]
                written = request.kind == "generate_until"
                found.append(
                    Response(
                        loglikelihood=float(logprobs[at:to].astype(np.float64).sum()),
                        is_greedy=bool((ranks[at:to] == 1).all()),
                        text=answer_text(ids, request, self.encoder) if written else "",
                    )
                )
            yield unit, ledger[unit.number], found

    def store_answers(self, task: EvalTask) -> None:
        """Write what the model generated, behind each filter of the task.

        Raises:
            StorageError: the disk is full or the folder can't be written.
        """
        rows = [
            {**row, "fingerprint": record.fingerprint, "backend": record.backend}
            for unit, record, responses in self.responses(task)
            for row in _filtered(task, unit, responses)
        ]
        if not rows:
            return
        keys = self.problem.name, self.plan.spec.model_id, task.condition
        path = self.workspace.eval_answers / partition(*keys) / "answers.parquet"
        write_table(path, pa.Table.from_pylist(rows, schema=EVAL_ANSWERS))


def _filtered(
    task: EvalTask, unit: EvalUnit, responses: Sequence[Response]
) -> Iterator[dict[str, Any]]:
    """Generated texts as they are (filter `none`) and behind the task's own filters."""
    written = [
        (segment, request, responses[segment].text)
        for segment, request in enumerate(unit.requests)
        if request.kind == "generate_until"
    ]
    empty = {"loglikelihood": None, "is_greedy": None}
    ensembles = getattr(task.task, "_filters", None) or []
    if "none" not in {ensemble.name for ensemble in ensembles}:
        for segment, _, text in written:
            yield {
                "doc_id": unit.number,
                "segment": segment,
                "filter": "none",
                "answer": text,
                **empty,
            }
    instances: dict[int, tuple[int, Any]] = {}
    for segment, request, text in written:
        instance = instances.setdefault(id(request.instance), (segment, request.instance))[1]
        if request.repeat == 0:
            instance.resps, instance.filtered_resps = [], {}
        instance.resps.append(text)
    for ensemble in ensembles if instances else []:
        ensemble.apply([instance for _, instance in instances.values()])
        for segment, instance in instances.values():
            answer = instance.filtered_resps[ensemble.name]
            while isinstance(answer, list):
                answer = answer[0] if answer else None
            yield {
                "doc_id": unit.number,
                "segment": segment,
                "filter": ensemble.name,
                "answer": None if answer is None else str(answer),
                **empty,
            }
