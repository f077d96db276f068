"""Size of a model, and the memory that scoring needs at its peak; weights are never read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

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
from warehouse.problem.models import ModelShape, ModelSpec, WindowIntervention
from warehouse.sources.checkpoint_files import (
    PICKLED,
    SAFETENSORS,
    gguf_header,
    text_config,
)
from warehouse.sources.folders import ProblemFolders

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
        files = list(path.glob(SAFETENSORS)) or path.glob(PICKLED)
        dtype = str(config.get("dtype") or config.get("torch_dtype"))
        counted = sum(file.stat().st_size for file in files) // BYTES.get(dtype, 2) or None
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
    return None if header is None else sum(int(each.n_elements) for each in header.tensors) or None


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


def refuse_too_large(spec: ModelSpec, needed: Footprint, device: str, available: int) -> None:
    """Stop before anything is downloaded or loaded when a model can't fit.

    `available` are the bytes that it may take, from `available_memory` while no model is loaded.

    Raises:
        TokenmartError: the predicted peak is above them; with the numbers.
    """
    if needed.least(device) > available:
        raise TokenmartError(
            f"{spec.full_id}: needs about {needed.total / 2**30:.1f} GiB (weights "
            f"{needed.weights / 2**30:.1f}, KV cache {needed.cache / 2**30:.1f}, activations "
            f"{needed.activations / 2**30:.1f}, logits {needed.logits / 2**30:.1f}), {device} has "
            f"{available / 2**30:.1f} GiB free; use --dtype bfloat16, --device auto-map, a larger "
            "machine, or fewer --max-tokens",
            code="model-too-large",
            where=spec.full_id,
        )
