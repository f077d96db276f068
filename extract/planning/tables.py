"""A plan as a table: what an extraction would cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from extract.devices import resolve_dtype
from extract.planning.cost import (
    GPU_FLOPS,
    Cost,
    Work,
    assumed_speed,
    document_lengths,
    estimate,
    planned_memory,
    read_lengths,
    work_of,
)
from extract.planning.memory import Footprint, model_size, refused
from extract.planning.selection import Selection
from extract.planning.status import UNKNOWN, current_units, unscored_lines
from warehouse.paths import Workspace
from warehouse.problem.models import ModelSpec
from warehouse.problem.required_files import downloads_text, notices, required_files
from warehouse.problem.spec import Problem
from warehouse.problem.tables import documents_changed, documents_path
from warehouse.sources.folders import RequiredFile
from warehouse.store.parquet_files import read_table
from warehouse.terminal import Column, counted, listed

CHANGED = (
    "The texts have changed since the last extraction: `tokenmart extract` reads them again and "
    "scores changed documents again, though the table counts them as done."
)


@dataclass(frozen=True)
class PlannedModel:
    """One model of a plan: units done and asked for, and what the whole of it costs.

    `memory` is None where the model's size is not known. `assumed` says that only its number of
    weights is. `download_bytes` are still to be fetched: 0 where nothing is, or with another model;
    None if unknown. `to_place` says where the user has to place a checkpoint that is not there.
    """

    spec: ModelSpec
    done: int
    units: int
    cost: Cost
    download_bytes: int | None
    memory: Footprint | None
    assumed: bool
    to_place: str = ""

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
        """Models of unknown size, with work left, whose files can be fetched."""
        unsized = [m for m in self.models if m.cost.seconds is None and not m.to_place]
        return [m.spec.full_id for m in unsized if m.left > 0]

    @property
    def hours(self) -> float:
        """Remaining hours, of the models of known size."""
        seconds = sum(model.left * (model.cost.seconds or 0.0) for model in self.models)
        return seconds / 3600 / self.workers


def make_plan(selection: Selection, device_here: bool = True) -> Plan:
    """Compute a plan and its cost from the problem file, the ledger and local files.

    `device_here` says whether the selection's device is one of this machine.
    """
    problem, workspace = selection.problem, selection.workspace
    lengths, origin = document_lengths(selection)
    longest = max(lengths, default=0)
    works: dict[tuple[int, ...], Work] = {}
    documents = _documents(problem, workspace, len(lengths))
    needs = required_files(problem, workspace, selection.models)
    missing = {need.name: need.download_bytes for need in needs if not need.present}
    to_place = {
        need.name: need.remedy for need in needs if not need.present and need.source == "local"
    }
    models, speeds = [], set()
    unscored: dict[str, list[str]] = {}
    for spec in selection.models:
        size = model_size(spec, workspace, problem=problem.name)
        dtype = resolve_dtype(spec, selection.dtype, selection.device)
        speeds.add(assumed_speed(selection.device, dtype)[1])
        read = tuple(read_lengths(lengths, selection, spec))
        if read not in works:
            works[read] = work_of(read, selection.conditions)
        for condition in selection.conditions:
            if condition.name in works[read].unscored:
                unscored.setdefault(condition.name, []).append(spec.full_id)
        done = sum(
            unit.status == "done"
            for condition in selection.conditions
            for unit in current_units(selection, spec, condition, documents)
        )
        models.append(
            PlannedModel(
                spec=spec,
                done=done,
                units=len(lengths) * len(selection.conditions),
                cost=estimate(works[read], size, dtype=dtype, device=selection.device),
                download_bytes=missing.pop(spec.base or spec.full_id, 0),
                memory=planned_memory(selection, spec, longest),
                assumed=size is not None and size.assumed,
                to_place=to_place.get(spec.base or spec.full_id, ""),
            )
        )
    planned = [(m.spec, m.memory) for m in models if m.memory and device_here]
    flops = sum(model.left * model.cost.flops for model in models)
    elsewhere = _on_a_gpu(selection, flops)
    notes = (
        f"device {selection.device}{'' if device_here else ' (not here)'}; {origin}. Memory: "
        "weights + KV cache + activations and logits of the longest document. Times are estimates "
        f"({flops:.1e} FLOPs to do) at an assumed speed of {' or '.join(sorted(speeds))}; the "
        f"progress bar shows the measured one.{elsewhere}",
        *([CHANGED] if documents_changed(problem, workspace) else []),
        *(f"By this estimate {line}." for line in unscored_lines(unscored, selection.conditions)),
        *_cut_notes(lengths, selection),
        *_unknown(models),
        *refused(planned, selection.conditions, selection.device),
        *([f"To download: {to_fetch}."] if (to_fetch := downloads_text(needs)) else []),
        *_in_all(models, needs),
        *(f"{subject}: {notice}" for subject, notice in notices(problem, selection.models).items()),
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
    table = read_table(path, ["doc_id", "sha256"])
    pairs = zip(table["doc_id"].to_pylist(), table["sha256"].to_pylist(), strict=True)
    return {doc_id: sha256 for doc_id, sha256 in pairs if doc_id < count}


def _on_a_gpu(selection: Selection, flops: float) -> str:
    """Time on one GPU, if a large plan is for the processor; `flops` are still to do."""
    hours = flops / GPU_FLOPS / 3600
    if selection.device != "cpu" or hours <= 0.1:
        return ""
    return f" One GPU of the A100 class would take about {hours:,.1f} h; --device cuda plans it."


def _cut_notes(lengths: Sequence[int], selection: Selection) -> list[str]:
    """Notes on documents of `lengths` tokens (estimated) that exceed a model's context."""
    by_context: dict[int | None, list[str]] = {}
    problem = selection.problem
    for spec in selection.models:
        context = spec.context_limit(problem.folders(selection.workspace))
        by_context.setdefault(context, []).append(spec.full_id)
    rules = problem.documents
    truncates = rules.too_long == "truncate"
    several = len(selection.models) > 1
    notes = []
    for context, names in by_context.items():
        if context is None:
            continue
        margin = rules.margin if rules.too_long == "run" else 0
        most = max(2, context - 1 - rules.room) if truncates else context + margin
        longer = sum(n > most for n in lengths)
        if not longer:
            continue
        about = f"{listed(names)}: {longer} of {counted(len(lengths), 'document')}"
        allows = f"a context of {context:,} tokens"
        if truncates:
            read = sum(min(n, most) for n in lengths)
            free = f" ({rules.room} left free)" if rules.room else ""
            alike = "; documents.max_characters would cut them alike for every tokenizer"
            notes.append(
                f"{about} will be cut to {allows}{free}: about {read:,} of {sum(lengths):,} tokens "
                f"are read{alike if several else ''}."
            )
        else:
            notes.append(
                f"{about} may be too long for {allows} and will then fail for these models alone: "
                "set documents.too_long: truncate, or documents.max_tokens, in the problem file."
            )
    if truncates and by_context.get(None):
        notes.append(
            f"context unknown until the files are here: {listed(by_context[None])}; longer "
            "documents will be cut to it."
        )
    return notes


def _unknown(models: Sequence[PlannedModel]) -> list[str]:
    missing = [f"Not here: {m.spec.full_id}: {m.to_place}." for m in models if m.to_place]
    names = [m.spec.full_id for m in models if m.memory is None and not m.to_place]
    if not names:
        return missing
    return [
        *missing,
        f"Size unknown until its files are here: {', '.join(names)}. Give `parameters`, or "
        "`shape`, in the problem file to have it planned.",
    ]


def _in_all(models: Sequence[PlannedModel], needs: Sequence[RequiredFile]) -> list[str]:
    """Disk and download of what is still to do, in one sum, and how long the download takes."""
    missing = [need for need in needs if not need.present]
    fetched = sum(need.download_bytes or 0 for need in missing)
    if not fetched:
        return []
    copies = sum(need.copy_bytes for need in missing)
    rows = sum(int(model.left * model.cost.disk_bytes) for model in models)
    hours = 8 * fetched / 1e8 / 3600
    return [
        f"In all: {(fetched + copies + rows) / 1e9:,.1f} GB of disk (checkpoints, converted copies "
        f"and {rows / 1e9:,.1f} GB of rows); the download takes {hours:,.1f} h at 100 Mbit/s or "
        f"{hours / 10:,.1f} h at 1 Gbit/s."
    ]


def plan_columns(plan: Plan) -> list[Column]:
    """The plan as a table for the terminal: a row for each model, and what is left of all."""
    models = plan.models
    known = all(model.cost.seconds is not None for model in models)
    seconds = [model.cost.seconds for model in models]
    seconds.append(plan.hours * 3600 if known or plan.hours else None)

    def amounts(part: Callable[[Cost], int]) -> list[int]:
        left = sum(int(model.left * part(model.cost)) for model in models)
        return [*(part(model.cost) for model in models), left]

    fetched = sum(model.download_bytes or 0 for model in models)
    return [
        Column("model", [*(m.spec.full_id for m in models), "still to do"], text=True),
        Column("units done", [*(f"{m.done}/{m.units}" for m in models), ""]),
        Column("tokens", [_rounded(n) for n in amounts(lambda cost: cost.tokens)]),
        Column("time", [_time(each) for each in seconds]),
        Column("peak GiB", [*(_peak(m.memory, m.assumed) for m in models), ""]),
        Column("download", [*(_gigabytes(m.download_bytes) for m in models), _gigabytes(fetched)]),
        Column("rows", [_rounded(n) for n in amounts(lambda cost: cost.rows)], extra=True),
        Column(
            "rows on disk",
            [_rounded(n, "B") for n in amounts(lambda cost: cost.disk_bytes)],
            extra=True,
        ),
        Column("weights + cache + rest", [*(_parts(m.memory) for m in models), ""], extra=True),
    ]


def _time(seconds: float | None) -> str:
    if seconds is None:
        return UNKNOWN
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 3600:,.1f} h" if seconds >= 3600 else f"{seconds / 60:,.1f} min"


def _rounded(number: float, unit: str = "") -> str:
    return f"{number / 1e3:,.1f} k{unit}" if number < 1e6 else f"{number / 1e6:,.1f} M{unit}"


def _gigabytes(size: int | None) -> str:
    return UNKNOWN if size is None else f"{size / 1e9:,.1f} GB" if size else ""


def _peak(peak: Footprint | None, assumed: bool) -> str:
    return UNKNOWN if peak is None else f"{'~' if assumed else ''}{peak.total / 2**30:.1f}"


def _parts(peak: Footprint | None) -> str:
    """Weights, KV cache, and activations with logits, in GiB."""
    if peak is None:
        return UNKNOWN
    sizes = (peak.weights, peak.cache, peak.activations + peak.logits)
    return " + ".join(f"{size / 2**30:.1f}" for size in sizes)
