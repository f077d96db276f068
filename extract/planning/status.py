"""Extracted units of a problem: which are current, a table, its notes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow.parquet as pq

from extract.backends.backend import ENGINE_VERSION
from extract.failures import Failure, summary
from extract.planning.cost import PlannedWork, document_lengths, planned_memory
from extract.planning.plan import Document, most_tokens
from extract.planning.selection import Selection
from warehouse.probes.request import Condition
from warehouse.problem.models import ModelSpec
from warehouse.problem.required_files import notices, scored_models
from warehouse.problem.spec import RecallTarget
from warehouse.problem.tables import documents_path, whole_characters
from warehouse.store.ledger import UnitRecord, whole_tokens
from warehouse.store.parquet_files import read_table
from warehouse.store.token_files import finished_units, published_path
from warehouse.terminal import Column, counted, listed

UNKNOWN = "unknown"


def current_units(
    selection: Selection, spec: ModelSpec, condition: Condition, documents: Mapping[int, str]
) -> list[UnitRecord]:
    """Failed units, and done ones that are what is asked for, of one model and condition.

    Judged by the ledger alone, without the checkpoint: a model's changed revision or tokenizer
    shows only in a fingerprint, and `plan_model` compares these.

    `documents` has the SHA-256 of each by number; empty where a text is not here yet.

    Raises:
        StorageError: the published file is damaged.
    """
    params = json.dumps(condition.params, sort_keys=True)
    # `auto` leaves the dtype to the device, which may be another machine's
    dtype = selection.dtype if selection.dtype != "auto" else spec.dtype
    most = most_tokens(selection, spec)
    problem = selection.problem

    def is_asked_for(unit: UnitRecord) -> bool:
        whole = fewest = whole_tokens(unit, selection.max_tokens)
        if problem.documents.too_long == "truncate":
            # a context that only the configuration gives, which is not here, can cut anywhere
            fewest = 0 if most is None else min(whole, most)
        return (
            unit.probe_params == params
            and documents[unit.doc_id] in ("", unit.document_sha256)
            and dtype in ("auto", unit.dtype)
            and (unit.engine, unit.backend) == (ENGINE_VERSION, selection.backend)
            and fewest <= unit.document_tokens
            and (unit.document_tokens <= whole or (selection.cut_here and not selection.force))
        )

    ledger = finished_units(selection.workspace, problem.name, spec.model_id, condition.name)
    return [
        unit
        for unit in ledger.values()
        if unit.doc_id in documents and (unit.status == "failed" or is_asked_for(unit))
    ]


def cut_lines(selection: Selection, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Documents that were cut, one line for models with the same cuts: from `status_rows`.

    A last line has what `max_characters` left out beforehand, for every model.
    """
    found: dict[tuple[int, int, int, int], list[str]] = {}
    for name, mine in _by_model(rows).items():
        most = max(mine, key=lambda row: row["cut"])
        if most["cut"]:
            key = (most["cut"], most["done"], most["tokens_read"], most["tokens_whole"])
            found.setdefault(key, []).append(name)
    lines = [
        f"{listed(names)}: {cut} of {counted(done, 'document')} cut, {read:,} of {whole:,} tokens "
        "read"
        for (cut, done, read, whole), names in found.items()
    ]
    if characters := whole_characters(selection.problem, selection.workspace):
        path = documents_path(selection.problem, selection.workspace)
        kept = read_table(path, ["characters"])[0].to_pylist()
        shorter = sum(read < whole for read, whole in zip(kept, characters, strict=True))
        before = ", before tokens are counted" if lines else ""
        lines.append(
            f"every model: documents.max_characters cuts {shorter} of "
            f"{counted(len(kept), 'document')} to {sum(kept):,} of {sum(characters):,} characters"
            f"{before}"
        )
    return lines


def unscored_lines(
    unscored: Mapping[str, Sequence[str]], conditions: Sequence[Condition]
) -> list[str]:
    """Conditions without a token to score, one line each, with what to change.

    Args:
        unscored: condition → models that have no row of it.
        conditions: of the problem.
    """
    sizes = {each.name: each.params for each in conditions}
    lines = []
    for condition, models in unscored.items():
        context = sizes[condition].get("context")
        smaller = f"`context` ({context:,})" if isinstance(context, int) else "lengths"
        lines.append(
            f"{condition} has no token to score, as the text that {listed(models)} read is too "
            f"short for it: give its probe a smaller {smaller}, or read more of the documents "
            "(--max-tokens, documents.max_tokens, documents.max_characters)"
        )
    return lines


def without_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Condition → models that have extracted it without a row: from `status_rows`."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row["done"] and not row["rows"]:
            found.setdefault(row["condition"], []).append(row["model"])
    return found


def _by_model(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["model"], []).append(row)
    return found


def count_finished(selection: Selection, documents: Sequence[Document]) -> int:
    """Units of a selection in the ledger, finished as requested or failed."""
    wanted = {document.doc_id: document.sha256 for document in documents}
    return sum(
        len(current_units(selection, spec, condition, wanted))
        for spec in selection.models
        for condition in selection.conditions
    )


def finished_work(
    selection: Selection, documents: Sequence[Document], work: PlannedWork
) -> tuple[int, float]:
    """Units that the ledger has as done, and their part of the planned work."""
    wanted = {document.doc_id: document.sha256 for document in documents}
    units, finished = 0, 0.0
    for spec in selection.models:
        done = {
            (unit.doc_id, condition.name)
            for condition in selection.conditions
            for unit in current_units(selection, spec, condition, wanted)
            if unit.status == "done"
        }
        units += len(done)
        for document in documents:
            missing = [c for c in selection.conditions if (document.doc_id, c.name) not in done]
            left = work.of(spec, document, missing) if missing else 0.0
            finished += work.of(spec, document, selection.conditions) - left
    return units, finished


def status_rows(selection: Selection) -> list[dict[str, Any]]:
    """One row per (model, condition): documents done, failed and expected, and what they cost.

    Of models on request, only those that were begun. `over_limit` counts documents beyond the
    model's context, `cut` those of which the model read a part: `tokens_read` of `tokens_whole`,
    both of all documents that are done; `reasons` are those of failed units.

    `peak_bytes` is the largest measured so far (None before), `predicted_peak_bytes` the plan's
    (None where the model's size is not known). `attention` and `prefixes` are what was used.
    """
    problem, workspace = selection.problem, selection.workspace
    path = documents_path(problem, workspace)
    lengths, _ = document_lengths(selection)
    expected = pq.read_metadata(path).num_rows if path.is_file() else problem.documents.count
    if expected is None and problem.documents.required_file(problem.folders(workspace)).present:
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
        predicted = planned_memory(selection, spec, longest)
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


def next_steps(selection: Selection) -> list[str]:
    """Commands that follow an extraction."""
    problem = selection.problem
    steps = ["next:"]
    if isinstance(problem.target, RecallTarget) and not scored_models(problem, selection.workspace):
        steps.append(f"  tokenmart recall --problem {problem.asked}   # measures the target")
    return [*steps, "  tokenmart dbt build   # computes the metrics"]


def fallbacks(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Fallbacks that cost speed or precision, one line per model: from `status_rows`."""
    slow = {"attention": ("eager", "sdpa/math"), "prefixes": ("separate",)}
    found = [
        f"{row['model']}: {name} {used}"
        for row in rows
        for name, beginnings in slow.items()
        for used in row[name]
        if used.startswith(beginnings)
    ]
    return list(dict.fromkeys(found))


def per_model(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of `status_rows`, one for each model: sums over its conditions, largest peaks."""
    summed = ("done", "failed", "documents", "rows", "tokens_processed", "seconds", "bytes")
    return [
        {
            "model": model,
            "model_id": mine[0]["model_id"],
            "condition": f"{sum(row['done'] == row['documents'] for row in mine)} of {len(mine)}",
            **{name: _sum(row[name] for row in mine) for name in summed},
            "peak_bytes": max((row["peak_bytes"] or 0 for row in mine), default=0),
            "predicted_peak_bytes": mine[0]["predicted_peak_bytes"],
        }
        for model, mine in _by_model(rows).items()
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


def status_notes(selection: Selection, rows: Sequence[dict[str, Any]]) -> list[str]:
    """Notes below the table: why units failed, which documents were cut, other remarks."""
    remarks = notices(selection.problem, selection.models)
    failures = [Failure(row["model"], reason) for row in rows for reason in row["reasons"]]
    over = {name: max(r["over_limit"] for r in mine) for name, mine in _by_model(rows).items()}
    counts = ", ".join(f"{model} ({count})" for model, count in over.items() if count)
    return [
        *(f"failed: {line}" for line in summary(failures)),
        *(f"{line}." for line in unscored_lines(without_rows(rows), selection.conditions)),
        *(f"Cut: {line}." for line in cut_lines(selection, rows)),
        *([f"Documents over the model's context: {counts}."] if counts else []),
        *(f"{subject}: {remark}" for subject, remark in remarks.items()),
    ]


def _peak(row: dict[str, Any]) -> str:
    if row["peak_bytes"]:
        return f"{row['peak_bytes'] / 2**30:.1f}"
    predicted = row["predicted_peak_bytes"]
    return UNKNOWN if predicted is None else f"~{predicted / 2**30:.1f}"
