"""Device and precision of a model's weights, and whether its layers are compiled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


def exact_float32() -> None:
    """Make float32 products mean float32 on every device.

    TF32 keeps 10 bits of the mantissa, which moves log-probs by about 1e-3 nats; for speed choose
    bfloat16, which the ledger records. Nor are sums of half precision products rounded to half
    precision between the parts of a split product: that moves log-probs by more than the self-check
    accepts.
    """
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False


def execution_device(module: nn.Module) -> torch.device:
    """The device a module computes on, also when its weights wait elsewhere (accelerate)."""
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


def is_offloaded(model: nn.Module) -> bool:
    """Whether a part of the weights is loaded from the processor or the disk when it is used."""
    return any(parameter.device.type == "meta" for parameter in model.parameters())


def weights_memory(
    memory: Mapping[int | str, int], working: int, cache_share: float
) -> dict[int | str, int]:
    """Memory for weights per device: what is free, less what a forward needs there.

    Each GPU computes its own layers: it needs the working memory of one layer, and of the KV cache
    the part of its layers, in proportion to its weights.

    Args:
        memory: free bytes per device, GPUs by number, as accelerate gives them.
        working: bytes of activations and logits of the longest document.
        cache_share: bytes of KV cache for each byte of weights.
    """
    return {
        device: int(max(0, free - working) / (1 + cache_share)) if isinstance(device, int) else free
        for device, free in memory.items()
    }


def device_map_options(working: int, cache_share: float) -> dict[str, Any]:
    """Loading options that spread a model over all GPUs, the processor and the disk."""
    from accelerate.utils import get_max_memory

    memory = weights_memory(get_max_memory(), working, cache_share)
    return {"device_map": "auto", "max_memory": memory}


def has_length_dependent_rope(config: Any) -> bool:
    """Whether frequencies differ between a text and its prefixes, and within a padded batch."""
    rope = getattr(config, "rope_parameters", None) or {}
    # one set for all layers, or one for each kind of layer
    sets = [rope, *(each for each in rope.values() if isinstance(each, dict))]
    return any(each.get("rope_type") in ("dynamic", "longrope") for each in sets)


def reset_frequencies(backbone: Any, device: torch.device, dtype: torch.dtype) -> None:
    """Dynamic RoPE remembers the longest input; a one-token input makes it forget.

    Args:
        backbone: a decoder of transformers.
        device: of its activations.
        dtype: of its weights.
    """
    rotary = getattr(backbone, "rotary_emb", None)
    if rotary is None:
        return
    nothing = torch.zeros(1, 1, 1, dtype=dtype, device=device)
    position = torch.zeros(1, 1, dtype=torch.long, device=device)
    # with several kinds of layers each has frequencies of its own
    for kind in rotary.rope_type if isinstance(rotary.rope_type, dict) else [None]:
        rotary(nothing, position, *([] if kind is None else [kind]))


def compile_layers(backbone: Any) -> None:
    """Compile what all layers share; attention has kernels of its own, and a cache inside."""
    for layer in backbone.layers:
        for child in layer.children():
            if not hasattr(child, "layer_idx"):
                child.compile(dynamic=True)
