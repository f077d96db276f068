"""A plan: what an extraction would cost, model by model, as a table with notes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from extract.devices import available_memory, resolve_dtype
from extract.planning.cost import (
    Cost,
    Footprint,
    ModelSize,
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
from warehouse.sources.folders import RequiredFile
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
    None if unknown. `to_place` is where the user has to place a checkpoint that is missing.
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
    lengths, names, origin = document_lengths(selection)
    required = required_files(problem, workspace, selection.models)
    models = _planned_models(selection, lengths, required)
    available = available_memory(selection.device) if device_here else None
    notes = [
        f"device {selection.device}{'' if device_here else ' (not here)'}; {origin}. Times are "
        f"estimates at an assumed {' or '.join(_speeds(selection))}."
    ]
    if documents_changed(problem, workspace):
        notes.append(CHANGED)
    named = zip(names, lengths, strict=False)
    notes += [f"{line}." for line in too_short(named, selection.conditions)]
    notes += by_note(
        (model.spec.full_id, note)
        for model in models
        for note in _notes(model, selection, lengths, available)
    )
    if scratch := sum(model.cost.scratch_bytes for model in models):
        notes.append(SCRATCH.format(scratch / 1e6))
    if text := downloads_text(required):
        notes.append(f"To download: {text}.")
    notes += [f"{name}: {notice}" for name, notice in notices(problem, selection.models).items()]
    title = (
        f"{problem.name}: {counted(len(models), 'model')} × "
        f"{counted(len(selection.conditions), 'condition')} × {counted(len(lengths), 'document')}"
    )
    return Plan(title, tuple(models), tuple(notes))


def _speeds(selection: Selection) -> list[str]:
    """The speeds that estimates assume, one for each dtype of the models."""
    device = selection.device
    speeds = [
        assumed_speed(device, resolve_dtype(spec, selection.dtype, device))
        for spec in selection.models
    ]
    return sorted({f"{speed / 1e9:,.0f} GFLOP/s ({hardware})" for speed, hardware in speeds})


def _planned_models(
    selection: Selection, lengths: Sequence[int], required: Sequence[RequiredFile]
) -> list[PlannedModel]:
    """The plan of each model.

    Args:
        selection: the models.
        lengths: tokens of each document (estimated).
        required: the problem's files; one that several models need counts with the first.
    """
    missing = {file.name: file for file in required if not file.present}
    texts = stored_texts(selection.problem, selection.workspace)
    texts = texts or dict.fromkeys(range(len(lengths)), Text(""))
    documents = {doc_id: text for doc_id, text in texts.items() if doc_id < len(lengths)}
    read = {m.full_id: tuple(planned_lengths(selection, m, lengths)) for m in selection.models}
    works = {tokens: work_of(tokens, selection.conditions) for tokens in set(read.values())}
    forwards: set[tuple[str, tuple[int, ...]]] = set()
    models = []
    for spec in selection.models:
        tokens = read[spec.full_id]
        units = len(lengths) * len(selection.conditions)
        done = sum(u.state == "done" for u in planned_units(selection, spec, documents))
        # a reference runs once for all models that read the same tokens
        references = selection.references if done < units else []
        new = [name for name in references if (name, tokens) not in forwards]
        forwards |= {(name, tokens) for name in new}
        size = model_size(spec, selection.workspace, problem=selection.problem.name)
        file = missing.pop(spec.base or spec.full_id, None)
        models.append(
            PlannedModel(
                spec=spec,
                done=done,
                units=units,
                cost=_cost(selection, spec, size, works[tokens], tokens, new),
                download_bytes=file.download_bytes if file else 0,
                memory=planned_memory(selection, spec, max(lengths, default=0)),
                assumed=size is not None and size.assumed,
                to_place=file.place if file and spec.source.placed_by_hand else "",
            )
        )
    return models


def _cost(
    selection: Selection,
    spec: ModelSpec,
    size: ModelSize | None,
    work: Work,
    read: tuple[int, ...],
    forwards: Collection[str],
) -> Cost:
    """The cost of all units of a model, comparisons with references included.

    `work` is that of all conditions, `read` the tokens that the model reads of each document,
    `forwards` the references whose forward pass is counted with this model.
    """
    problem, device = selection.problem, selection.device
    dtype = resolve_dtype(spec, selection.dtype, device)
    cost = estimate(work, size, dtype=dtype, device=device)
    for name in selection.references:
        reference = problem.model(name)
        compared = [c for c in selection.conditions if c.reference == name]
        cost = with_reference(
            cost,
            work_of(read, compared),
            model_size(reference, selection.workspace, problem=problem.name),
            dtype=resolve_dtype(reference, selection.dtype, device),
            device=device,
            forward=name in forwards,
        )
    return cost


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
        Column("time", [_time(duration) for duration in seconds]),
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
