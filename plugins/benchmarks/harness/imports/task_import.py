"""Store the logged samples of one model and task, unless that would mix it with other results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from plugins.benchmarks.harness.stored_items import (
    UNIT_ITEMS,
    lengths_of,
    store_items,
    stored_items,
)
from plugins.benchmarks.refusal import refused
from plugins.benchmarks.schema import EVAL_ANSWERS, EVAL_ITEMS, EVAL_SCORES
from warehouse.files import storage_errors
from warehouse.paths import Workspace
from warehouse.store.parquet_files import read_table, write_table
from warehouse.store.token_files import partition

UNKNOWN_SHOTS = -1
BACKEND = "lm_eval"
IMPORT_KEY = b"tokenmart.import"
"""Parquet footer key: JSON with the names of the files imported, and the task's version."""


@dataclass(frozen=True)
class LoggedRequest:
    """One request of a sample and its answer: a log-likelihood, or generated texts.

    Attributes:
        item: number of the task's document, from 0.
        request_type: as in lm-evaluation-harness.
        context: the prompt.
        continuation: the scored text after the prompt; empty for a generation.
        reference: the choice or text without its delimiter; of a generation, a right answer.
        choice: number of the choice, from 0.
        unconditional: whether the choice was scored without its prompt.
        is_gold: whether the choice is right, None if unknown.
        gold: right answers of a generation.
        loglikelihood: of the continuation, in nats, -inf for an impossible one.
        is_greedy: whether each token was the top-1 token.
        answers: generated text by filter.
        lengths: words or bytes of the reference, if the task counts them in its own way.
        options: see `eval_items`.
    """

    item: int
    request_type: str
    context: str
    continuation: str
    reference: str
    choice: int = 0
    unconditional: bool = False
    is_gold: bool | None = None
    gold: list[str] | None = None
    loglikelihood: float | None = None
    is_greedy: bool | None = None
    answers: dict[str, str | None] = field(default_factory=dict)
    lengths: dict[str, int] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


def item_table(task: str, shots: int | None, requests: Sequence[LoggedRequest]) -> pa.Table:
    """Requests, sorted by item, in the schema of `eval_items`."""
    units: dict[int, list[LoggedRequest]] = {}
    for request in requests:
        units.setdefault(request.item // UNIT_ITEMS, []).append(request)
    rows: list[dict[str, Any]] = []
    for number, members in units.items():
        asked = [(r.item, r.choice, r.unconditional, r.context, r.continuation) for r in members]
        sha256 = hashlib.sha256(json.dumps(asked).encode()).hexdigest()
        for segment, request in enumerate(members):
            rows.append(
                {
                    "doc_id": number,
                    "segment": segment,
                    "task": task,
                    "shots": UNKNOWN_SHOTS if shots is None else shots,
                    "item": request.item,
                    "cluster": str(request.item),
                    "subject": None,
                    "request_type": request.request_type,
                    "choice": request.choice,
                    "unconditional": request.unconditional,
                    "repeat": 0,
                    "is_gold": request.is_gold,
                    "gold": None if request.gold is None else json.dumps(request.gold),
                    "context": request.context,
                    "continuation": request.continuation,
                    "reference": request.reference,
                    **lengths_of(request.reference),
                    **request.lengths,
                    "options": json.dumps(request.options, default=str),
                    "unit_sha256": sha256,
                    "source": "imported",
                }
            )
    return pa.Table.from_pylist(rows, schema=EVAL_ITEMS)


@dataclass(frozen=True)
class TaskImport:
    """The samples of one model and task, checked and not yet stored.

    Attributes:
        file: where they are from.
        keys: problem, model id and condition.
        requests: all requests of the task, sorted.
        items: these requests in the schema of `eval_items`.
        scores: the task's own metrics, in the columns of `eval_scores` without those of requests.
        version: of the task; None if unknown.
    """

    file: Path
    keys: tuple[str, str, str]
    requests: Sequence[LoggedRequest]
    items: pa.Table
    scores: Sequence[dict[str, Any]]
    version: str | None

    def refuse_conflicts(self, workspace: Workspace, *, force: bool) -> None:
        """Compare with what is stored of the same condition.

        Args:
            workspace: the checkout.
            force: replace the result of this model. Results of other models are never replaced.

        Raises:
            TokenmartError: the model has another result; or other models have results on other
                requests or of another version of the task.
        """
        problem, model, condition = self.keys

        others = [m for m in models_with_results(workspace, problem, condition) if m != model]
        for other in others:
            theirs = self._version(
                _rows_path(workspace, "eval_answers", (problem, other, condition))
            )
            if theirs and self.version and theirs != self.version:
                raise refused(
                    condition,
                    f"version {self.version}, the results of {other} have version {theirs}; keep "
                    "them in problems of their own",
                    "other-version",
                )
        before = stored_items(workspace, problem, condition)
        if before is not None and not before.equals(self.items) and (others or not force):
            remedy = (
                f"of {', '.join(others)}; keep them in problems of their own"
                if others
                else "imported before; --force replaces them"
            )
            item = _other_item(before, self.items)
            what = f"other requests (item {item}) than those {remedy}"
            raise refused(condition, what, "other-requests")
        if not force and self._replaces_another(workspace):
            what = f"{model} has another result; --force replaces it"
            raise refused(condition, what, "other-result")

    def store(self, workspace: Workspace) -> None:
        """Write requests, answers and metrics.

        Raises:
            StorageError: the disk is full or the folder can't be written.
        """
        problem, _, condition = self.keys
        store_items(workspace, problem, condition, self.items)
        record = {"files": [self.file.name], "version": self.version}
        for name, rows in self._tables().items():
            path = _rows_path(workspace, name, self.keys)
            if rows.num_rows:
                write_table(path, rows.replace_schema_metadata({IMPORT_KEY: json.dumps(record)}))
            else:
                with storage_errors(path):
                    path.unlink(missing_ok=True)

    def _tables(self) -> dict[str, pa.Table]:
        """Rows of `eval_answers` and `eval_scores`."""
        answers, units = [], {}
        places = self.items.select(["doc_id", "segment", "unit_sha256"]).to_pylist()
        for request, place in zip(self.requests, places, strict=True):
            unit = units[place["doc_id"]] = place["unit_sha256"]
            common = {
                "doc_id": place["doc_id"],
                "segment": place["segment"],
                "loglikelihood": request.loglikelihood,
                "is_greedy": request.is_greedy,
                "fingerprint": unit,
                "backend": BACKEND,
            }
            texts = {"none": None} if request.loglikelihood is not None else request.answers
            answers += [{**common, "filter": name, "answer": text} for name, text in texts.items()]
        joined = ",".join(units[number] for number in sorted(units))
        requests_sha256 = hashlib.sha256(joined.encode()).hexdigest()
        scores = [
            {**row, "requests_sha256": requests_sha256, "backend": BACKEND} for row in self.scores
        ]
        return {
            "eval_answers": pa.Table.from_pylist(answers, schema=EVAL_ANSWERS),
            "eval_scores": pa.Table.from_pylist(scores, schema=EVAL_SCORES),
        }

    def _replaces_another(self, workspace: Workspace) -> bool:
        """Whether the model has a stored result that differs from this one."""
        tables = self._tables()
        paths = {name: _rows_path(workspace, name, self.keys) for name in tables}
        if not any(path.is_file() for path in paths.values()):
            return False
        version = self._version(paths["eval_answers"])
        if version and self.version and version != self.version:
            return True
        # as text: NaN equals NaN
        return any(
            str(tables[name].to_pylist())
            != str(read_table(path).to_pylist() if path.is_file() else [])
            for name, path in paths.items()
        )

    @staticmethod
    def _version(answers: Path) -> str | None:
        """Version of the task of a stored result; None if unknown."""
        try:
            metadata = pq.read_schema(answers).metadata or {}
        except (OSError, pa.ArrowException):
            return None
        record: dict[str, str | None] = json.loads(metadata.get(IMPORT_KEY, b"{}"))
        return record.get("version")


def models_with_results(workspace: Workspace, problem: str, condition: str) -> list[str]:
    """Ids of the models that have a stored result of a condition."""
    return sorted(
        {
            path.parent.parent.name.partition("=")[2]
            for table in ("eval_answers", "eval_scores", "eval_tokens")
            for path in (workspace.store / table).glob(
                f"problem={problem}/model_id=*/condition={condition}/*.parquet"
            )
        }
    )


def _rows_path(workspace: Workspace, table: str, keys: tuple[str, str, str]) -> Path:
    """File of a model's rows of one condition in `eval_answers` or `eval_scores`."""
    return workspace.store / table / partition(*keys) / f"{table.removeprefix('eval_')}.parquet"


def _other_item(before: pa.Table, items: pa.Table) -> int:
    """First item whose requests differ."""
    columns = ["item", "choice", "unconditional", "context", "continuation"]
    old, new = (
        {tuple(row.values()) for row in rows.select(columns).to_pylist()}
        for rows in (before, items)
    )
    return int(min(old ^ new)[0]) if old != new else 0
