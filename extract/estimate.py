"""Plans and states as tables: what an extraction would cost, what is done."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from rich.table import Table

from extract.memory import (
    BRANCH_TOKENS,
    UNKNOWN_PARAMETERS,
    Footprint,
    available_memory,
    footprint,
    shape_of,
)
from extract.plan import Cost, Document, Selection, estimate, max_tokens_of
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.problem.spec import ModelSpec, Problem
from warehouse.sources.fetch import documents_path
from warehouse.store.token_files import finished_units, published_path

CHARACTERS_PER_TOKEN = 4.0
MEMORY = "peak memory, GiB"


def document_lengths(
    problem: Problem, selection: Selection, workspace: Workspace
) -> tuple[list[int], str]:
    """Tokens per document (estimated from characters), and where the estimate comes from."""
    limit = max_tokens_of(problem, selection)
    path = documents_path(problem, workspace)
    if path.is_file():
        characters = pq.read_table(path, columns=["characters"], partitioning=None)
        sizes = characters["characters"].slice(0, selection.documents).to_pylist()
        lengths = [int(size / CHARACTERS_PER_TOKEN) for size in sizes]
        source = f"{len(lengths)} documents at {CHARACTERS_PER_TOKEN:g} characters a token"
    else:
        expected = problem.documents.count or 1
        longest = problem.documents.expected_tokens
        lengths = [longest] * min(expected, selection.documents or expected)
        source = (
            f"{len(lengths)} documents of up to {longest:,} tokens; they are not here yet: "
            f"tokenmart data fetch --problem {problem.name}"
        )
    return [min(n, limit) if limit else n for n in lengths], source


def _dtype(spec: ModelSpec, selection: Selection) -> str:
    asked = selection.dtype if selection.dtype != "auto" else spec.dtype
    if asked != "auto":
        return asked
    return "float32" if selection.device == "cpu" else "bfloat16"


def planned_memory(
    spec: ModelSpec, selection: Selection, longest: int, workspace: Workspace
) -> tuple[Footprint, bool]:
    """Predicted peak of one model of a selection, and whether the model's size is known."""
    shape, known = shape_of(spec, workspace)
    shares = any(c.kind == "retrieval_with_document" for c in selection.conditions)
    predicted = footprint(
        spec,
        shape,
        dtype=_dtype(spec, selection),
        device=selection.device,
        longest=longest,
        branch_tokens=BRANCH_TOKENS if shares else 0,
    )
    return predicted, known


def plan_table(
    problem: Problem, selection: Selection, workspace: Workspace
) -> tuple[Table, float, str]:
    """What is planned and its cost, the hours it would take, and the assumptions."""
    lengths, source = document_lengths(problem, selection, workspace)
    units = len(lengths) * len(selection.conditions)
    title = (
        f"{problem.name}: {len(selection.models)} models × {len(selection.conditions)} "
        f"conditions × {len(lengths)} documents"
    )
    table = Table(title=title)
    for name in ("model", "units done", "tokens", "rows", "time", MEMORY, "disk"):
        table.add_column(name, justify="left" if name == "model" else "right", no_wrap=True)
    totals = Cost(0, 0, 0.0, 0.0, 0)
    for spec in selection.models:
        cost = estimate(
            lengths,
            selection.conditions,
            parameters=spec.parameters or UNKNOWN_PARAMETERS,
            dtype=_dtype(spec, selection),
            device=selection.device,
        )
        finished = [
            finished_units(workspace, problem.name, spec.model_id, condition.name)
            for condition in selection.conditions
        ]
        done = sum(
            unit.status == "done" and unit.doc_id < len(lengths)
            for ledger in finished
            for unit in ledger.values()
        )
        left = 1 - done / units if units else 0.0
        totals = Cost(
            totals.tokens + int(cost.tokens * left),
            totals.rows + int(cost.rows * left),
            totals.flops + cost.flops * left,
            totals.seconds + cost.seconds * left,
            totals.disk_bytes + int(cost.disk_bytes * left),
        )
        peak, known = planned_memory(spec, selection, max(lengths, default=0), workspace)
        _add_row(table, spec.full_id, f"{done}/{units}", cost, _gibibytes(peak, known))
    table.add_section()
    _add_row(table, "still to do", "", totals, "")
    note = (
        f"device {selection.device}; {source}. Memory: weights + KV cache + activations and "
        f"logits of the longest document. Times are estimates ({totals.flops:.1e} FLOPs to do) "
        "at an assumed speed; the progress bar knows better once it runs."
    )
    permissions = _permissions(selection)
    if permissions:
        note = f"{note}\n{permissions}"
    return table, totals.seconds / 3600, note


def _gibibytes(peak: Footprint, known: bool) -> str:
    parts = (peak.weights, peak.cache, peak.activations + peak.logits)
    split = " + ".join(f"{part / 2**30:.1f}" for part in parts)
    return f"{'' if known else '~'}{peak.total / 2**30:.1f} = {split}"


def _permissions(selection: Selection) -> str:
    """What the user must do first for gated repositories and for those with code of their own."""
    hub = [(spec.full_id, spec.source) for spec in selection.models if spec.source.kind == "hub"]
    lines = []
    gated = [name for name, source in hub if getattr(source, "gated", False)]
    if gated:
        lines.append(
            f"Gated: {', '.join(gated)}. Accept the licence on the model's page, then log in "
            "with `hf auth login` (or set HF_TOKEN)."
        )
    trusted = [name for name, source in hub if getattr(source, "trust_remote_code", False)]
    if trusted:
        lines.append(
            f"Runs code from its repository: {', '.join(trusted)}. Read that code at the pinned "
            "revision first."
        )
    return "\n".join(lines)


def _add_row(table: Table, name: str, done: str, cost: Cost, peak: str) -> None:
    hours = cost.seconds / 3600
    time = f"{hours:,.1f} h" if hours >= 1 else f"{cost.seconds / 60:,.1f} min"
    table.add_row(
        name, done, f"{cost.tokens / 1e6:,.1f} M", f"{cost.rows / 1e6:,.1f} M",
        time, peak,
        f"{cost.disk_bytes / 1e6:,.0f} MB",
    )  # fmt: skip


def refuse_too_many(
    workers: int, problem: Problem, selection: Selection, workspace: Workspace
) -> None:
    """Stop before workers start that don't fit into the host's memory side by side.

    Raises:
        TokenmartError: several copies of the largest model are more than the host has.
    """
    if selection.device != "cpu":
        return
    longest = max(document_lengths(problem, selection, workspace)[0], default=0)
    peaks = {
        spec.full_id: planned_memory(spec, selection, longest, workspace)[0].total
        for spec in selection.models
    }
    name = max(peaks, key=lambda each: peaks[each])
    there = available_memory("cpu")
    if workers * peaks[name] > there:
        raise TokenmartError(
            f"--workers {workers}: each needs up to {peaks[name] / 2**30:.1f} GiB ({name}), and "
            f"this machine has {there / 2**30:.1f} GiB; use --workers "
            f"{max(1, there // peaks[name])} or fewer --max-tokens"
        )


def count_finished(
    problem: Problem,
    selection: Selection,
    documents: Sequence[Document],
    workspace: Workspace,
) -> int:
    """Units of a selection that the ledger holds, finished or failed."""
    wanted = {document.doc_id for document in documents}
    return sum(
        len(wanted & finished_units(workspace, problem.name, spec.model_id, condition.name).keys())
        for spec in selection.models
        for condition in selection.conditions
    )


def status_rows(
    problem: Problem, selection: Selection, workspace: Workspace
) -> list[dict[str, Any]]:
    """One row per (model, condition): documents done, failed and expected, and what they cost.

    `peak_bytes` is the largest measured so far (None before), `predicted_peak_bytes` the plan's.
    """
    path = documents_path(problem, workspace)
    expected = pq.read_metadata(path).num_rows if path.is_file() else problem.documents.count
    longest = max(document_lengths(problem, selection, workspace)[0], default=0)
    rows = []
    for spec in selection.models:
        predicted, _ = planned_memory(spec, selection, longest, workspace)
        for condition in selection.conditions:
            units = finished_units(workspace, problem.name, spec.model_id, condition.name)
            done = [unit for unit in units.values() if unit.status == "done"]
            file: Path = published_path(workspace, problem.name, spec.model_id, condition.name)
            rows.append(
                {
                    "model_id": spec.model_id,
                    "condition": condition.name,
                    "done": len(done),
                    "failed": len(units) - len(done),
                    "documents": expected,
                    "rows": sum(unit.rows for unit in done),
                    "tokens_processed": sum(unit.tokens_processed for unit in done),
                    "seconds": sum(unit.seconds for unit in done),
                    "bytes": file.stat().st_size if file.is_file() else 0,
                    "peak_bytes": max((unit.peak_bytes for unit in done), default=None),
                    "predicted_peak_bytes": predicted.total,
                }
            )
    return rows
