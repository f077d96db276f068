"""The memory plan: what scoring a document needs at its peak, before anything is loaded."""

from __future__ import annotations

import json
from dataclasses import dataclass

from extract.head import CPU_ROWS, CPU_TILE, GPU_ROWS, GPU_TILE
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.problem.model_shape import ModelShape
from warehouse.problem.spec import ModelSpec, WindowIntervention
from warehouse.sources.weights.local import LocalSource

UNKNOWN_PARAMETERS = 7_000_000_000
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
GPU_BATCH_TOKENS = 65_536
BRANCH_TOKENS = 1024
"""Tokens of branches (retrieval excerpts, recall questions) packed into one forward."""
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
        """What a forward needs beside the weights."""
        return self.cache + self.activations + self.logits

    @property
    def total(self) -> int:
        """The peak."""
        return self.weights + self.forward


def shape_of(spec: ModelSpec, workspace: Workspace) -> tuple[ModelShape, bool]:
    """Sizes of a model, and whether they are known: from the problem file or its config.json."""
    if spec.shape is not None:
        return spec.shape, True
    if isinstance(spec.source, LocalSource):
        try:
            config = json.loads((workspace.root / spec.source.path / "config.json").read_text())
        except (OSError, ValueError):
            config = {}
        found = ModelShape.of_config(config)
        if found is not None:
            return found, True
    return ModelShape.assumed(spec.parameters or UNKNOWN_PARAMETERS), spec.parameters is not None


def count_parameters(shape: ModelShape) -> int:
    """Weights of a gated decoder without biases and norms; within 1% of the real number."""
    return _linear_parameters(shape) + shape.vocabulary * shape.width * (1 if shape.tied else 2)


def _linear_parameters(shape: ModelShape) -> int:
    attention = 2 * shape.width * (shape.query_width + shape.kv_width)
    return shape.layers * (attention + 3 * shape.width * shape.inner)


def activation_bytes_per_token(shape: ModelShape, size: int) -> int:
    """Peak of one decoder layer per token: residual, its norm, and the wider of its halves."""
    attention = 3 * shape.query_width + 4 * shape.kv_width
    return size * (3 * shape.width + max(attention, 3 * shape.inner))


def footprint(
    spec: ModelSpec,
    shape: ModelShape,
    *,
    dtype: str,
    device: str,
    longest: int,
    branch_tokens: int,
) -> Footprint:
    """Predict the peak of scoring one document.

    Args:
        spec: the model; its attention-window interventions need masks.
        shape: from `shape_of`.
        dtype: a torch dtype's name.
        device: `cpu` counts the process and the head's float32 copy, too.
        longest: tokens of the longest document.
        branch_tokens: tokens of one packed forward behind the document; 0 when no probe
            shares its cache, and then none is kept.
    """
    size = BYTES[dtype]
    on_cpu = device == "cpu"
    weights = (spec.parameters or count_parameters(shape)) * size
    if on_cpu:
        weights += shape.vocabulary * shape.width * 4 + HOST_PROCESS
        if dtype == "float32":
            # packed copies of the linear layers; the mapped file stays resident beside them
            weights += 4 * _linear_parameters(shape)
    kept = longest + branch_tokens if branch_tokens else 0
    cache = 2 * shape.layers * shape.kv_width * kept * size
    activations = longest * activation_bytes_per_token(shape, size)
    local = shape.window is not None and longest > shape.window
    if local or any(isinstance(i, WindowIntervention) for i in spec.interventions):
        # a boolean mask, and the additive one that SDPA makes of it
        activations += longest * longest * (1 + size)
    activations += branch_tokens * kept * (2 + size)
    rows, tile = (CPU_ROWS, CPU_TILE) if on_cpu else (GPU_ROWS, GPU_TILE)
    logits = 3 * 4 * rows * min(tile, shape.vocabulary)
    return Footprint(weights, cache, activations, logits)


def gpu_budgets(free: int, shape: ModelShape | None, size: int) -> tuple[int, int]:
    """Tokens per forward of batched requests and rows per block of the head, for a GPU.

    A batch may take a quarter of what is free beside the weights and a block of logits a tenth;
    the rest is the KV cache's and the allocator's. Should it be too much, the engine halves.

    Args:
        free: bytes free on the device, the model loaded.
        shape: the model's; None takes the largest budgets.
        size: bytes of one number in the model's dtype.
    """
    if shape is None:
        return GPU_BATCH_TOKENS, GPU_ROWS
    batch = free // 4 // activation_bytes_per_token(shape, size)
    rows = free // 10 // (3 * 4 * min(GPU_TILE, shape.vocabulary))
    return _within(batch, 512, GPU_BATCH_TOKENS), _within(rows, 32, GPU_ROWS)


def _within(value: int, least: int, most: int) -> int:
    return max(least, min(most, value))


def available_memory(device: str) -> int:
    """Memory of the device (of all GPUs and the host for a device map), in bytes."""
    import psutil

    host = int(psutil.virtual_memory().total)
    if not device.startswith(("cuda", "auto-map")):
        return host
    import torch

    gpus = [
        int(torch.cuda.get_device_properties(n).total_memory)
        for n in range(torch.cuda.device_count())
    ]
    return sum(gpus) + host if device == "auto-map" else max(gpus, default=0)


def refuse_too_large(spec: ModelSpec, needed: Footprint, device: str, longest: int) -> None:
    """Stop before anything is downloaded or loaded when a model can't fit.

    Raises:
        TokenmartError: the predicted peak is above the device's memory; with the numbers.
    """
    there = available_memory(device)
    if needed.total > there:
        raise TokenmartError(
            f"{spec.full_id}: needs about {needed.total / 2**30:.1f} GiB (weights "
            f"{needed.weights / 2**30:.1f}, KV cache {needed.cache / 2**30:.1f}, activations "
            f"{needed.activations / 2**30:.1f}, logits {needed.logits / 2**30:.1f}; documents of "
            f"{longest:,} tokens), {device} has {there / 2**30:.1f} GiB; use --dtype bfloat16, "
            "--device auto-map, a larger machine, or fewer --max-tokens"
        )
