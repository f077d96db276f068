"""Extracted units of a problem: rows, a table and its notes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow.parquet as pq

from extract.failures import Failure, summary
from extract.planning.cells import UNKNOWN
from extract.planning.cost import document_lengths, planned_memory
from extract.planning.current import current_units
from extract.planning.cuts import cut_lines
from extract.planning.plan import Document, Selection
from warehouse.paths import Workspace
from warehouse.problem.needs import notices, scored_models
from warehouse.problem.spec import Problem, RecallTarget
from warehouse.problem.tables import documents_path
from warehouse.remote import footer
from warehouse.store.token_files import finished_units, published_path
from warehouse.terminal import Column


def count_finished(
    problem: Problem,
    selection: Selection,
    documents: Sequence[Document],
    workspace: Workspace,
) -> int:
    """Units of a selection in the ledger, finished as requested or failed."""
    wanted = {document.doc_id: document.sha256 for document in documents}
    return sum(
        len(current_units(problem, selection, spec, condition, wanted, workspace))
        for spec in selection.models
        for condition in selection.conditions
    )


def status_rows(
    problem: Problem, selection: Selection, workspace: Workspace
) -> list[dict[str, Any]]:
    """One row per (model, condition): documents done, failed and expected, and what they cost.

    Of models on request, only those that were begun. `over_limit` counts documents beyond the
    model's context, `cut` those of which the model read a part: `tokens_read` of `tokens_whole`,
    both of all documents that are done; `reasons` are those of failed units.

    `peak_bytes` is the largest measured so far (None before), `predicted_peak_bytes` the plan's
    (None where the model's size is not known). `attention` and `prefixes` are what was used.
    """
    path = documents_path(problem, workspace)
    lengths, _ = document_lengths(problem, selection, workspace)
    expected = (
        pq.read_metadata(footer(path)).num_rows if path.is_file() else problem.documents.count
    )
    if expected is None and problem.documents.need(problem.place(workspace)).present:
        expected = len(lengths)
    longest = max(lengths, default=0)
    rows = []
    begun = {
        spec
        for spec in problem.models
        if (workspace.tokens / f"problem={problem.name}" / f"model_id={spec.model_id}").is_dir()
    }
    for spec in problem.models:
        if spec not in selection.models and spec not in begun:
            continue
        predicted = planned_memory(problem, spec, selection, longest, workspace)
        for condition in selection.conditions:
            units = finished_units(workspace, problem.name, spec.model_id, condition.name)
            done = [unit for unit in units.values() if unit.status == "done"]
            file = published_path(workspace, problem.name, spec.model_id, condition.name)
            rows.append(
                {
                    "model": spec.full_id,
                    "model_id": spec.model_id,
                    "condition": condition.name,
                    "done": len(done),
                    "failed": len(units) - len(done),
                    "over_limit": sum(unit.over_limit_tokens > 0 for unit in done),
                    "cut": sum(u.document_tokens < u.document_tokens_total for u in done),
                    "tokens_read": sum(unit.document_tokens for unit in done),
                    "tokens_whole": sum(unit.document_tokens_total for unit in done),
                    "reasons": sorted({unit.reason for unit in units.values() if unit.reason}),
                    "on_request": spec.on_request,
                    "documents": expected,
                    "rows": sum(unit.rows for unit in done),
                    "tokens_processed": sum(unit.tokens_processed for unit in done),
                    "seconds": sum(unit.seconds for unit in done),
                    "bytes": file.stat().st_size if file.is_file() else 0,
                    "peak_bytes": max((unit.peak_bytes for unit in done), default=None),
                    "predicted_peak_bytes": predicted.total if predicted else None,
                    "attention": sorted({unit.attention for unit in done}),
                    "prefixes": sorted({unit.prefixes for unit in done}),
                }
            )
    return rows


def next_steps(problem: Problem, workspace: Workspace) -> list[str]:
    """Commands that follow an extraction."""
    measured = isinstance(problem.target, RecallTarget)
    return [
        "next:",
        *(
            [f"  tokenmart recall --problem {problem.asked}   # measures the target"]
            if measured and not scored_models(problem, workspace)
            else []
        ),
        "  tokenmart dbt build   # computes the metrics",
    ]


def fallbacks(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Fallbacks that cost speed or precision, one line per model: from `status_rows`."""
    lines = []
    for model in dict.fromkeys(row["model"] for row in rows):
        mine = [row for row in rows if row["model"] == model]
        found = {
            f"prefixes {words}"
            for row in mine
            for words in row["prefixes"]
            if words.startswith("separate")
        } | {
            f"attention {words}"
            for row in mine
            for words in row["attention"]
            if words.startswith(("eager", "sdpa/math"))
        }
        lines += [f"{model}: {words}" for words in sorted(found)]
    return lines


def per_model(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of `status_rows`, one for each model: sums over its conditions, largest peaks."""
    summed = ("done", "failed", "documents", "rows", "tokens_processed", "seconds", "bytes")
    models: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        models.setdefault(row["model_id"], []).append(row)
    return [
        {
            "model": mine[0]["model"],
            "model_id": model_id,
            "condition": f"{sum(row['done'] == row['documents'] for row in mine)} of {len(mine)}",
            **{name: _sum(row[name] for row in mine) for name in summed},
            "peak_bytes": max((row["peak_bytes"] or 0 for row in mine), default=0),
            "predicted_peak_bytes": mine[0]["predicted_peak_bytes"],
        }
        for model_id, mine in models.items()
    ]


def _sum(values: Iterable[float | None]) -> float | None:
    found = list(values)
    return None if None in found else sum(value for value in found if value is not None)


def status_columns(rows: Sequence[dict[str, Any]], by_condition: bool = False) -> list[Column]:
    """The state as a table for the terminal: a row for each model, or each of its conditions."""
    shown = list(rows) if by_condition else per_model(rows)
    covered = "condition" if by_condition else "conditions whole"
    return [
        Column("model", [row["model"] for row in shown], text=True),
        Column(covered, [row["condition"] for row in shown], text=by_condition),
        Column("units", [str(row["done"]) for row in shown]),
        Column("failed", [str(row["failed"] or "") for row in shown]),
        Column("of", [str(row["documents"] or "?") for row in shown]),
        Column("tokens", [f"{row['tokens_processed']:,}" for row in shown]),
        Column("peak GiB", [_peak(row) for row in shown]),
        Column("rows", [f"{row['rows']:,}" for row in shown], extra=True),
        Column("seconds", [f"{row['seconds']:,.0f}" for row in shown], extra=True),
        Column("MB", [f"{row['bytes'] / 1e6:.1f}" for row in shown], extra=True),
    ]


def status_notes(
    problem: Problem, selection: Selection, rows: Sequence[dict[str, Any]]
) -> list[str]:
    """Notes below the table: why units failed, which documents were cut, other remarks."""
    failures = [Failure(row["model"], reason) for row in rows for reason in row["reasons"]]
    over: dict[str, int] = {}
    for row in rows:
        over[row["model"]] = max(row["over_limit"], over.get(row["model"], 0))
    counts = ", ".join(f"{model} ({count})" for model, count in over.items() if count)
    return [
        *(f"failed: {line}" for line in summary(failures)),
        *(f"Cut: {line}." for line in cut_lines(rows)),
        *([f"Documents over the model's context: {counts}."] if counts else []),
        *(f"{subject}: {told}" for subject, told in notices(problem, selection.models).items()),
    ]


def _peak(row: dict[str, Any]) -> str:
    if row["peak_bytes"]:
        return f"{row['peak_bytes'] / 2**30:.1f}"
    predicted = row["predicted_peak_bytes"]
    return UNKNOWN if predicted is None else f"~{predicted / 2**30:.1f}"
