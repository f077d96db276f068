"""Refuse imports that would replace a stored result or compare two versions of a task."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from plugins.benchmarks.harness.answer_tables import (
    answer_rows,
    rows_path,
    score_rows,
    store_rows,
    store_tokens,
    unit_fingerprints,
)
from plugins.benchmarks.harness.eval_answer import EvalAnswer
from plugins.benchmarks.harness.stored_items import eval_store, store_items, stored_items
from warehouse.errors import TokenmartError
from warehouse.importers.importer import IMPORT_KEY, import_record
from warehouse.paths import Workspace
from warehouse.store.parquet_files import read_table
from warehouse.store.token_files import finished_units


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


@dataclass(frozen=True)
class TaskImport:
    """The answers of one model to one task, checked and not yet stored.

    Attributes:
        files: where they are from, for messages.
        keys: problem, model id and condition.
        answers: all requests of the task, in order.
        items: these requests in the schema of `eval_items`.
        scores: the task's own metrics.
        run: few-shot examples and chat; empty if unknown.
        version: of the task, as the program states it; None if unknown.
    """

    files: Sequence[Path]
    keys: tuple[str, str, str]
    answers: Sequence[EvalAnswer]
    items: pa.Table
    scores: Sequence[dict[str, Any]]
    run: str
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
        place = f"{', '.join(map(str, self.files))}: task {self.answers[0].task!r}"

        def refused(what: str, code: str) -> TokenmartError:
            return TokenmartError(
                f"{place}, condition {condition}: {what} (nothing was imported)",
                code=code,
                where=condition,
            )

        for other in others:
            path = rows_path(workspace, "eval_answers", (problem, other, condition))
            theirs = (import_record(path) or {}).get("version")
            if theirs and self.version and theirs != self.version:
                raise refused(
                    f"version {self.version}, the results of {other} have version {theirs}; keep "
                    "them in problems of their own",
                    "other-version",
                )
        before = stored_items(workspace, problem, condition)
        if before is not None and not before.equals(self.items) and (others or not force):
            hint = "" if self.run else (
                "; if they differ in few-shot examples or chat, put the results_<date>.json of the "
                "same run next to the samples"
            )  # fmt: skip
            remedy = (
                f"of {', '.join(others)}; keep them in problems of their own"
                if others
                else "imported before; --force replaces them"
            )
            item = _other_item(before, self.items)
            raise refused(
                f"other requests (item {item}) than those {remedy}{hint}", "other-requests"
            )
        if not force and self._replaces_another(workspace):
            raise refused(f"{model} has another result; --force replaces it", "other-result")

    def store(self, workspace: Workspace) -> None:
        """Write requests, answers, metrics and tokens.

        Raises:
            StorageError: the disk is full or the folder can't be written.
        """
        problem, _, condition = self.keys
        store_items(workspace, problem, condition, self.items)
        record = {"files": [file.name for file in self.files], "version": self.version}
        answers, scores = self._rows()
        answers = answers.replace_schema_metadata({IMPORT_KEY: json.dumps(record)})
        store_rows(rows_path(workspace, "eval_answers", self.keys), answers)
        store_rows(rows_path(workspace, "eval_scores", self.keys), scores)
        store_tokens(workspace, self.keys, self.answers, self.items)

    def _rows(self) -> tuple[pa.Table, pa.Table]:
        return (
            answer_rows(self.answers, self.items),
            score_rows(self.answers, self.items, self.scores),
        )

    def _replaces_another(self, workspace: Workspace) -> bool:
        """Whether the model has a stored result that differs from this one."""
        answers, scores = (
            rows_path(workspace, table, self.keys) for table in ("eval_answers", "eval_scores")
        )
        units = finished_units(eval_store(workspace), *self.keys)
        if not units and not any(path.is_file() for path in (answers, scores)):
            return False
        version = (import_record(answers) or {}).get("version")
        if version and self.version and version != self.version:
            return True
        # as text: NaN equals NaN
        new = [str(table.to_pylist()) for table in self._rows()]
        return [_stored(answers), _stored(scores)] != new or {
            number: unit.fingerprint for number, unit in units.items()
        } != unit_fingerprints(self.answers, self.items)


def _stored(path: Path) -> str:
    """Rows of a file as text; those of no file for a missing one."""
    return str(read_table(path).to_pylist() if path.is_file() else [])


def _other_item(before: pa.Table, items: pa.Table) -> int:
    """First item whose requests differ."""
    columns = ["item", "choice", "unconditional", "context", "continuation"]
    old, new = (
        {tuple(row.values()) for row in rows.select(columns).to_pylist()}
        for rows in (before, items)
    )
    return int(min(old ^ new)[0]) if old != new else 0
