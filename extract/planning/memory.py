"""The memory plan: what scoring a document needs at its peak, before anything is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from extract.planning.devices import free_gpus
from extract.planning.model_size import ModelSize, linear_parameters
from extract.scoring.budgets import (
    CPU_ROWS,
    CPU_TILE,
    GPU_ROWS,
    GPU_TILE,
    activation_bytes_per_token,
)
from warehouse.errors import TokenmartError
from warehouse.probes.request import Condition
from warehouse.problem.models import ModelSpec, WindowIntervention

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
    spec: ModelSpec,
    size: ModelSize,
    *,
    dtype: str,
    device: str,
    longest: int,
    suffix_tokens: int,
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
    cache = 2 * shape.layers * shape.kv_width * kept * number
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
    """The conditions that a device can score; none where the model itself is too large.

    The engine refuses alone those conditions whose KV cache is too large for a GPU.

    Args:
        needed: from `footprint`.
        conditions: those that are asked for.
        device: as for `footprint`.
        there: bytes that the model may take.
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
    found = {"Too large": large, "Scored in part, since the KV cache is too large": partly}
    return [
        f"{what} for {device}, where {there / 2**30:.1f} GiB are free: {', '.join(names)}."
        for what, names in found.items()
        if names
    ]


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
