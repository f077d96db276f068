"""What has been extracted of a problem: a row for each model and condition, a table, its notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow.parquet as pq

from extract.failures import Failure, summary
from extract.planning.cost import planned_memory
from extract.planning.documents import PlannedDocument, texts_of
from extract.planning.plan import is_missing
from extract.planning.selection import Selection, document_lengths, planned_units
from extract.planning.tables import UNKNOWN, by_note
from warehouse.problem.needed import (
    all_conditions,
    identities_here,
    needed_table,
    refresh_needed,
)
from warehouse.problem.required_files import notices, scored_models
from warehouse.problem.spec import RecallTarget
from warehouse.problem.tables import documents_path
from warehouse.problem.unit_states import Unit, stored_texts, unit_states
from warehouse.sql.audits import audit_line
from warehouse.store.parquet_files import read_table
from warehouse.store.token_files import published_path
from warehouse.terminal import Column, counted, listed

Rows = Sequence[Mapping[str, Any]]
"""From `status_rows`."""


def status_rows(selection: Selection) -> list[dict[str, Any]]:
    """One row per (model, condition): documents done, failed and expected, and what they cost.

    Units of another text, or of a probe with other parameters, are `outdated` and in no other
    number. Of models on request, only those that were begun are listed. `over_limit` counts
    documents beyond the model's context, `cut` those of which the model read a part: `tokens_read`
    of `tokens_whole`, both of all documents that are done; `reasons` are those of failed units,
    `without_rows` the tokens of documents of which the condition scored nothing.

    `peak_bytes` is the largest measured so far (None before), `predicted_peak_bytes` the plan's
    (None where the model's size is not known). `attention` and `prefixes` are what was used.
    """
    problem, workspace = selection.problem, selection.workspace
    refresh_needed(problem, workspace)
    path = documents_path(problem, workspace)
    lengths, _, _ = document_lengths(selection)
    expected = pq.read_metadata(path).num_rows if path.is_file() else problem.documents.count
    if expected is None and problem.documents.required_file(problem.folders(workspace)).present:
        expected = len(lengths)
    tokens = workspace.tokens / f"problem={problem.name}"
    models = [
        spec
        for spec in problem.models
        if spec in selection.models or (tokens / f"model_id={spec.model_id}").is_dir()
    ]
    units: dict[tuple[str, str], list[Unit]] = {}
    conditions = all_conditions(problem)
    identities = identities_here(problem, workspace, models, conditions)
    needed = needed_table(problem, models, conditions, identities)
    for unit in unit_states(workspace, needed, stored_texts(problem, workspace)):
        units.setdefault((unit.model_id, unit.condition), []).append(unit)
    rows = []
    for spec in models:
        predicted = planned_memory(selection, spec, max(lengths, default=0))
        for condition in selection.conditions:
            of_condition = units.get((spec.model_id, condition.name), [])
            done = [unit.record for unit in of_condition if unit.state == "done" and unit.record]
            file = published_path(workspace, problem.name, spec.model_id, condition.name)
            rows.append(
                {
                    "model": spec.full_id,
                    "model_id": spec.model_id,
                    "condition": condition.name,
                    "done": len(done),
                    "failed": sum(unit.state == "failed" for unit in of_condition),
                    "outdated": sum(unit.state == "outdated" for unit in of_condition),
                    "over_limit": sum(unit.over_limit_tokens > 0 for unit in done),
                    "cut": sum(u.document_tokens < u.document_tokens_total for u in done),
                    "tokens_read": sum(unit.document_tokens for unit in done),
                    "tokens_whole": sum(unit.document_tokens_total for unit in done),
                    "reasons": sorted(
                        {unit.why for unit in of_condition if unit.state == "failed"}
                    ),
                    "on_request": spec.on_request,
                    "without_rows": {u.doc_id: u.document_tokens for u in done if not u.rows},
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


def count_finished(
    selection: Selection, documents: Sequence[PlannedDocument], since: str | None = None
) -> int:
    """Selected units in the ledger that are not tried again: done, or failed after `since`.

    Without it, as in `plan_model`, every unit that failed is still to do.
    """
    texts = texts_of(documents)
    return sum(
        not is_missing(unit, since)
        for spec in selection.models
        for unit in planned_units(selection, spec, texts)
    )


def next_steps(selection: Selection) -> list[str]:
    """Commands that follow an extraction."""
    problem = selection.problem
    steps = ["next:"]
    if isinstance(problem.target, RecallTarget) and not scored_models(problem, selection.workspace):
        steps.append(f"  tokenmart recall --problem {problem.argument}   # measures the target")
    return [*steps, "  tokenmart dbt build   # computes the metrics"]


def fallbacks(rows: Rows) -> list[str]:
    """Fallbacks that cost speed or precision."""
    slow = {"attention": ("eager", "sdpa/math"), "prefixes": ("separate",)}
    return by_note(
        (row["model"], f"{name} {used}")
        for row in rows
        for name, beginnings in slow.items()
        for used in row[name]
        if used.startswith(beginnings)
    )


def cut_lines(rows: Rows) -> list[str]:
    """Documents of which models read a part."""
    most: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        if row["cut"] > most.get(row["model"], {"cut": 0})["cut"]:
            most[row["model"]] = row
    return by_note(
        (
            name,
            f"{row['cut']} of {counted(row['done'], 'document')} cut, {row['tokens_read']:,} of "
            f"{row['tokens_whole']:,} tokens read",
        )
        for name, row in most.items()
    )


def over_lines(rows: Rows) -> list[str]:
    """Documents that a model read beyond its context; conditions may have different ones done."""
    # of a model the last stays: the condition with most
    counts = sorted((row["over_limit"], row["model"]) for row in rows if row["over_limit"])
    most = {model: counted(count, "document") for count, model in counts}
    return [f"{model}: {count} over the model's context." for model, count in most.items()]


def unscored_lines(selection: Selection, rows: Rows) -> list[str]:
    """Documents of which a condition scored nothing, in any model."""
    unscored: dict[str, set[int]] = {}
    for row in rows:
        unscored.setdefault(row["condition"], set()).update(row["without_rows"])
    names: list[str] = []
    if any(unscored.values()):
        path = documents_path(selection.problem, selection.workspace)
        names = read_table(path, ["name"])["name"].to_pylist()
    return [
        f"{listed([names[n] for n in sorted(numbers)], 10)}: too short for {condition}"
        for condition, numbers in unscored.items()
        if numbers
    ]


def status_columns(rows: Rows) -> list[Column]:
    """The state as a table for the terminal: a row for each model, sums over its conditions."""
    models = list(dict.fromkeys(row["model"] for row in rows))

    def summed(name: str) -> list[int]:
        return [sum(row[name] or 0 for row in rows if row["model"] == m) for m in models]

    def largest(name: str) -> list[int]:
        return [max(row[name] or 0 for row in rows if row["model"] == m) for m in models]

    peaks = [
        f"{peak / 2**30:.1f}" if peak else f"~{planned / 2**30:.1f}" if planned else UNKNOWN
        for peak, planned in zip(
            largest("peak_bytes"), largest("predicted_peak_bytes"), strict=True
        )
    ]
    return [
        Column("model", models, text=True),
        Column("units", [str(n) for n in summed("done")]),
        Column("failed", [str(n or "") for n in summed("failed")]),
        Column("outdated", [str(n or "") for n in summed("outdated")]),
        Column("of", [str(n or "?") for n in summed("documents")]),
        Column("tokens", [f"{n:,}" for n in summed("tokens_processed")]),
        Column("peak GiB", peaks),
        Column("rows", [f"{n:,}" for n in summed("rows")], extra=True),
        Column("seconds", [f"{n:,.0f}" for n in summed("seconds")], extra=True),
        Column("MB", [f"{n / 1e6:.1f}" for n in summed("bytes")], extra=True),
    ]


def status_notes(selection: Selection, rows: Rows) -> list[str]:
    """Notes below the table: why units failed, which documents were cut, other remarks."""
    failures = [Failure(row["model"], reason) for row in rows for reason in row["reasons"]]
    return [
        *(f"failed: {line}" for line in summary(failures)),
        *(f"{line}." for line in unscored_lines(selection, rows)),
        *(f"Cut: {line}." for line in cut_lines(rows)),
        *over_lines(rows),
        *filter(None, [audit_line(selection.workspace, selection.problem.name)]),
        *(f"{name}: {note}" for name, note in notices(selection.problem, selection.models).items()),
    ]
