"""What a selection costs, before anything is loaded: tokens, rows, time, memory and disk."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from extract.devices import device_name, peak_flops, resolve_dtype
from extract.planning.selection import Selection
from extract.scoring.budgets import (
    CPU_ROWS,
    CPU_TILE,
    GPU_ROWS,
    GPU_TILE,
    SUFFIX_TOKENS,
    activation_bytes_per_token,
    cache_bytes_per_token,
)
from warehouse.errors import TokenmartError
from warehouse.files import file_stamp
from warehouse.paths import Workspace
from warehouse.probes.planned import planned_document
from warehouse.probes.request import Condition
from warehouse.problem.models import ModelShape, ModelSpec, WindowIntervention
from warehouse.sources.configurations import gguf_header, text_config
from warehouse.sources.folders import ProblemFolders
from warehouse.sources.weights import PICKLED, SAFETENSORS, weight_files
from warehouse.terminal import counted

BYTES_PER_ROW = 10
BYTES_PER_CHOICE = 6
BYTES_PER_DIVERGENCE = 9
"""Measured: 8.2 to 8.3, in files of 1,023 rows."""

CPU_FLOPS_PER_CORE = {"float32": 6e10, "bfloat16": 1.2e11, "float16": 2e10}
GPU_FLOPS = 1.2e14
"""Sustained speed assumed for estimates: a 2024 server processor's core, a GPU of unknown name."""

SUSTAINED = 0.5
"""Share of a GPU's peak rate that a forward over long texts is assumed to reach."""

COMPARED_LOGITS = 5 / 3
"""Logits of a comparison, relative to three float32 tiles: for half of the rows, two float32 tiles
and four in float64 (both models' logits, their difference, a product); counted, not measured."""

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}

SMALLEST_FORWARD = 512 * 2**20
"""Libraries' workspaces, a short piece's activations and a block of logits, on a GPU."""

RESERVED_SHARE = 1.15
"""Memory that a GPU's allocator reserves for the forward's tensors (emulated, not measured)."""

HOST_PROCESS = 450 * 2**20
"""Python, PyTorch and transformers themselves, resident on the host."""


@dataclass(frozen=True)
class ModelSize:
    """Sizes of a model: its number of weights, and the shape that memory follows from.

    `assumed` says that only the number of weights is known; the shape is that of a typical
    decoder with as many.
    """

    parameters: int
    shape: ModelShape
    assumed: bool = False


def model_size(
    spec: ModelSpec, workspace: Workspace, folder: Path | None = None, problem: str = ""
) -> ModelSize | None:
    """The size of a model, or None if unknown.

    From its own files, as far as they are here: config.json of a folder and the size of its weight
    files, in the dtype of the configuration; the header of a GGUF file. Else from the problem file:
    `shape`, `parameters`.

    Args:
        spec: the model of the problem file.
        workspace: where its files are.
        folder: its checkpoint, where it is here already.
        problem: name of the problem, whose lock file has the commit of a repository.
    """
    path = folder or spec.present(ProblemFolders(workspace, problem))
    configured = counted = None
    if path is not None and path.is_dir():
        config = text_config(path)
        configured = ModelShape.of_config(config)
        files: list[Path] = []
        with suppress(TokenmartError):  # a damaged index stops this model alone, when it is loaded
            files = weight_files(path, SAFETENSORS) or weight_files(path, PICKLED)
        dtype = str(config.get("dtype") or config.get("torch_dtype"))
        stored = sum(file.stat().st_size for file in files if file.is_file())
        counted = stored // BYTES.get(dtype, 2) or None
    elif path is not None:
        counted = _weights_in_gguf(path, file_stamp(path))
    stated = spec.parameters
    if configured is not None:
        parameters = counted or count_parameters(configured)
        # the published number, unless the configuration is of another model
        near = stated is not None and abs(stated - parameters) < 0.02 * parameters
        return ModelSize(stated if near and stated else parameters, configured)
    if spec.shape is not None:
        return ModelSize(stated or counted or count_parameters(spec.shape), spec.shape)
    known = stated or counted
    return None if known is None else ModelSize(known, ModelShape.assumed(known), assumed=True)


@lru_cache(maxsize=64)
def _weights_in_gguf(path: Path, stamp: str) -> int | None:
    """Number of weights in a GGUF file's header; `stamp` changes with the file."""
    header = gguf_header(path)
    return None if header is None else sum(header.tensors.values()) or None


def count_parameters(shape: ModelShape) -> int:
    """Weights of a gated decoder without biases and norms; within 1% of the real number."""
    return linear_parameters(shape) + shape.vocabulary * shape.width * (1 if shape.tied else 2)


def linear_parameters(shape: ModelShape) -> int:
    """Weights of the linear layers of a gated decoder."""
    attention = 2 * shape.width * (shape.query_width + shape.kv_width)
    return shape.layers * (attention + 3 * shape.width * shape.inner)


@dataclass(frozen=True)
class Footprint:
    """Predicted peak in bytes: weights, KV cache, activations of one layer, tiles of logits."""

    weights: int
    cache: int
    activations: int
    logits: int

    @property
    def forward(self) -> int:
        """Memory that a forward pass needs in addition to the weights."""
        return self.cache + self.activations + self.logits

    @property
    def total(self) -> int:
        """The peak."""
        return self.weights + self.forward

    @property
    def reserved(self) -> int:
        """Peak memory reserved by a GPU's allocator, gaps between tensors included."""
        return self.weights + int(RESERVED_SHARE * self.forward)

    def least(self, device: str) -> int:
        """Least memory in bytes: on a GPU the engine can split a forward into pieces."""
        return self.total if device == "cpu" else self.weights + SMALLEST_FORWARD


def footprint(
    spec: ModelSpec, size: ModelSize, *, dtype: str, device: str, longest: int, suffix_tokens: int
) -> Footprint:
    """Predict the peak of scoring one document.

    Args:
        spec: the model; its attention-window interventions need masks.
        size: from `model_size`.
        dtype: a torch dtype's name.
        device: `cpu` counts the process and the head's float32 copy, too.
        longest: tokens of the longest document.
        suffix_tokens: tokens of one packed forward behind the document; 0 when no condition
            continues it, and then no cache is kept.
    """
    shape, number = size.shape, BYTES[dtype]
    on_cpu = device == "cpu"
    weights = size.parameters * number
    if on_cpu:
        weights += shape.vocabulary * shape.width * 4 + HOST_PROCESS
        if dtype == "float32":
            # packed copies of the linear layers; the mapped file stays resident as well
            weights += 4 * linear_parameters(shape)
    kept = longest + suffix_tokens if suffix_tokens else 0
    cache = cache_bytes_per_token(shape, number) * kept
    activations = longest * activation_bytes_per_token(shape, number)
    local = shape.window is not None and longest > shape.window
    if local or any(isinstance(i, WindowIntervention) for i in spec.interventions):
        # a boolean mask, and the additive one that SDPA makes of it
        activations += longest * longest * (1 + number)
    activations += suffix_tokens * kept * (2 + number)
    rows, tile = (CPU_ROWS, CPU_TILE) if on_cpu else (GPU_ROWS, GPU_TILE)
    logits = 3 * 4 * rows * min(tile, shape.vocabulary)
    return Footprint(weights, cache, activations, logits)


def refuse_too_large(
    spec: ModelSpec, needed: Footprint, device: str, available: int, copies: int = 1
) -> None:
    """Stop before anything is downloaded or loaded when a model can't fit.

    Args:
        spec: the model.
        needed: its predicted peak.
        device: for the message.
        available: bytes that it may take, from `available_memory` while no model is loaded.
        copies: how many workers load it, side by side.

    Raises:
        TokenmartError: the predicted peak is above them; with the numbers.
    """
    if copies * needed.least(device) > available:
        for_each = f" for each of {copies} workers" if copies > 1 else ""
        raise TokenmartError(
            f"{spec.full_id}: needs about {needed.total / 2**30:.1f} GiB (weights "
            f"{needed.weights / 2**30:.1f}, KV cache {needed.cache / 2**30:.1f}, activations "
            f"{needed.activations / 2**30:.1f}, logits {needed.logits / 2**30:.1f}), {device} has "
            f"{available / copies / 2**30:.1f} GiB free{for_each}; use --dtype bfloat16, --device "
            "auto-map, a larger machine, fewer --workers or fewer --max-tokens",
            code="model-too-large",
            where=spec.full_id,
        )


@dataclass(frozen=True)
class Work:
    """Work that the conditions require of any model.

    Attributes:
        tokens: through the backbone; a text that several requests continue counts once.
        rows: scored tokens.
        pairs: (token, visible token), what attention computes.
        choices: rows of the side table of top-k tokens.
    """

    tokens: int
    rows: int
    pairs: float
    choices: int = 0


@dataclass(frozen=True)
class Cost:
    """Estimated work of one model: tokens through the backbone, rows, FLOPs, seconds, bytes.

    A model of unknown size has no FLOPs, and `seconds` is None. `scratch_bytes` are hidden states
    of reference models, on disk while the process runs.
    """

    tokens: int
    rows: int
    flops: float
    seconds: float | None
    disk_bytes: int
    scratch_bytes: int = 0


def work_of(tokens_per_document: Sequence[int], selected: Sequence[Condition]) -> Work:
    """Work of documents of these lengths, counted on the very requests of each condition."""
    tokens = rows = choices = 0
    pairs = 0.0
    for length in tokens_per_document:
        document = planned_document(length, max(tokens_per_document))
        requests = []
        for condition in selected:
            group = condition.build(document)
            requests += group
            choices += condition.top_k * sum(len(request.targets) for request in group)
        read = {request.ids.tobytes() for request in requests if not request.prefix_length}
        for request in requests:
            prefix = request.prefix.tobytes()
            if request.prefix_length and prefix not in read:
                read.add(prefix)
                tokens += len(request.prefix)
                pairs += len(request.prefix) ** 2 / 2
            suffix = len(request.ids)
            tokens += suffix
            rows += len(request.targets)
            pairs += suffix * (request.prefix_length + suffix / 2)
    return Work(tokens, rows, pairs, choices)


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


def with_reference(
    cost: Cost, work: Work, size: ModelSize | None, *, dtype: str, device: str, forward: bool
) -> Cost:
    """Cost of a model with what a comparison with a reference adds.

    The reference's head goes over every compared token. Its forward pass, whose hidden states of
    the compared tokens wait in the scratch file, is that of the first model that needs it.

    Args:
        cost: of the model alone.
        work: of the conditions that are compared.
        size: the reference's; None leaves the sum of seconds unknown.
        dtype: the reference's.
        device: that of both.
        forward: whether the reference's forward pass is counted.
    """
    tokens = cost.tokens + work.tokens * forward
    disk = cost.disk_bytes + work.rows * BYTES_PER_DIVERGENCE
    if size is None:
        return replace(cost, tokens=tokens, disk_bytes=disk, seconds=None)
    read = work if forward else Work(0, work.rows, 0.0)
    added = estimate(read, size, dtype=dtype, device=device)
    scratch = work.rows * size.shape.width * BYTES[dtype] * forward
    seconds = None
    if cost.seconds is not None and added.seconds is not None:
        seconds = cost.seconds + added.seconds
    flops = cost.flops + added.flops
    return Cost(tokens, cost.rows, flops, seconds, disk, cost.scratch_bytes + scratch)


def assumed_speed(device: str, dtype: str) -> tuple[float, str]:
    """Sustained FLOP/s that estimates assume of a device, and the device's name."""
    if device == "cpu":
        import psutil

        cores = psutil.cpu_count(logical=False) or 1
        return CPU_FLOPS_PER_CORE[dtype] * cores, f"{counted(cores, 'server core')} in {dtype}"
    name = device_name(device)
    peak = peak_flops(name, dtype)
    if peak is None:
        return GPU_FLOPS, "a GPU of the A100 class"
    return SUSTAINED * peak, f"{name} in {dtype}"


def planned_lengths(selection: Selection, spec: ModelSpec, lengths: Sequence[int]) -> list[int]:
    """Tokens that a model reads of documents of these lengths."""
    most = selection.most_tokens(spec)
    return [n if most is None else min(n, most) for n in lengths]


def planned_memory(
    selection: Selection,
    spec: ModelSpec,
    longest: int,
    folder: Path | None = None,
    available: int | None = None,
) -> Footprint | None:
    """Predicted peak of one model; None where its size is not known.

    Args:
        selection: its device, dtype and conditions.
        spec: the model.
        longest: tokens of the longest document, which is cut to the model's context.
        folder: the model's checkpoint, where it is here already.
        available: bytes that it may take, from `available_memory`.

    Raises:
        TokenmartError: it needs more than is available.
    """
    size = model_size(spec, selection.workspace, folder, selection.problem.name)
    if size is None:
        return None
    sharing = any(condition.kind.shares_prefix for condition in selection.conditions)
    (read,) = planned_lengths(selection, spec, [longest])
    alone = footprint(
        spec,
        size,
        dtype=resolve_dtype(spec, selection.dtype, selection.device),
        device=selection.device,
        longest=read,
        suffix_tokens=SUFFIX_TOKENS if sharing else 0,
    )
    references = [selection.problem.model(name) for name in selection.references]
    sizes = [
        model_size(reference, selection.workspace, problem=selection.problem.name)
        for reference in references
    ]
    heads = [size.shape.vocabulary * size.shape.width * 4 for size in sizes if size is not None]
    # the heads of all references stay on the host, one is packed for the model's device
    kept = sum(heads) if selection.device == "cpu" else 0
    both = int(COMPARED_LOGITS * alone.logits) if heads else alone.logits
    needed = replace(alone, weights=alone.weights + kept + max(heads, default=0), logits=both)
    if available is not None:
        refuse_too_large(spec, needed, selection.device, available)
    return needed
