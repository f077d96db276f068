"""Benchmark answers made elsewhere: requests and log-likelihoods into the tables of `eval`.

A format is one file: a subclass of `EvalImporter` in `importers/` of a plugin folder.
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import Field, ValidationError, model_validator

from warehouse.errors import TokenmartError
from warehouse.frozen import Frozen
from warehouse.importers.interface import Row, StoringImporter
from warehouse.paths import Workspace
from warehouse.store.eval_items import (
    UNIT_ITEMS,
    condition_of,
    lengths_of,
    refuse_clashes,
    store_items,
    stored_items,
)
from warehouse.store.ledger import UnitRecord
from warehouse.store.parquet_files import write_table
from warehouse.store.schema import EVAL_ANSWERS, EVAL_ITEMS, TOKENS
from warehouse.store.token_files import partition, publish, write_unit

UNKNOWN_SHOTS = -1


class EvalImporter(StoringImporter):
    """A format of benchmark answers; `kind` is its name."""

    @abstractmethod
    def read(self, path: Path) -> Iterator[Row]:
        """The requests of a file, with the fields of `EvalAnswer`, not yet checked.

        Raises:
            TokenmartError: it can't be read, or is not in this format.
        """

    def import_files(
        self,
        files: Sequence[Path],
        workspace: Workspace,
        problem: str,
        model_id: str,
        *,
        force: bool = False,
    ) -> dict[str, int]:
        """Store one model's answers: see `import_answers`."""
        return import_answers(self, files, workspace, problem, model_id, force=force)


class TokenLogprob(Frozen):
    """One scored token; what another program didn't say is NaN. Nats."""

    token_id: int = Field(ge=0)
    logprob: float = Field(le=0, allow_inf_nan=False)
    rank: int = Field(ge=1)
    top_logprob: float = float("nan")
    entropy: float = float("nan")


class EvalAnswer(Frozen):
    """A request of a benchmark and what a model answered.

    Attributes:
        task: its name.
        item: document of the task, from 0.
        choice: which choice, from 0.
        context: the prompt.
        continuation: what is scored behind it; empty for a generation.
        reference: the choice without its delimiter; the continuation without leading spaces if
            it isn't given.
        is_gold: whether the choice is right, None if unknown.
        gold: right answers of a generation.
        request_type: as lm-evaluation-harness has it.
        unconditional: the choice without its prompt.
        subject: what the item is about.
        shots: worked examples in the prompt, -1 if unknown.
        chat: what sets the prompts apart that are put as a conversation; empty for plain ones.
        words, bytes: of the reference, where the task counts them in its own way.
        loglikelihood: of the continuation, nats, -inf for an impossible one; not beside `tokens`.
        is_greedy: whether each token was the first choice.
        tokens: of the continuation, in order.
        context_tokens: tokens before the first of them.
        answers: generated text by filter.
        backend: what ran the model.
    """

    task: str = Field(min_length=1)
    item: int = Field(ge=0, le=2**31 - 1)
    choice: int = Field(default=0, ge=0)
    context: str = ""
    continuation: str = ""
    reference: str | None = None
    is_gold: bool | None = None
    gold: tuple[str, ...] | None = None
    request_type: str = Field(
        default="multiple_choice",
        pattern="^(multiple_choice|loglikelihood|loglikelihood_rolling|generate_until)$",
    )
    unconditional: bool = False
    subject: str | None = None
    shots: int = Field(default=UNKNOWN_SHOTS, ge=UNKNOWN_SHOTS)
    chat: str = Field(default="", pattern="^[A-Za-z0-9]*$")
    words: int | None = Field(default=None, ge=0, le=2**31 - 1)
    bytes: int | None = Field(default=None, ge=0, le=2**31 - 1)
    loglikelihood: float | None = Field(default=None, le=0, allow_inf_nan=True)
    is_greedy: bool | None = None
    tokens: tuple[TokenLogprob, ...] = ()
    context_tokens: int = Field(default=0, ge=0)
    answers: dict[str, str | None] = Field(default_factory=dict)
    backend: str = Field(min_length=1)

    @model_validator(mode="after")
    def _says_one_thing(self) -> EvalAnswer:
        given = [self.loglikelihood is not None, bool(self.tokens), bool(self.answers)]
        if sum(given) != 1:
            raise ValueError("one of loglikelihood, tokens and answers must be given")
        return self

    @property
    def run(self) -> str:
        """What sets its requests apart from others of the task, as a folder may have it."""
        known = [f"{self.shots}shot"] if self.shots != UNKNOWN_SHOTS else []
        return "-".join([*known, *([f"chat{self.chat}"] if self.chat else [])])


def import_answers(
    reader: EvalImporter,
    files: Sequence[Path],
    workspace: Workspace,
    problem: str,
    model_id: str,
    *,
    force: bool = False,
) -> dict[str, int]:
    """Write one model's answers; every row is checked before anything is written.

    Each task gets a condition of its own by its worked examples and chat, so that it stands beside
    what was run here and is never mixed with it.

    Args:
        reader: reads their format.
        files: together, all of them.
        workspace: the checkout.
        problem: name of the problem.
        model_id: partition key of the model.
        force: replace requests that other models' imports brought, if these differ.

    Returns:
        Items by task.

    Raises:
        TokenmartError: a file or a row is wrong, two tasks would share a folder, or a task's
            requests are not those of before.
        StorageError: the disk is full or the folder can't be written.
    """
    by_run: dict[tuple[str, str], dict[tuple[int, int, bool], EvalAnswer]] = {}
    for file in files:
        if not file.is_file():
            raise TokenmartError(f"{file}: no such file; correct the path")
        for row in reader.read(file):
            answer = _checked(row)
            key = answer.item, answer.choice, answer.unconditional
            given = by_run.setdefault((answer.task, answer.run), {})
            if given.setdefault(key, answer) is not answer:
                raise TokenmartError(
                    f"{row.place}: task {answer.task!r}, item {answer.item}, choice "
                    f"{answer.choice} was given before; keep one (nothing was imported)"
                )
    if not by_run:
        names = ", ".join(str(file) for file in files)
        raise TokenmartError(f"{names}: holds no answer; nothing was imported")
    conditions = {
        (task, run): condition_of(task, f"{run}-{reader.kind}" if run else reader.kind)
        for task, run in by_run
    }
    refuse_clashes(workspace, problem, [(t, condition) for (t, _), condition in conditions.items()])
    prepared = []
    for (task, run), found in by_run.items():
        answers = [found[key] for key in sorted(found)]
        condition = conditions[task, run]
        items = _item_rows(answers)
        before = stored_items(workspace, problem, condition)
        if before is not None and not before.equals(items) and not force:
            raise TokenmartError(_other_requests(task, run, before, items))
        prepared.append((condition, answers, items))
    for condition, answers, items in prepared:
        store_items(workspace, problem, condition, items)
        _store_answers(workspace, (problem, model_id, condition), answers, items)
        _store_tokens(workspace, (problem, model_id, condition), answers, items)
    counts: dict[str, int] = {}
    for (task, _), found in by_run.items():
        counts[task] = counts.get(task, 0) + len({item for item, _, _ in found})
    return counts


def _other_requests(task: str, run: str, before: pa.Table, items: pa.Table) -> str:
    """Why a task's requests can't stand beside those of earlier imports, and what to do."""
    columns = ["item", "choice", "unconditional", "context", "continuation"]
    old, new = (set(map(tuple, _values(rows, columns))) for rows in (before, items))
    number = min(old ^ new)[0] if old != new else 0
    told = (
        "keep them in a problem of their own"
        if run
        else "if they differ in worked examples or chat, put the results_<date>.json of the same "
        "run beside the samples, which sets them apart"
    )
    return (
        f"task {task!r}: its requests are not those imported before (item {number}); {told}; "
        "--force replaces them, and other models' answers then wait until they are imported again"
    )


def _values(rows: pa.Table, columns: list[str]) -> Iterator[list[Any]]:
    return (list(row.values()) for row in rows.select(columns).to_pylist())


def _checked(row: Row) -> EvalAnswer:
    try:
        return EvalAnswer.model_validate({k: v for k, v in row.fields.items() if v is not None})
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the row"
        said = first["msg"].removeprefix("Value error, ")
        raise TokenmartError(
            f"{row.place}: {field}: {said}; correct the row (nothing was imported)"
        ) from error


def _item_rows(answers: Sequence[EvalAnswer]) -> pa.Table:
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
                    "options": "{}",
                    "unit_sha256": sha256,
                    "source": "imported",
                }
            )
    return pa.Table.from_pylist(rows, schema=EVAL_ITEMS)


_Keys = tuple[str, str, str]


def _placed(answers: Sequence[EvalAnswer], items: pa.Table) -> Iterator[tuple[EvalAnswer, Any]]:
    columns = items.select(["doc_id", "segment", "unit_sha256"]).to_pylist()
    return zip(answers, columns, strict=True)


def _store_answers(
    workspace: Workspace, keys: _Keys, answers: Sequence[EvalAnswer], items: pa.Table
) -> None:
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
    path = workspace.eval_answers / partition(*keys) / "answers.parquet"
    if rows:
        write_table(path, pa.Table.from_pylist(rows, schema=EVAL_ANSWERS))


def _store_tokens(
    workspace: Workspace, keys: _Keys, answers: Sequence[EvalAnswer], items: pa.Table
) -> None:
    units: dict[int, list[tuple[EvalAnswer, Any]]] = {}
    for answer, place in _placed(answers, items):
        if answer.tokens:
            units.setdefault(place["doc_id"], []).append((answer, place))
    for number, members in units.items():
        rows = [
            {
                **token.model_dump(),
                "doc_id": number,
                "segment": place["segment"],
                "position": answer.context_tokens + index,
                "context_tokens": answer.context_tokens + index,
                "char_start": 0,
                "char_end": 0,
            }
            for answer, place in members
            for index, token in enumerate(answer.tokens)
        ]
        table = pa.Table.from_pylist(rows, schema=TOKENS)
        write_unit(workspace.evals, _record(keys, number, members, table), table, rounded=False)
    if units:
        publish(workspace.evals, *keys)


def _record(
    keys: _Keys, number: int, members: Sequence[tuple[EvalAnswer, Any]], rows: pa.Table
) -> UnitRecord:
    problem, model_id, condition = keys
    answer, place = members[0]
    longest = int(np.max(rows["position"].to_numpy())) + 1
    digest = hashlib.sha256(str([a.model_dump() for a, _ in members]).encode()).hexdigest()
    return UnitRecord(
        problem=problem,
        model_id=model_id,
        condition=condition,
        condition_kind="benchmark",
        probe="import",
        probe_params=json.dumps({"task": answer.task}),
        doc_id=number,
        fingerprint=digest[:16],
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
