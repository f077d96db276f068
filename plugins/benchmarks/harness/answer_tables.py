"""Write imported answers to the tables of `eval`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from plugins.benchmarks.harness.eval_answer import EvalAnswer
from plugins.benchmarks.harness.stored_items import UNIT_ITEMS, eval_store, lengths_of
from plugins.benchmarks.schema import EVAL_ANSWERS, EVAL_ITEMS, EVAL_SCORES
from warehouse.files import storage_errors
from warehouse.paths import Workspace
from warehouse.store.ledger import UnitRecord
from warehouse.store.parquet_files import write_table
from warehouse.store.schema import TOKENS
from warehouse.store.token_files import partition, publish, write_unit


def item_rows_of(answers: Sequence[EvalAnswer]) -> pa.Table:
    """Requests in the schema of `eval_items`; the position in a unit is that in the file."""
    units: dict[int, list[EvalAnswer]] = {}
    for answer in answers:
        units.setdefault(answer.item // UNIT_ITEMS, []).append(answer)
    rows: list[dict[str, Any]] = []
    for number, members in units.items():
        asked = [(a.item, a.choice, a.unconditional, a.context, a.continuation) for a in members]
        sha256 = hashlib.sha256(json.dumps(asked).encode()).hexdigest()
        for segment, answer in enumerate(members):
            reference = answer.reference
            if reference is None:
                first = answer.gold[0] if answer.gold else ""
                reference = answer.continuation.lstrip() or answer.continuation or first
            rows.append(
                {
                    "doc_id": number,
                    "segment": segment,
                    "task": answer.task,
                    "shots": answer.shots,
                    "item": answer.item,
                    "cluster": str(answer.item),
                    "subject": answer.subject,
                    "request_type": answer.request_type,
                    "choice": answer.choice,
                    "unconditional": answer.unconditional,
                    "repeat": 0,
                    "is_gold": answer.is_gold,
                    "gold": None if answer.gold is None else json.dumps(answer.gold),
                    "context": answer.context,
                    "continuation": answer.continuation,
                    "reference": reference,
                    **lengths_of(reference),
                    **{n: v for n in ("words", "bytes") if (v := getattr(answer, n)) is not None},
                    "options": json.dumps(answer.options, default=str),
                    "unit_sha256": sha256,
                    "source": "imported",
                }
            )
    return pa.Table.from_pylist(rows, schema=EVAL_ITEMS)


_Keys = tuple[str, str, str]


def _placed(answers: Sequence[EvalAnswer], items: pa.Table) -> Iterator[tuple[EvalAnswer, Any]]:
    columns = items.select(["doc_id", "segment", "unit_sha256"]).to_pylist()
    return zip(answers, columns, strict=True)


def answer_rows(answers: Sequence[EvalAnswer], items: pa.Table) -> pa.Table:
    """Log-likelihoods and generated texts of the requests in `items`, in their order."""
    rows = []
    for answer, place in _placed(answers, items):
        common = {
            "doc_id": place["doc_id"],
            "segment": place["segment"],
            "fingerprint": place["unit_sha256"],
            "backend": answer.backend,
        }
        if answer.loglikelihood is not None:
            said = {"loglikelihood": answer.loglikelihood, "is_greedy": answer.is_greedy}
            rows.append({**common, **said, "filter": "none", "answer": None})
        for name, text in answer.answers.items():
            said = {"loglikelihood": None, "is_greedy": None}
            rows.append({**common, **said, "filter": name, "answer": text})
    return pa.Table.from_pylist(rows, schema=EVAL_ANSWERS)


def score_rows(
    answers: Sequence[EvalAnswer], items: pa.Table, scores: Sequence[dict[str, Any]]
) -> pa.Table:
    """A task's own metrics in the schema of `eval_scores`."""
    units = dict(zip(*(items[name].to_pylist() for name in ("doc_id", "unit_sha256")), strict=True))
    joined = ",".join(units[number] for number in sorted(units))
    common = {
        "requests_sha256": hashlib.sha256(joined.encode()).hexdigest(),
        "backend": answers[0].backend,
    }
    return pa.Table.from_pylist([{**row, **common} for row in scores], schema=EVAL_SCORES)


def unit_fingerprints(answers: Sequence[EvalAnswer], items: pa.Table) -> dict[int, str]:
    """Hash of the answers of each unit that has tokens."""
    return {number: _fingerprint(members) for number, members in _units(answers, items).items()}


def rows_path(workspace: Workspace, table: str, keys: _Keys) -> Path:
    """File of a model's rows of one condition in `eval_answers` or `eval_scores`."""
    return workspace.store / table / partition(*keys) / f"{table.removeprefix('eval_')}.parquet"


def store_rows(path: Path, rows: pa.Table) -> None:
    """Write a model's rows of one condition, or delete its file if there are none.

    Raises:
        StorageError: the disk is full or the folder can't be written.
    """
    if rows.num_rows:
        write_table(path, rows)
        return
    with storage_errors(path):
        path.unlink(missing_ok=True)


def store_tokens(
    workspace: Workspace, keys: _Keys, answers: Sequence[EvalAnswer], items: pa.Table
) -> None:
    """Write and publish the tokens of all answers that have tokens, and the records of their units.

    Raises:
        StorageError: the disk is full or the folder can't be written.
    """
    units = _units(answers, items)
    for number, members in units.items():
        rows = [
            {
                **token.model_dump(),
                "doc_id": number,
                "segment": place["segment"],
                "position": answer.tokens_cut + answer.context_tokens + index,
                "context_tokens": answer.context_tokens + index,
                "char_start": 0,
                "char_end": 0,
            }
            for answer, place in members
            for index, token in enumerate(answer.tokens)
        ]
        table = pa.Table.from_pylist(rows, schema=TOKENS)
        write_unit(
            eval_store(workspace), _record(keys, number, members, table), table, rounded=False
        )
    if units:
        publish(eval_store(workspace), *keys)


def _units(
    answers: Sequence[EvalAnswer], items: pa.Table
) -> dict[int, list[tuple[EvalAnswer, Any]]]:
    """Answers with tokens, by unit, each with its place."""
    units: dict[int, list[tuple[EvalAnswer, Any]]] = {}
    for answer, place in _placed(answers, items):
        if answer.tokens:
            units.setdefault(place["doc_id"], []).append((answer, place))
    return units


def _fingerprint(members: Sequence[tuple[EvalAnswer, Any]]) -> str:
    return hashlib.sha256(str([a.model_dump() for a, _ in members]).encode()).hexdigest()[:16]


def _record(
    keys: _Keys, number: int, members: Sequence[tuple[EvalAnswer, Any]], rows: pa.Table
) -> UnitRecord:
    problem, model_id, condition = keys
    answer, place = members[0]
    longest = int(np.max(rows["position"].to_numpy())) + 1
    return UnitRecord(
        problem=problem,
        model_id=model_id,
        condition=condition,
        condition_kind="benchmark",
        probe="import",
        probe_params=json.dumps({"task": answer.task}),
        doc_id=number,
        fingerprint=_fingerprint(members),
        status="done",
        reason="",
        rows=rows.num_rows,
        tokens_processed=0,
        tokens_scored=rows.num_rows,
        seconds=0.0,
        peak_bytes=0,
        device="elsewhere",
        dtype="",
        backend=answer.backend,
        attention="",
        prefixes="",
        engine="",
        document_sha256=place["unit_sha256"],
        document_tokens=longest,
        document_tokens_total=longest,
        torch_version="",
        transformers_version="",
        tokenmart_version=version("tokenmart"),
        code_revision="",
        code_dirty=False,
        seed=0,
        finished_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        content_sha256="",
    )
