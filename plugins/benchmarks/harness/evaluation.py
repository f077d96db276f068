"""Run tasks on a model: score and store the missing units, and read the others from the store.

Units are stored in the same way as those of documents (with ledger and claims), in other folders.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from extract.devices import PeakMemory
from extract.failures import DeviceLostError, Failure, explain, raise_if_lost
from extract.models import loading
from extract.planning.documents import PlannedDocument
from extract.planning.plan import ModelPlan, Task
from extract.planning.selection import Selection
from extract.scoring.statistics import PROGRAM
from extract.unit_rows import Job, ScoredUnit, unit_record, write_model
from extract.work_claims import claim
from plugins.benchmarks.harness.encoding import PairEncoder, TooLong
from plugins.benchmarks.harness.results import (
    AnsweredUnit,
    Response,
    filtered_answers,
    score_rows,
)
from plugins.benchmarks.harness.scoring import ScoredRequests, answer_text, named_items, score_unit
from plugins.benchmarks.harness.stored_items import eval_store
from plugins.benchmarks.harness.tasks import EvalTask, EvalUnit, requests_sha256
from plugins.benchmarks.schema import EVAL_ANSWERS, EVAL_SCORES
from warehouse.errors import StorageError
from warehouse.files import storage_errors
from warehouse.paths import Workspace
from warehouse.probes.request import Condition, ConditionKind, Ids
from warehouse.problem.spec import Problem
from warehouse.progress import Progress
from warehouse.store.ledger import UnitRecord, fingerprint, read_units
from warehouse.store.parquet_files import write_table
from warehouse.store.schema import TOKENS
from warehouse.store.token_files import (
    finished_units,
    partition,
    publication_lock,
    publish,
    published_path,
    read_rows,
    write_unit,
)
from warehouse.terminal import counted

if TYPE_CHECKING:
    from extract.scoring.engine import Engine

BENCHMARK = ConditionKind("benchmark")
INPUT_VERSION = 3
"""Increased whenever the same requests may become other model inputs than before."""

PUBLISH_SECONDS = 120.0


@dataclass
class EvalRun:
    """One model on the tasks of a problem.

    Attributes:
        problem: the problem whose model it is.
        selection: device, dtype.
        plan: the model's files.
        workspace: where rows are stored.
        progress: called as units finish.
        failures: units that failed, with the reason.
        units: number of scored units.
        stored: number of units that were stored before.
        tokens: number of tokens that the model processed.
        too_long: treatment of items that are longer than the model's context.
    """

    problem: Problem
    selection: Selection
    plan: ModelPlan
    workspace: Workspace
    progress: Progress
    failures: list[Failure] = field(default_factory=list)
    units: int = 0
    stored: int = 0
    tokens: int = 0
    too_long: TooLong = "cut"

    @cached_property
    def encoder(self) -> PairEncoder:
        """Tokenizes and cuts texts for the model."""
        longest = self.plan.context_limit
        return PairEncoder(self.plan.tokenizer, longest or 2048, self.too_long)

    @cached_property
    def scorer(self) -> Engine:
        """The model, loaded and checked when the first unit needs it."""
        plan = self.plan
        self.progress(f"{plan.spec.full_id}: loading", 0)
        text = "The quick brown fox jumps over the lazy dog, and then it runs away. " * 12
        scorer = loading.load_engine(
            loading.Loading(
                spec=plan.spec,
                checkpoint=plan.checkpoint,
                device=self.selection.device,
                dtype=plan.dtype,
                attention=self.selection.attention,
                sample=plan.tokenizer.encode(text).ids,
            )
        )
        write_model(plan, scorer.parameters)
        self.progress(f"{plan.spec.full_id}: scoring", 0)
        return scorer

    def run(self, task: EvalTask) -> None:
        """Score the missing units of a task; a unit that fails does not stop the others.

        Raises:
            StorageError: no more rows can be stored; finished units are kept.
        """
        label = f"{self.plan.spec.full_id}: {task.condition}"
        ledger = self._ledger(task)
        missing = [unit for unit in task.units if not self._is_done(unit, ledger)]
        self.stored += len(task.units) - len(missing)
        self.progress(label, len(task.units) - len(missing), computed=False)
        if missing:
            with storage_errors(self._scores(task)):
                self._scores(task).unlink(missing_ok=True)
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
        publish(
            eval_store(self.workspace), self.problem.name, self.plan.spec.model_id, task.condition
        )

    def _ledger(self, task: EvalTask) -> dict[int, UnitRecord]:
        return finished_units(
            eval_store(self.workspace), self.problem.name, self.plan.spec.model_id, task.condition
        )

    def _fingerprint(self, unit: EvalUnit) -> str:
        plan = self.plan
        inputs = {
            "reading": INPUT_VERSION,  # this key is part of the fingerprint of stored units
            "longest": plan.context_limit,
            "too_long": self.too_long,
        }
        return fingerprint({**plan.facts, **inputs, "requests": unit.sha256})

    def _is_done(self, unit: EvalUnit, ledger: dict[int, UnitRecord]) -> bool:
        record = ledger.get(unit.number)
        return (
            record is not None
            and record.status == "done"
            and record.fingerprint == self._fingerprint(unit)
        )

    def _claim_and_score(self, task: EvalTask, unit: EvalUnit) -> None:
        folder = self.workspace.store / "claims" / self.problem.name / self.plan.spec.model_id
        with claim(folder / f"{task.condition}-{unit.number:06d}.claim") as ours:
            if not ours or self._is_done(unit, self._ledger(task)):
                return
            memory = PeakMemory(self.selection.device)
            memory.reset()
            started = time.perf_counter()
            reason, scored = "", ScoredRequests(TOKENS.empty_table(), [], [])
            try:
                scored = score_unit(unit, self.scorer, self.encoder)
                reason = scored.reason
            except (StorageError, DeviceLostError):
                raise
            except Exception as error:  # the next unit is tried
                raise_if_lost(error)
                reason = explain(error, self.plan.spec.full_id)
                scored.wrong.update(dict.fromkeys(unit.items, reason))
            if reason:
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
            params={
                "task": task.name,
                "shots": task.shots,
                "wrong": sorted(scored.wrong),
                "cut": scored.cut,
            },
            probe="eval",
            seed=0,
        )
        document = PlannedDocument(unit.number, task.name, unit.sha256, "")
        processed = sum(result.tokens_processed for result in scored.results)
        whole = Task(document, {task.condition: self._fingerprint(unit)}, (condition,))
        scored_unit = ScoredUnit(
            condition, scored.requests, scored.results, reason, processed, seconds, peak_bytes
        )
        job = Job(self.plan, whole, scorer=self.scorer if scored.results else None)
        record = unit_record(job, scored_unit, scored.rows.num_rows)
        longest = int(pc.max(scored.rows["position"]).as_py() or 0) + 1
        record = replace(record, document_tokens=longest, document_tokens_total=longest)
        # float32 without rounding: choices may differ by less than the rounding of documents
        write_unit(eval_store(self.workspace), record, scored.rows, rounded=False)
        self.units += not reason
        self.tokens += processed

    def responses(self, task: EvalTask) -> Iterator[tuple[AnsweredUnit, UnitRecord]]:
        """The published responses of a task, unit by unit; unpublished units are left out.

        A unit that another process stored after this process published has no rows in the file
        yet. Items that failed have no responses.

        Raises:
            StorageError: the published file is damaged.
        """
        records = self._published(task)
        if not records:
            return
        rows = read_rows(self._path(task))
        columns = [rows[n].to_numpy() for n in ("doc_id", "segment", "token_id", "logprob", "rank")]
        doc_ids, segments, tokens, logprobs, ranks = columns
        for unit in task.units:
            if unit.number not in records:
                continue
            record = records[unit.number]
            left_out = set(json.loads(record.probe_params)["wrong"])
            first, last = np.searchsorted(doc_ids, [unit.number, unit.number + 1])
            responses: list[Response | None] = []
            for segment, request in enumerate(unit.requests):
                if int(request.instance.doc_id) in left_out:
                    responses.append(None)
                    continue
                at, to = first + np.searchsorted(segments[first:last], [segment, segment + 1])
                ids: Ids = tokens[at:to]
                written = request.kind == "generate_until"
                responses.append(
                    Response(
                        loglikelihood=float(logprobs[at:to].astype(np.float64).sum()),
                        is_greedy=bool((ranks[at:to] == 1).all()),
                        text=answer_text(ids, request, self.encoder) if written else "",
                    )
                )
            yield AnsweredUnit(unit, responses), record

    def _path(self, task: EvalTask) -> Path:
        return published_path(
            eval_store(self.workspace), self.problem.name, self.plan.spec.model_id, task.condition
        )

    def _published(self, task: EvalTask) -> dict[int, UnitRecord]:
        """Records of the task's own units in the published file."""
        ledger = {record.doc_id: record for record in read_units(self._path(task))}
        return {
            unit.number: ledger[unit.number]
            for unit in task.units
            if unit.number in ledger and ledger[unit.number].fingerprint == self._fingerprint(unit)
        }

    def shortened(self, task: EvalTask) -> str:
        """Number of items whose prompt lost its beginning, in all published units; empty for none.

        Raises:
            StorageError: the published file is damaged.
        """
        units = {unit.number: unit for unit in task.units}
        cut: dict[int, int] = {}
        for number, record in self._published(task).items():
            for segment, tokens in json.loads(record.probe_params)["cut"].items():
                item = int(units[number].requests[int(segment)].instance.doc_id)
                cut[item] = max(cut.get(item, 0), tokens)
        return f"{counted(len(cut), 'item')} lost up to {max(cut.values()):,} tokens" if cut else ""

    def store_answers(self, task: EvalTask) -> list[str]:
        """Write the generated texts after each filter, and the task's own metrics.

        Of two processes on one task the later one writes those of all units.

        Returns:
            Metrics without a value, with the reason.

        Raises:
            StorageError: the disk is full or the folder can't be written.
        """
        keys = self.problem.name, self.plan.spec.model_id, task.condition
        with publication_lock(eval_store(self.workspace), *keys):
            return self._store_answers(task)

    def _store_answers(self, task: EvalTask) -> list[str]:
        published = list(self.responses(task))
        answered = [each for each, _ in published]
        records = {record.doc_id: record for _, record in published}
        empty = {"loglikelihood": None, "is_greedy": None}
        rows = [
            {**row, **empty, "fingerprint": record.fingerprint, "backend": record.backend}
            for row in filtered_answers(task, answered)
            for record in [records[row["doc_id"]]]
        ]
        if rows:
            keys = self.problem.name, self.plan.spec.model_id, task.condition
            path = self.workspace.store / "eval_answers" / partition(*keys) / "answers.parquet"
            write_table(path, pa.Table.from_pylist(rows, schema=EVAL_ANSWERS))
        common = {
            "requests_sha256": requests_sha256(task.units),
            "backend": published[0][1].backend if published else PROGRAM,
        }
        scores = [{**row, **common} for row in score_rows(task, answered, _absent(task, published))]
        if scores:
            write_table(self._scores(task), pa.Table.from_pylist(scores, schema=EVAL_SCORES))
        reasons: dict[str, set[str]] = {}
        for row in scores:
            if row["reason"]:
                reasons.setdefault(row["reason"], set()).add(row["metric"])
        return [f"no value of {', '.join(sorted(m))}: {why}" for why, m in reasons.items()]

    def _scores(self, task: EvalTask) -> Path:
        keys = self.problem.name, self.plan.spec.model_id, task.condition
        return self.workspace.store / "eval_scores" / partition(*keys) / "scores.parquet"


def _absent(task: EvalTask, published: Sequence[tuple[AnsweredUnit, UnitRecord]]) -> str:
    """Reason why responses that the task's metrics need are missing; empty if all are present."""
    wrong = [item for _, record in published for item in json.loads(record.probe_params)["wrong"]]
    if wrong:
        return f"{named_items(sorted(wrong))} could not be scored"
    if len(published) < len(task.units):
        return f"{len(task.units) - len(published)} of {counted(len(task.units), 'unit')} missing"
    return ""
