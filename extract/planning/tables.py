"""A plan as a table: what an extraction would cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow.parquet as pq

from extract.planning.cards import smallest_cards
from extract.planning.cells import amounts, gibibytes, gigabytes, parts, rounded
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
from extract.planning.memory import Footprint, refused
from extract.planning.model_size import UNKNOWN_SIZE, model_size
from extract.planning.plan import Selection
from warehouse.paths import Workspace
from warehouse.problem.models import ModelSpec
from warehouse.problem.needs import downloads_text, notices, problem_needs
from warehouse.problem.spec import Problem
from warehouse.problem.tables import documents_path
from warehouse.remote import source
from warehouse.sources.place import Need
from warehouse.terminal import Column, counted

CARDS_NAMED = 3


@dataclass(frozen=True)
class PlannedModel:
    """One model of a plan: units done and asked for, and what the whole of it costs.

    `seconds` and `memory` are None where the model's size is not known. `assumed` says that only
    its number of weights is. `download_bytes` are still to be fetched: 0 where nothing is, or with
    another model; None if unknown.
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
    """The plan of each model, with title and notes."""

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
        """Remaining hours, of the models of known size."""
        seconds = sum(model.left * (model.seconds or 0.0) for model in self.models)
        return seconds / 3600 / self.workers


def make_plan(
    problem: Problem, selection: Selection, workspace: Workspace, device_here: bool = True
) -> Plan:
    """Compute a plan and its cost from the problem file, the ledger and local files.

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
    planned = [(m.spec, m.memory) for m in models if m.memory and device_here]
    flops = sum(model.left * model.flops for model in models)
    dtypes = {resolve_dtype(m.spec, selection.dtype, selection.device) for m in models}
    speed = " or ".join(sorted({assumed_speed(selection.device, each)[1] for each in dtypes}))
    gpu_hours = flops / GPU_FLOPS / 3600
    elsewhere = ""
    large = selection.device != "cpu" or gpu_hours > 0.1
    if selection.device == "cpu" and large:
        elsewhere = " " + on_a_gpu(problem, selection, max(lengths, default=0), workspace, flops)
    notes = (
        f"device {selection.device}{'' if device_here else ' (not here)'}; {told_of}. Memory: "
        "weights + KV cache + activations and logits of the longest document. Times are estimates "
        f"({flops:.1e} FLOPs to do) at an assumed speed of {speed}; the progress bar shows the "
        f"measured one.{elsewhere}",
        *(f"{note}." for note in cut_notes(lengths, problem, selection.models, workspace)),
        *_unknown(models),
        *refused(planned, selection.conditions, selection.device),
        *([f"To download: {to_fetch}."] if (to_fetch := downloads_text(needs)) else []),
        *_in_all(models, needs),
        *(_smallest_card(problem, selection, max(lengths, default=0), workspace) if large else []),
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


def plan_columns(plan: Plan) -> list[Column]:
    """The plan as a table for the terminal: a row for each model, and what is left of all."""
    models = plan.models
    known = all(model.seconds is not None for model in models)
    seconds = plan.hours * 3600 if known or plan.hours else None

    def left(part: Callable[[PlannedModel], int]) -> int:
        return sum(int(model.left * part(model)) for model in models)

    shown = [amounts(model.tokens, model.rows, model.seconds) for model in models]
    shown.append(amounts(left(lambda m: m.tokens), left(lambda m: m.rows), seconds))
    tokens, rows, times = zip(*shown, strict=True)
    disk = [*(model.disk_bytes for model in models), left(lambda m: m.disk_bytes)]
    fetched = sum(model.download_bytes or 0 for model in models)
    return [
        Column("model", [*(m.spec.full_id for m in models), "still to do"], text=True),
        Column("units done", [*(f"{m.done}/{m.units}" for m in models), ""]),
        Column("tokens", tokens),
        Column("time", times),
        Column("peak GiB", [*(gibibytes(m.memory, m.assumed) for m in models), ""]),
        Column("download", [*(gigabytes(m.download_bytes) for m in models), gigabytes(fetched)]),
        Column("rows", rows, extra=True),
        Column("rows on disk", [rounded(size, "B") for size in disk], extra=True),
        Column("weights + cache + rest", [*(parts(m.memory) for m in models), ""], extra=True),
    ]


def _in_all(models: Sequence[PlannedModel], needs: Sequence[Need]) -> list[str]:
    """Disk and download of what is still to do, in one sum, and how long the download takes."""
    missing = [need for need in needs if not need.present]
    fetched = sum(need.download_bytes or 0 for need in missing)
    copies = sum(need.copy_bytes for need in missing)
    rows = sum(int(model.left * model.disk_bytes) for model in models)
    if not fetched:
        return []
    times = " or ".join(
        f"{8 * fetched / (megabits * 1e6) / 3600:,.1f} h at {words}"
        for megabits, words in ((100, "100 Mbit/s"), (1000, "1 Gbit/s"))
    )
    return [
        f"In all: {(fetched + copies + rows) / 1e9:,.1f} GB of disk (checkpoints, converted copies "
        f"and {rows / 1e9:,.1f} GB of rows); the download takes {times}."
    ]


def _smallest_card(
    problem: Problem, selection: Selection, longest: int, workspace: Workspace
) -> list[str]:
    """The card that holds each model whole, where all sizes are known."""
    there = replace(selection, device="cuda", dtype="bfloat16")
    peaks = [planned_memory(problem, spec, there, longest, workspace) for spec in selection.models]
    if None in peaks or not peaks:
        return []
    needed = max(peak.reserved for peak in peaks if peak is not None)
    cards = smallest_cards(needed)
    held = " or ".join(card.name for card in cards[:CARDS_NAMED]) or "none; use --device auto-map"
    return [
        f"Smallest GPU for any one of these models with its longest document "
        f"({needed / 2**30:.1f} GiB in bfloat16): {held}."
    ]
