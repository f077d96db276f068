"""A plan: what an extraction would cost, model by model, as a table with notes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from extract.devices import available_memory, resolve_dtype
from extract.planning.cost import (
    Cost,
    Footprint,
    Work,
    assumed_speed,
    estimate,
    model_size,
    planned_lengths,
    planned_memory,
    with_reference,
    work_of,
)
from extract.planning.selection import Selection, document_lengths, planned_units
from warehouse.probes.planned import too_short
from warehouse.problem.models import ModelSpec
from warehouse.problem.required_files import downloads_text, notices, required_files
from warehouse.problem.tables import documents_changed
from warehouse.problem.unit_states import Text, stored_texts
from warehouse.terminal import Column, counted

UNKNOWN = "unknown"

CHANGED = (
    "The texts have changed since the last extraction: `tokenmart extract` reads them again and "
    "scores changed documents again, though the table counts them as done."
)

SCRATCH = "Scratch file of reference models' hidden states while it runs: {:,.0f} MB."


@dataclass(frozen=True)
class PlannedModel:
    """One model of a plan: its units that are done, all its units, and what all of them cost.

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
    problem, workspace, device = selection.problem, selection.workspace, selection.device
    lengths, names, origin = document_lengths(selection)
    stored = stored_texts(problem, workspace) or dict.fromkeys(range(len(lengths)), Text(""))
    documents = {doc_id: text for doc_id, text in stored.items() if doc_id < len(lengths)}
    required = required_files(problem, workspace, selection.models)
    missing = {file.name: file for file in required if not file.present}
    works: dict[tuple[int, ...], Work] = {}
    models, speeds = [], set()
    computed: set[tuple[str, tuple[int, ...]]] = set()
    for spec in selection.models:
        size = model_size(spec, workspace, problem=problem.name)
        dtype = resolve_dtype(spec, selection.dtype, device)
        speed, hardware = assumed_speed(device, dtype)
        speeds.add(f"{speed / 1e9:,.0f} GFLOP/s ({hardware})")
        read = tuple(planned_lengths(selection, spec, lengths))
        if read not in works:
            works[read] = work_of(read, selection.conditions)
        units = len(lengths) * len(selection.conditions)
        done = sum(u.state == "done" for u in planned_units(selection, spec, documents))
        cost = estimate(works[read], size, dtype=dtype, device=device)
        memory = planned_memory(selection, spec, max(lengths, default=0))
        for name in sorted({each.reference for each in selection.conditions if each.reference}):
            reference = problem.model(name)
            compared = [each for each in selection.conditions if each.reference == name]
            forward = done < units and (name, read) not in computed
            if forward:
                computed.add((name, read))
            cost = with_reference(
                cost,
                work_of(read, compared),
                model_size(reference, workspace, problem=problem.name),
                dtype=resolve_dtype(reference, selection.dtype, device),
                device=device,
                forward=forward,
            )
        file = missing.pop(spec.base or spec.full_id, None)
        models.append(
            PlannedModel(
                spec=spec,
                done=done,
                units=units,
                cost=cost,
                download_bytes=file.download_bytes if file else 0,
                memory=memory,
                assumed=size is not None and size.assumed,
                to_place=file.place if file and spec.source.placed_by_hand else "",
            )
        )
    available = available_memory(device) if device_here else None
    named = zip(names, lengths, strict=False)
    scratch = sum(model.cost.scratch_bytes for model in models)
    notes = (
        f"device {device}{'' if device_here else ' (not here)'}; {origin}. Times are estimates at "
        f"an assumed {' or '.join(sorted(speeds))}.",
        *([CHANGED] if documents_changed(problem, workspace) else []),
        *(f"{line}." for line in too_short(named, selection.conditions)),
        *by_note(
            (model.spec.full_id, note)
            for model in models
            for note in _notes(model, selection, lengths, available)
        ),
        *([SCRATCH.format(scratch / 1e6)] if scratch else []),
        *([f"To download: {text}."] if (text := downloads_text(required)) else []),
        *(f"{subject}: {notice}" for subject, notice in notices(problem, selection.models).items()),
    )
    title = (
        f"{problem.name}: {counted(len(models), 'model')} × "
        f"{counted(len(selection.conditions), 'condition')} × {counted(len(lengths), 'document')}"
    )
    return Plan(title, tuple(models), notes)


def _notes(
    model: PlannedModel, selection: Selection, lengths: Sequence[int], available: int | None
) -> Iterator[str]:
    """What a plan remarks on one model: documents that don't fit its context, too little memory.

    `lengths` are tokens of the documents (estimated), `available` the bytes that a model may take
    on the device, None where the device isn't here.
    """
    rules = selection.problem.documents
    context = model.spec.context_limit(selection.problem.folders(selection.workspace))
    truncates = rules.too_long == "truncate"
    most = selection.most_tokens(model.spec) if truncates else context
    if context is not None and most is not None:
        margin = rules.margin if rules.too_long == "run" else 0
        longer = sum(n > most + margin for n in lengths)
        some = f"{longer} of {counted(len(lengths), 'document')}"
        if longer and truncates:
            yield f"{some} will be cut to {most:,} tokens (context {context:,})."
        elif longer:
            yield (
                f"{some} may be too long for a context of {context:,} tokens and will then fail "
                "for these models alone: set documents.too_long: truncate, or "
                "documents.max_tokens, in the problem file."
            )
    memory = model.memory
    if model.to_place:
        yield f"not here: place its checkpoint at {model.to_place}, or correct source.path."
    if memory is None or available is None:
        return
    device, free = selection.device, f"{available / 2**30:.1f} GiB free"
    if memory.least(device) > available:
        yield f"too large for {device}, with {free}."
    # over several GPUs each stores the cache of its own layers
    elif device.startswith("cuda") and memory.weights + memory.cache > available:
        yield f"KV cache too large for {device}, with {free}: no probes that continue a document."


def by_note(notes: Iterable[tuple[str, str]]) -> list[str]:
    """One line for each note, with the models that it is about: pairs of a model and a note."""
    models: dict[str, list[str]] = {}
    for model, note in notes:
        models.setdefault(note, []).append(model)
    return [f"{', '.join(dict.fromkeys(names))}: {note}" for note, names in models.items()]


def plan_records(plan: Plan) -> list[dict[str, Any]]:
    """A record for each model; amounts are those of all its units, the finished ones included.

    `seconds`, `download_bytes` and `peak_bytes` are None where the model's size is not known.
    """
    return [
        {
            "model": model.spec.full_id,
            "model_id": model.spec.model_id,
            "units": model.units,
            "units_done": model.done,
            "tokens": model.cost.tokens,
            "seconds": model.cost.seconds,
            "rows": model.cost.rows,
            "disk_bytes": model.cost.disk_bytes,
            "download_bytes": model.download_bytes,
            "peak_bytes": model.memory.total if model.memory else None,
            "is_assumed": model.assumed,
            "to_place": model.to_place,
        }
        for model in plan.models
    ]


def plan_columns(plan: Plan) -> list[Column]:
    """The plan as a table for the terminal: a row for each model, and what is left of all."""
    models = plan.models
    known = all(model.cost.seconds is not None for model in models)
    seconds = [model.cost.seconds for model in models]
    seconds.append(plan.hours * 3600 if known or plan.hours else None)

    def amounts(part: Callable[[Cost], int], unit: str = "") -> list[str]:
        left = sum(int(model.left * part(model.cost)) for model in models)
        return [_rounded(n, unit) for n in [*(part(model.cost) for model in models), left]]

    fetched = sum(model.download_bytes or 0 for model in models)
    return [
        Column("model", [*(m.spec.full_id for m in models), "still to do"], text=True),
        Column("units done", [*(f"{m.done}/{m.units}" for m in models), ""]),
        Column("tokens", amounts(lambda cost: cost.tokens)),
        Column("time", [_time(each) for each in seconds]),
        Column("peak GiB", [*(_peak(m.memory, m.assumed) for m in models), ""]),
        Column("download", [*(_gigabytes(m.download_bytes) for m in models), _gigabytes(fetched)]),
        Column("rows", amounts(lambda cost: cost.rows), extra=True),
        Column("rows on disk", amounts(lambda cost: cost.disk_bytes, "B"), extra=True),
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
