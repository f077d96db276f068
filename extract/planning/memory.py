"""Size of a model, and the memory that scoring needs at its peak; weights are never read."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from extract.devices import free_gpus
from extract.scoring.budgets import (
    CPU_ROWS,
    CPU_TILE,
    GPU_ROWS,
    GPU_TILE,
    activation_bytes_per_token,
    cache_bytes_per_token,
)
from warehouse.errors import TokenmartError
from warehouse.files import file_stamp
from warehouse.paths import Workspace
from warehouse.probes.request import Condition
from warehouse.problem.models import ModelShape, ModelSpec, WindowIntervention
from warehouse.sources.checkpoint_files import (
    PICKLED,
    SAFETENSORS,
    gguf_header,
    is_mask_buffer,
    text_config,
)
from warehouse.sources.folders import ProblemFolders

_LARGEST_HEADER = 100_000_000
"""Bytes; the safetensors format's own limit."""

_FLOATS = {"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"}


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

    Its own files are asked first, as far as they are here: config.json of a folder and the headers
    of its safetensors, the header of a GGUF file (a package's, too). Then the problem file: `shape`
    and `parameters`, or `parameters` alone. At last the size of its weight files, at two bytes a
    weight.

    Args:
        spec: the model of the problem file.
        workspace: where its files are.
        folder: its checkpoint, where it is here already.
        problem: name of the problem, whose lock file has the commit of a repository.
    """
    path = folder or spec.present(ProblemFolders(workspace, problem))
    shape, counted, weights = _of_files(path) if path else (None, None, None)
    stated = spec.parameters
    if shape is not None:
        parameters = counted or count_parameters(shape)
        # the published number, unless the configuration is of another model
        near = stated is not None and abs(stated - parameters) < 0.02 * parameters
        return ModelSize(stated if near and stated else parameters, shape)
    if spec.shape is not None:
        return ModelSize(stated or counted or count_parameters(spec.shape), spec.shape)
    known = stated or counted or weights
    return None if known is None else ModelSize(known, ModelShape.assumed(known), assumed=True)


def _of_files(path: Path) -> tuple[ModelShape | None, int | None, int | None]:
    """Shape, number of weights, and that number guessed from the size of the files."""
    if path.is_file():
        return *_of_gguf(path), None
    safe = list(path.glob(SAFETENSORS))
    bytes_ = sum(file.stat().st_size for file in safe or path.glob(PICKLED))
    return ModelShape.of_config(text_config(path)), _of_headers(safe), bytes_ // 2 or None


def _of_headers(files: Iterable[Path]) -> int | None:
    """Number of weights in safetensors files; None where they are quantised or can't be read."""
    count = 0
    try:
        for file in files:
            with file.open("rb") as stream:
                (size,) = struct.unpack("<Q", stream.read(8))
                if size > _LARGEST_HEADER:
                    return None
                header = json.loads(stream.read(size))
            header.pop("__metadata__", None)
            tensors = [t for t in header.values() if not is_mask_buffer(t["dtype"], t["shape"])]
            if any(tensor["dtype"] not in _FLOATS for tensor in tensors):
                return None
            count += sum(math.prod(tensor["shape"]) for tensor in tensors)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error, RecursionError):
        return None
    return count or None


def count_parameters(shape: ModelShape) -> int:
    """Weights of a gated decoder without biases and norms; within 1% of the real number."""
    return linear_parameters(shape) + shape.vocabulary * shape.width * (1 if shape.tied else 2)


def linear_parameters(shape: ModelShape) -> int:
    """Weights of the linear layers of a gated decoder."""
    attention = 2 * shape.width * (shape.query_width + shape.kv_width)
    return shape.layers * (attention + 3 * shape.width * shape.inner)


def _of_gguf(path: Path) -> tuple[ModelShape | None, int | None]:
    try:
        return _read_gguf(path, file_stamp(path))
    except OSError:
        return None, None


@lru_cache(maxsize=64)
def _read_gguf(path: Path, stamp: str) -> tuple[ModelShape | None, int | None]:
    """Shape and number of weights from a GGUF file's header, as far as its form is known."""
    reader = gguf_header(path)
    if reader is None:
        return None, None
    fields = reader.fields

    kind = fields["general.architecture"].contents() if "general.architecture" in fields else None

    def of(name: str) -> Any:
        """A value of the architecture; of one that is given for each layer, the largest."""
        field = fields.get(f"{kind}.{name}")
        value = None if field is None else field.contents()
        return max(value) if isinstance(value, list) else value

    sizes = {tensor.name: tensor for tensor in reader.tensors}
    heads = of("attention.head_count")
    try:
        shape = ModelShape(
            kind=str(kind),
            layers=of("block_count"),
            width=of("embedding_length"),
            inner=of("feed_forward_length"),
            heads=heads,
            kv_heads=of("attention.head_count_kv") or heads,
            # dimensions are stored innermost first: (width, vocabulary)
            vocabulary=int(sizes["token_embd.weight"].shape[-1]),
            head_width=of("attention.key_length"),
            window=of("attention.sliding_window") or None,
            tied="output.weight" not in sizes,
        )
    except (KeyError, IndexError, ValueError, TypeError):
        shape = None
    return shape, sum(int(tensor.n_elements) for tensor in sizes.values()) or None


BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}

SMALLEST_FORWARD = 512 * 2**20
"""Libraries' workspaces, a short piece's activations and a block of logits, on a GPU."""

RESERVED_SHARE = 1.15
"""Memory that a GPU's allocator reserves for the forward's tensors (emulated, not measured)."""

HOST_PROCESS = 450 * 2**20
"""Python, PyTorch and transformers themselves, resident on the host."""


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
        """Bytes without which nothing runs: on a GPU the engine cuts a forward into pieces."""
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


def available_memory(device: str) -> int:
    """Bytes that a model may take: free ones of the GPU (for a device map of all GPUs, and the
    host's), or all of the host's.
    """
    import psutil

    host = int(psutil.virtual_memory().total)
    if not device.startswith(("cuda", "auto-map")):
        return host
    free = free_gpus(device)
    return sum(free) + host if device == "auto-map" else max(free, default=0)


def fitting(
    needed: Footprint, conditions: Sequence[Condition], device: str, there: int
) -> list[Condition]:
    """The conditions that a device with `there` free bytes can score; none if the model is too big.

    The engine refuses alone those conditions whose KV cache is too large for a GPU.
    """
    if needed.least(device) > there:
        return []
    # over several GPUs each stores the cache of its own layers
    if not device.startswith("cuda") or needed.weights + needed.cache <= there:
        return list(conditions)
    return [condition for condition in conditions if not condition.kind.shares_prefix]


def refused(
    planned: Sequence[tuple[ModelSpec, Footprint]], conditions: Sequence[Condition], device: str
) -> list[str]:
    """Parts of a plan that the device will refuse: models, then conditions."""
    if not planned:
        return []
    there = available_memory(device)
    large, partly = [], []
    for spec, needed in planned:
        able = fitting(needed, conditions, device, there)
        without = " and ".join(each.name for each in conditions if each not in able)
        if not able:
            large.append(f"{spec.full_id} ({needed.least(device) / 2**30:.1f} GiB at least)")
        elif without:
            partly.append(f"{spec.full_id} without {without}")
    where = f"for {device}, where {there / 2**30:.1f} GiB are free"
    notes = [f"Too large {where}: {', '.join(large)}."] if large else []
    if partly:
        in_part = "Scored in part, since the KV cache is too large"
        notes.append(f"{in_part} {where}: {', '.join(partly)}.")
    return notes


def refuse_too_large(spec: ModelSpec, needed: Footprint, device: str, longest: int) -> None:
    """Stop before anything is downloaded or loaded when a model can't fit.

    Raises:
        TokenmartError: the predicted peak is above the device's memory; with the numbers.
    """
    there = available_memory(device)
    if needed.least(device) > there:
        raise TokenmartError(
            f"{spec.full_id}: needs about {needed.total / 2**30:.1f} GiB (weights "
            f"{needed.weights / 2**30:.1f}, KV cache {needed.cache / 2**30:.1f}, activations "
            f"{needed.activations / 2**30:.1f}, logits {needed.logits / 2**30:.1f}; documents of "
            f"{longest:,} tokens), {device} has {there / 2**30:.1f} GiB free; use --dtype bfloat16,"
            " --device auto-map, a larger machine, or fewer --max-tokens"
        )
