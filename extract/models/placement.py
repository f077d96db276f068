"""Where a model's weights are and where it computes, as the engine sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

LOCKED_ARCHITECTURES = ("llama", "mistral", "qwen2")
"""`model_type` of the locked list's models: shared prefixes and fused attention must work."""


def execution_device(module: nn.Module) -> torch.device:
    """The device a module computes on, also when its weights wait elsewhere (accelerate)."""
    import torch

    hook = getattr(module, "_hf_hook", None)
    chosen = getattr(hook, "execution_device", None)
    if chosen is not None:
        return torch.device(chosen if not isinstance(chosen, int) else f"cuda:{chosen}")
    return next(module.parameters()).device


def resident_weight(linear: nn.Linear) -> tuple[Tensor, Tensor | None]:
    """Weight and bias of a layer on its execution device; copied there when offloaded."""
    if linear.weight.device.type != "meta":
        return linear.weight.detach(), None if linear.bias is None else linear.bias.detach()
    from accelerate.utils import align_module_device

    with align_module_device(linear):
        bias = None if linear.bias is None else linear.bias.detach().clone()
        return linear.weight.detach().clone(), bias
