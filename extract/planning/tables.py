"""Plans and states as tables: what an extraction would cost, what is done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from extract.failures import Failure, summary
from extract.planning.cells import UNKNOWN, amounts, gibibytes, gigabytes, rounded
from extract.planning.cost import (
    GPU_FLOPS,
    assumed_speed,
    document_lengths,
    estimate,
    on_a_gpu,
    planned_memory,
    work_of,
)
from extract.planning.current import current_units
from extract.planning.devices import resolve_dtype
from extract.planning.memory import Footprint, refused
from extract.planning.model_size import UNKNOWN_SIZE, model_size
from extract.planning.plan import Document, Selection
from warehouse.errors import visible
from warehouse.paths import Workspace
from warehouse.problem.needs import downloads_text, notices, problem_needs
from warehouse.problem.spec import ModelSpec, Problem
from warehouse.remote import footer, source
from warehouse.sources.fetch import documents_path
from warehouse.store.token_files import finished_units, published_path
from warehouse.terminal import counted

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class PlannedModel:
    """One model of a plan: units done and asked for, and what the whole of it costs.

    `seconds` and `memory` are None where the model's size is not known. `assumed` says that only
    its number of weights is. `download_bytes` are still to be fetched: 0 where nothing is, or with
    another model; None where nothing says how many.
    """

    spec: ModelSpec
    done: int
    units: int
    tokens: int
    rows: int
    flops: float
    disk_bytes: int
    download_bytes: int | None
    seconds: float | None
    memory: Footprint | None
    assumed: bool

    @property
    def left(self) -> float:
        """The share that is still to do."""
        return 1 - self.done / self.units if self.units else 0.0


@dataclass(frozen=True)
class Plan:
    """What is planned, model by model, and the words around it."""

    title: str
    models: tuple[PlannedModel, ...]
    notes: tuple[str, ...]
    workers: int = 1
    """GPUs that work side by side; processors' cores are counted as one already."""

    @property
    def unknown(self) -> list[str]:
        """Models of unknown size of which something is still to do."""
        return [m.spec.full_id for m in self.models if m.seconds is None and m.left > 0]

    @property
    def hours(self) -> float:
        """What is still to do, of the models whose size is known."""
        seconds = sum(model.left * (model.seconds or 0.0) for model in self.models)
        return seconds / 3600 / self.workers


def make_plan(
    problem: Problem, selection: Selection, workspace: Workspace, device_here: bool = True
) -> Plan:
    """What is planned and its cost, from the problem file, the ledger and files that are here.

    Args:
        problem: the problem.
        selection: which part of it, and how.
        workspace: where ledger and files are.
        device_here: whether the selection's device is one of this machine.
    """
    lengths, told_of = document_lengths(problem, selection, workspace)
    longest = max(lengths, default=0)
    work = work_of(lengths, selection.conditions)
    documents = _documents(problem, workspace, len(lengths))
    needs = problem_needs(problem, workspace, selection.models)
    missing = {need.name: need.download_bytes for need in needs if not need.present}
    models = []
    for spec in selection.models:
        size = model_size(spec, workspace, problem=problem.name)
        cost = estimate(
            work,
            size or UNKNOWN_SIZE,
            dtype=resolve_dtype(spec, selection.dtype, selection.device),
            device=selection.device,
        )
        done = sum(
            unit.status == "done"
            for condition in selection.conditions
            for unit in current_units(problem, selection, spec, condition, documents, workspace)
        )
        models.append(
            PlannedModel(
                spec=spec,
                done=done,
                units=len(lengths) * len(selection.conditions),
                tokens=cost.tokens,
                rows=cost.rows,
                flops=cost.flops if size else 0.0,
                disk_bytes=cost.disk_bytes,
                download_bytes=missing.pop(spec.base or spec.full_id, 0),
                seconds=cost.seconds if size else None,
                memory=planned_memory(spec, selection, longest, workspace, None, problem.name),
                assumed=size is not None and size.assumed,
            )
        )
    planned = [(m.spec, m.memory) for m in models if m.memory and device_here]
    flops = sum(model.left * model.flops for model in models)
    dtypes = {resolve_dtype(m.spec, selection.dtype, selection.device) for m in models}
    speed = " or ".join(sorted({assumed_speed(selection.device, each)[1] for each in dtypes}))
    gpu_hours = flops / GPU_FLOPS / 3600
    elsewhere = ""
    if selection.device == "cpu" and gpu_hours > 0.1:
        elsewhere = " " + on_a_gpu(selection, longest, workspace, problem.name, flops)
    notes = (
        f"device {selection.device}{'' if device_here else ' (not here)'}; {told_of}. Memory: "
        "weights + KV cache + activations and logits of the longest document. Times are estimates "
        f"({flops:.1e} FLOPs to do) at an assumed speed of {speed}; the progress bar shows the "
        f"measured one.{elsewhere}",
        *_unknown(models),
        *refused(planned, selection.conditions, selection.device),
        *([f"To download: {to_fetch}."] if (to_fetch := downloads_text(needs)) else []),
        *(f"{subject}: {told}" for subject, told in notices(problem, selection.models).items()),
    )
    title = (
        f"{problem.name}: {counted(len(selection.models), 'model')} × "
        f"{counted(len(selection.conditions), 'condition')} × {counted(len(lengths), 'document')}"
    )
    return Plan(title, tuple(models), notes)


def _documents(problem: Problem, workspace: Workspace, count: int) -> dict[int, str]:
    """SHA-256 of the first documents by number; empty where they are not here yet."""
    path = documents_path(problem, workspace)
    if not path.is_file():
        return dict.fromkeys(range(count), "")
    table = pq.read_table(source(path), columns=["doc_id", "sha256"], partitioning=None)
    pairs = zip(table["doc_id"].to_pylist(), table["sha256"].to_pylist(), strict=True)
    return {doc_id: sha256 for doc_id, sha256 in pairs if doc_id < count}


def _unknown(models: Sequence[PlannedModel]) -> list[str]:
    names = [model.spec.full_id for model in models if model.seconds is None]
    if not names:
        return []
    return [
        f"Size unknown until its files are here: {', '.join(names)}. Give `parameters`, or "
        "`shape`, in the problem file to have it planned."
    ]


def plan_table(plan: Plan) -> Table:
    """The plan as a table for the terminal."""
    from rich.table import Table

    table = Table(title=plan.title)
    for name in (
        "model",
        "units done",
        "tokens",
        "rows",
        "time",
        "peak memory, GiB",
        "rows on disk",
        "download",
    ):
        left = name == "model"
        table.add_column(
            name,
            justify="left" if left else "right",
            no_wrap=not left,
            overflow="fold",
            min_width=len(name),
        )
    for model in plan.models:
        table.add_row(
            model.spec.full_id,
            f"{model.done}/{model.units}",
            *amounts(model.tokens, model.rows, model.seconds),
            gibibytes(model.memory, model.assumed),
            rounded(model.disk_bytes, "B"),
            gigabytes(model.download_bytes),
        )
    table.add_section()
    tokens = sum(int(model.left * model.tokens) for model in plan.models)
    rows = sum(int(model.left * model.rows) for model in plan.models)
    size = sum(int(model.left * model.disk_bytes) for model in plan.models)
    known = all(model.seconds is not None for model in plan.models)
    seconds = plan.hours * 3600 if known or plan.hours else None
    fetched = sum(model.download_bytes or 0 for model in plan.models)
    table.add_row(
        "still to do", "", *amounts(tokens, rows, seconds), "", rounded(size, "B"),
        gigabytes(fetched),
    )  # fmt: skip
    return table


def count_finished(
    problem: Problem,
    selection: Selection,
    documents: Sequence[Document],
    workspace: Workspace,
) -> int:
    """Units of a selection that the ledger holds, finished as they are asked for or failed."""
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
    model's context; `reasons` are those of failed units.

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
        predicted = planned_memory(spec, selection, longest, workspace, None, problem.name)
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


def fallbacks(rows: Sequence[dict[str, Any]]) -> list[str]:
    """What runs slower or coarser than it should, a line per model: from `status_rows`."""
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


def status_table(
    problem: Problem, rows: Sequence[dict[str, Any]], by_condition: bool = False
) -> Table:
    """The state as a table for the terminal: a row for each model, or each of its conditions."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"{problem.name}: what has been extracted")
    covered = "condition" if by_condition else "conditions whole"
    for column in (
        "model", covered, "units", "failed", "of", "rows", "tokens", "seconds", "MB", "peak GiB",
    ):  # fmt: skip
        left = column in ("model", covered)
        table.add_column(
            column,
            justify="left" if left else "right",
            no_wrap=not left,
            overflow="fold",
            min_width=max(map(len, column.split())) if left else len(column),
        )
    for row in rows if by_condition else per_model(rows):
        cells = (
            row["model"], row["condition"], str(row["done"]), str(row["failed"] or ""),
            str(row["documents"] or "?"), f"{row['rows']:,}", f"{row['tokens_processed']:,}",
            f"{row['seconds']:,.0f}", f"{row['bytes'] / 1e6:.1f}", _peak(row),
        )  # fmt: skip
        table.add_row(*(Text(visible(cell)) for cell in cells))
    return table


def status_notes(
    problem: Problem, selection: Selection, rows: Sequence[dict[str, Any]]
) -> list[str]:
    """What stands below the table: why units failed, what ran over its limit, what to know."""
    failures = [Failure(row["model"], reason) for row in rows for reason in row["reasons"]]
    over: dict[str, int] = {}
    for row in rows:
        over[row["model"]] = max(row["over_limit"], over.get(row["model"], 0))
    counts = ", ".join(f"{model} ({count})" for model, count in over.items() if count)
    return [
        *(f"failed: {line}" for line in summary(failures)),
        *([f"Documents over the model's context: {counts}."] if counts else []),
        *(f"{subject}: {told}" for subject, told in notices(problem, selection.models).items()),
    ]


def _peak(row: dict[str, Any]) -> str:
    if row["peak_bytes"]:
        return f"{row['peak_bytes'] / 2**30:.1f}"
    predicted = row["predicted_peak_bytes"]
    return UNKNOWN if predicted is None else f"~{predicted / 2**30:.1f}"
