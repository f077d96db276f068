"""A plan as a table: what an extraction would cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from extract.planning.cells import amounts, gibibytes, gigabytes, rounded
from extract.planning.cost import (
    GPU_FLOPS,
    Work,
    assumed_speed,
    document_lengths,
    estimate,
    on_a_gpu,
    planned_memory,
    work_of,
)
from extract.planning.current import current_units
from extract.planning.cuts import cut_notes, read_lengths
from extract.planning.devices import resolve_dtype
from extract.planning.memory import Footprint
from extract.planning.model_size import UNKNOWN_SIZE, model_size
from extract.planning.plan import Selection
from warehouse.paths import Workspace
from warehouse.problem.needs import downloads_text, notices, problem_needs
from warehouse.problem.spec import ModelSpec, Problem
from warehouse.remote import source
from warehouse.sources.fetch import documents_path
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
    works: dict[tuple[int, ...], Work] = {}
    documents = _documents(problem, workspace, len(lengths))
    needs = problem_needs(problem, workspace, selection.models)
    missing = {need.name: need.download_bytes for need in needs if not need.present}
    models = []
    for spec in selection.models:
        size = model_size(spec, workspace, problem=problem.name)
        read = tuple(read_lengths(lengths, problem, spec, workspace))
        if read not in works:
            works[read] = work_of(read, selection.conditions)
        cost = estimate(
            works[read],
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
                memory=planned_memory(problem, spec, selection, max(read, default=0), workspace),
                assumed=size is not None and size.assumed,
            )
        )
    flops = sum(model.left * model.flops for model in models)
    dtypes = {resolve_dtype(m.spec, selection.dtype, selection.device) for m in models}
    speed = " or ".join(sorted({assumed_speed(selection.device, each)[1] for each in dtypes}))
    gpu_hours = flops / GPU_FLOPS / 3600
    elsewhere = ""
    if selection.device == "cpu" and gpu_hours > 0.1:
        elsewhere = " " + on_a_gpu(problem, selection, max(lengths, default=0), workspace, flops)
    notes = (
        f"device {selection.device}{'' if device_here else ' (not here)'}; {told_of}. Memory: "
        "weights + KV cache + activations and logits of the longest document. Times are estimates "
        f"({flops:.1e} FLOPs to do) at an assumed speed of {speed}; the progress bar shows the "
        f"measured one.{elsewhere}",
        *(f"{note}." for note in cut_notes(lengths, problem, selection.models, workspace)),
        *_unknown(models),
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
