"""Plans and states as tables: what an extraction would cost, what is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from rich.table import Table

from extract.plan import Cost, Selection, estimate, max_tokens_of
from extract.probes import conditions
from warehouse.errors import TokenmartError
from warehouse.fetch import documents_path
from warehouse.paths import Workspace
from warehouse.problem import ModelSpec, Problem
from warehouse.store import finished_units, published_path

CHARACTERS_PER_TOKEN = 4.0
UNKNOWN_PARAMETERS = 7_000_000_000
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


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


def peak_memory(spec: ModelSpec, selection: Selection, longest: int) -> int:
    """Rough peak in bytes: weights, KV cache and activations of the longest document.

    Widths follow from the parameters of a typical decoder, as in `plan.estimate`.
    """
    parameters = spec.parameters or UNKNOWN_PARAMETERS
    size = _BYTES[_dtype(spec, selection)]
    layers = (parameters / (12 * 128**2)) ** (1 / 3)
    width = 128 * layers
    cache = 2 * layers * width / 4 * longest * size
    activations = 12 * width * longest * size
    return int(parameters * size + cache + activations)


def available_memory(device: str) -> int:
    """Memory of the device (of all GPUs and the host for a device map), in bytes."""
    import psutil

    host = int(psutil.virtual_memory().total)
    if not device.startswith(("cuda", "auto-map")):
        return host
    import torch

    gpus = [
        int(torch.cuda.get_device_properties(n).total_memory)
        for n in range(torch.cuda.device_count())
    ]
    return sum(gpus) + host if device == "auto-map" else max(gpus, default=0)


def refuse_too_large(spec: ModelSpec, selection: Selection, longest: int) -> None:
    """Stop before anything is downloaded or loaded when a model can't fit.

    Raises:
        TokenmartError: the estimated peak is above the device's memory; with the numbers.
    """
    needed = peak_memory(spec, selection, longest)
    there = available_memory(selection.device)
    if spec.parameters is not None and needed > there:
        raise TokenmartError(
            f"{spec.full_id}: needs about {needed / 2**30:.1f} GiB in {_dtype(spec, selection)} "
            f"({spec.parameters / 1e9:.1f} B parameters, documents of {longest:,} tokens), "
            f"{selection.device} has {there / 2**30:.1f} GiB; use --dtype bfloat16, --device "
            "auto-map, a larger machine, or fewer --max-tokens"
        )


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
    for name in ("model", "units done", "tokens", "rows", "FLOPs", "time", "peak memory", "disk"):
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
        peak = peak_memory(spec, selection, max(lengths, default=0))
        _add_row(table, spec.full_id, f"{done}/{units}", cost, f"{peak / 2**30:.1f} GiB")
    table.add_section()
    _add_row(table, "still to do", "", totals, "")
    note = (
        f"device {selection.device}; {source}. Times are estimates from FLOPs at an assumed speed; "
        "the progress bar knows better once it runs."
    )
    return table, totals.seconds / 3600, note


def _add_row(table: Table, name: str, done: str, cost: Cost, peak: str) -> None:
    hours = cost.seconds / 3600
    time = f"{hours:,.1f} h" if hours >= 1 else f"{cost.seconds / 60:,.1f} min"
    table.add_row(
        name, done, f"{cost.tokens / 1e6:,.1f} M", f"{cost.rows / 1e6:,.1f} M",
        f"{cost.flops:.1e}", time, peak,
        f"{cost.disk_bytes / 1e6:,.0f} MB",
    )  # fmt: skip


def status_rows(problem: Problem, workspace: Workspace) -> list[dict[str, Any]]:
    """One row per (model, probe): documents done, failed and expected, and what they cost."""
    path = documents_path(problem, workspace)
    expected = pq.read_metadata(path).num_rows if path.is_file() else problem.documents.count
    rows = []
    for spec in problem.models:
        for condition in (c for probe in problem.probes for c in conditions(probe)):
            units = finished_units(workspace, problem.name, spec.model_id, condition.name)
            done = [unit for unit in units.values() if unit.status == "done"]
            file: Path = published_path(workspace, problem.name, spec.model_id, condition.name)
            rows.append(
                {
                    "model_id": spec.model_id,
                    "probe": condition.name,
                    "done": len(done),
                    "failed": len(units) - len(done),
                    "documents": expected,
                    "rows": sum(unit.rows for unit in done),
                    "tokens_processed": sum(unit.tokens_processed for unit in done),
                    "seconds": sum(unit.seconds for unit in done),
                    "bytes": file.stat().st_size if file.is_file() else 0,
                }
            )
    return rows
