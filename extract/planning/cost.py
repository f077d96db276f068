"""Cost of a selection: tokens, rows, time, memory and disk, before anything is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from extract.devices import card_of, device_name, resolve_dtype, sustained_rate
from extract.planning.memory import (
    Footprint,
    ModelSize,
    available_memory,
    footprint,
    linear_parameters,
    model_size,
    refuse_too_large,
)
from extract.planning.selection import Selection
from extract.scoring.budgets import SUFFIX_TOKENS
from warehouse.errors import TokenmartError
from warehouse.probes.planned import planned_document
from warehouse.probes.request import Condition
from warehouse.problem.models import ModelSpec
from warehouse.problem.tables import documents_path
from warehouse.sources.documents import BYTES_PER_TOKEN, TextSize
from warehouse.store.parquet_files import read_table
from warehouse.terminal import counted

BYTES_PER_ROW = 10
BYTES_PER_CHOICE = 6
CPU_FLOPS_PER_CORE = {"float32": 6e10, "bfloat16": 1.2e11, "float16": 2e10}
GPU_FLOPS = 1.2e14
"""Sustained speed assumed for estimates: a 2024 server processor's core, a GPU of unknown name."""


@dataclass(frozen=True)
class Work:
    """Work that the conditions require of any model.

    Attributes:
        tokens: through the backbone; a text that several requests continue counts once.
        rows: scored tokens.
        pairs: (token, visible token), what attention computes.
        choices: rows of the side table of top-k tokens.
        unscored: conditions without a token to score.
    """

    tokens: int
    rows: int
    pairs: float
    choices: int = 0
    unscored: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Cost:
    """Estimated work of one model: tokens through the backbone, rows, FLOPs, seconds, bytes.

    A model of unknown size has no FLOPs, and `seconds` is None.
    """

    tokens: int
    rows: int
    flops: float
    seconds: float | None
    disk_bytes: int


def work_of(tokens_per_document: Sequence[int], selected: Sequence[Condition]) -> Work:
    """Work of documents of these lengths, counted on the very requests of each condition."""
    tokens = rows = choices = 0
    pairs = 0.0
    scored = set()
    for length in tokens_per_document:
        document = planned_document(length, max(tokens_per_document))
        requests = []
        for condition in selected:
            group = condition.build(document)
            requests += group
            if any(len(request.targets) for request in group):
                scored.add(condition.name)
            choices += condition.top_k * sum(len(request.targets) for request in group)
        read = {request.ids.tobytes() for request in requests if not request.prefix_length}
        for request in requests:
            prefix = request.prefix.tobytes()
            if request.prefix_length and prefix not in read:
                read.add(prefix)
                tokens += len(request.prefix)
                pairs += len(request.prefix) ** 2 / 2
            own = len(request.ids)
            tokens += own
            rows += len(request.targets)
            pairs += own * (request.prefix_length + own / 2)
    unscored = frozenset(condition.name for condition in selected) - scored
    return Work(tokens, rows, pairs, choices, unscored)


def estimate(work: Work, size: ModelSize | None, *, dtype: str, device: str) -> Cost:
    """Cost of the work with one model; several GPUs are counted as one.

    FLOPs: 2 for each weight of the linear layers and token, 2 for each weight of the head and
    scored token, and of attention 4 × width of the queries × layers for each pair of tokens.
    """
    disk = work.rows * BYTES_PER_ROW + work.choices * BYTES_PER_CHOICE
    if size is None:
        return Cost(work.tokens, work.rows, 0.0, None, disk)
    shape = size.shape
    flops = 2.0 * linear_parameters(shape) * work.tokens
    flops += 2.0 * shape.vocabulary * shape.width * work.rows
    flops += 4.0 * shape.query_width * shape.layers * work.pairs
    return Cost(work.tokens, work.rows, flops, flops / assumed_speed(device, dtype)[0], disk)


def assumed_speed(device: str, dtype: str) -> tuple[float, str]:
    """Sustained FLOP/s that estimates assume of a device, and the device's name."""
    if device == "cpu":
        import psutil

        cores = psutil.cpu_count(logical=False) or 1
        return CPU_FLOPS_PER_CORE[dtype] * cores, f"{counted(cores, 'server core')} in {dtype}"
    card = card_of(device_name(device))
    if card is None:
        return GPU_FLOPS, "a GPU of the A100 class"
    return sustained_rate(card, dtype), f"{card.name} in {dtype}"


def planned_lengths(selection: Selection, spec: ModelSpec, lengths: Sequence[int]) -> list[int]:
    """Tokens that a model reads of documents of these lengths."""
    most = selection.most_tokens(spec)
    return [n if most is None else min(n, most) for n in lengths]


def document_lengths(selection: Selection) -> tuple[list[int], str]:
    """Tokens per document (estimated from UTF-8 bytes), and where the estimate comes from."""
    problem, limit = selection.problem, selection.max_tokens
    documents = problem.documents
    folders = problem.folders(selection.workspace)
    sizes = documents.sizes(folders)
    path = documents_path(problem, selection.workspace)
    whole = sum(size.characters for size in (sizes or [])[: selection.documents])
    if sizes is not None:
        sizes = [size.cut(documents.max_characters) for size in sizes]
    elif path.is_file():
        table = read_table(path, ["characters", "bytes"])
        columns = (column.to_pylist() for column in table.columns)
        sizes = [TextSize(*pair) for pair in zip(*columns, strict=True)]
    if sizes is None:
        count = documents.count or 1
        lengths = [documents.expected_tokens] * min(count, selection.documents or count)
        origin = (
            f"{'an unknown number of' if documents.count is None else len(lengths)} documents, "
            f"counted as {len(lengths)} of {documents.expected_tokens:,} tokens, since they are "
            f"not here yet: {documents.required_file(folders).remedy}"
        )
    else:
        sizes = sizes[: selection.documents]
        lengths = [size.tokens for size in sizes]
        characters = sum(size.characters for size in sizes)
        cut = f" of {whole:,} (documents.max_characters)" if characters < whole else ""
        origin = (
            f"{counted(len(lengths), 'document')} of {characters:,}{cut} characters, counted as "
            f"{BYTES_PER_TOKEN} bytes of UTF-8 a token"
        )
    return [min(n, limit) if limit else n for n in lengths], origin


def document_names(selection: Selection) -> list[str]:
    """Names of the documents of `document_lengths`; none of texts that are not here."""
    problem = selection.problem
    folders = problem.folders(selection.workspace)
    path = documents_path(problem, selection.workspace)
    names: list[str] = []
    if problem.documents.sizes(folders) is not None:
        names = [document.name for document in problem.documents.read(folders)]
    elif path.is_file():
        names = read_table(path, ["name"])["name"].to_pylist()
    return names[: selection.documents]


def planned_memory(
    selection: Selection, spec: ModelSpec, longest: int, folder: Path | None = None
) -> Footprint | None:
    """Predicted peak of one model of a selection; None where its size is not known.

    `longest` are the tokens of the longest document, before it is cut to the model's context;
    `folder` is the checkpoint's, where it is here already.
    """
    size = model_size(spec, selection.workspace, folder, selection.problem.name)
    if size is None:
        return None
    sharing = any(condition.kind.shares_prefix for condition in selection.conditions)
    return footprint(
        spec,
        size,
        dtype=resolve_dtype(spec, selection.dtype, selection.device),
        device=selection.device,
        longest=planned_lengths(selection, spec, [longest])[0],
        suffix_tokens=SUFFIX_TOKENS if sharing else 0,
    )


def checked_memory(
    selection: Selection,
    spec: ModelSpec,
    longest: int,
    available: int,
    folder: Path | None = None,
) -> Footprint | None:
    """The same, of a model that fits into the bytes that are available.

    Raises:
        TokenmartError: the model needs more.
    """
    needed = planned_memory(selection, spec, longest, folder)
    if needed is not None:
        refuse_too_large(spec, needed, selection.device, available)
    return needed


def refuse_too_many(workers: int, selection: Selection) -> None:
    """Stop before workers start that don't fit into the host's memory side by side.

    Raises:
        TokenmartError: several copies of a model are more than the host has.
    """
    if selection.device != "cpu":
        return
    longest = max(document_lengths(selection)[0], default=0)
    available = available_memory("cpu")
    for spec in selection.models:
        peak = planned_memory(selection, spec, longest)
        if peak is not None and workers * peak.total > available:
            raise TokenmartError(
                f"--workers {workers}: each needs up to {peak.total / 2**30:.1f} GiB "
                f"({spec.full_id}), and this machine has {available / 2**30:.1f} GiB; use "
                f"--workers {max(1, available // peak.total)} or fewer --max-tokens",
                code="too-many-workers",
                where=spec.full_id,
            )
