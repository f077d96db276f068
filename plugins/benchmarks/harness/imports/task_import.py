"""Store the logged samples of one model and task, unless that would mix it with other results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from plugins.benchmarks.harness.imports.sample_files import RunFacts
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
_HASHED = ("item", "choice", "unconditional", "context", "continuation")


Logged = dict[str, Any]
"""A request in columns of `eval_items`, and its answer: `loglikelihood` in nats (-inf for an
impossible one) and `is_greedy`, or `answers`, the generated text by filter."""


def logged_request(item: int, request_type: str, reference: str, **columns: Any) -> Logged:
    """A request; `reference` is the choice or text without white space before it."""
    defaults: Logged = {"choice": 0, "unconditional": False, "context": "", "continuation": ""}
    defaults |= {"options": {}, "answers": {}, "cluster": str(item), "repeat": 0}
    known = {"item": item, "request_type": request_type, "reference": reference}
    return {**defaults, **known, **lengths_of(reference), "source": "imported", **columns}


@dataclass(frozen=True)
class TaskImport:
    """The samples of one model and task as tables, checked and not yet stored.

    Attributes:
        keys: problem, model id and condition.
        items: rows of `eval_items`.
        answers: rows of `eval_answers`, by table name together with those of `eval_scores`.
    """

    keys: tuple[str, str, str]
    items: pa.Table
    answers: dict[str, pa.Table]

    def refuse_conflicts(self, workspace: Workspace, *, force: bool) -> None:
        """Compare with what is stored of the same condition.

        Args:
            workspace: the checkout.
            force: replace the result of this model. Results of other models are never replaced.

        Raises:
            TokenmartError: the model has another result, or others have results on other requests
                or of another version of the task.
        """
        problem, model, condition = self.keys
        before = stored_items(workspace, problem, condition)
        if before is not None and not before.equals(self.items):
            others = [m for m in _models(workspace, problem, condition) if m != model]
            if others or not force:
                remedy = "keep them in problems of their own" if others else "--force replaces them"
                what = (
                    f"other requests than those of {', '.join(others or [model])}, or another "
                    f"version of the task; {remedy}"
                )
                raise refused(condition, what, "other-requests")
        for name, rows in self.answers.items():
            path = _rows_path(workspace, name, self.keys)
            if not force and path.is_file() and not read_table(path).equals(rows):
                what = f"{model} has another result; --force replaces it"
                raise refused(condition, what, "other-result")

    def store(self, workspace: Workspace) -> None:
        """Write requests, answers and metrics.

        Raises:
            StorageError: the disk is full or the folder can't be written.
        """
        problem, _, condition = self.keys
        store_items(workspace, problem, condition, self.items)
        for name, rows in self.answers.items():
            path = _rows_path(workspace, name, self.keys)
            if rows.num_rows:
                write_table(path, rows)
            else:
                with storage_errors(path):
                    path.unlink(missing_ok=True)


def task_import(
    keys: tuple[str, str, str],
    task: str,
    facts: RunFacts,
    requests: Sequence[Logged],
    scores: Sequence[dict[str, Any]],
) -> TaskImport:
    """The tables of a task.

    Args:
        keys: problem, model id and condition.
        task: its name.
        facts: few-shot examples, and the version of the task: it is stored with each request, so
            that results of two versions are never compared.
        requests: all requests of the task, sorted by item.
        scores: the task's own metrics, in the columns of `eval_scores` without those of requests.
    """
    units: dict[int, list[Logged]] = {}
    for request in requests:
        units.setdefault(request["item"] // UNIT_ITEMS, []).append(request)
    shots = UNKNOWN_SHOTS if facts.shots is None else facts.shots
    version = {"version": facts.version} if facts.version else {}
    items: list[Logged] = []
    answers: list[Logged] = []
    hashes = []
    for number, members in units.items():
        asked = [[row[name] for name in _HASHED] for row in members]
        hashes.append(hashlib.sha256(json.dumps(asked).encode()).hexdigest())
        for segment, request in enumerate(members):
            place = {"doc_id": number, "segment": segment}
            options = json.dumps(request["options"] | version, default=str)
            common = {**request, **place, "task": task, "shots": shots, "options": options}
            common |= {"unit_sha256": hashes[-1], "fingerprint": hashes[-1], "backend": BACKEND}
            items.append(common)
            texts = request["answers"] if "loglikelihood" not in request else {"none": None}
            answers += [{**common, "filter": name, "answer": text} for name, text in texts.items()]
    requests_sha256 = hashlib.sha256(",".join(hashes).encode()).hexdigest()
    whole = [{**row, "requests_sha256": requests_sha256, "backend": BACKEND} for row in scores]
    return TaskImport(
        keys,
        pa.Table.from_pylist(items, schema=EVAL_ITEMS),
        {
            "eval_answers": pa.Table.from_pylist(answers, schema=EVAL_ANSWERS),
            "eval_scores": pa.Table.from_pylist(whole, schema=EVAL_SCORES),
        },
    )


def _models(workspace: Workspace, problem: str, condition: str) -> list[str]:
    """Ids of the models that have a stored result of a condition."""
    pattern = f"problem={problem}/model_id=*/condition={condition}/*.parquet"
    tables = ("eval_answers", "eval_scores")
    paths = [path for name in tables for path in (workspace.store / name).glob(pattern)]
    return sorted({path.parts[-3].partition("=")[2] for path in paths})


def _rows_path(workspace: Workspace, table: str, keys: tuple[str, str, str]) -> Path:
    """File of a model's rows of one condition in `eval_answers` or `eval_scores`."""
    return workspace.store / table / partition(*keys) / f"{table.removeprefix('eval_')}.parquet"
