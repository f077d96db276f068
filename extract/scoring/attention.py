"""Which kernel computes attention: fused ones only on GPUs, named for the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from extract.failures import NoKernelError, has_no_plan
from warehouse.errors import first_line

FUSED = (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION)
"""In the order of preference. Flash supports no masks, so packed suffixes go to cuDNN or the
memory-efficient kernel. The math path is left out: it stores heads × length² scores, 128 GiB for 32
heads at 32,768 tokens in float32 (computed)."""

HOPPER = (9, 0)
"""Compute capability from which cuDNN's attention is the fastest."""

Kernels = tuple[SDPBackend, ...]

REPEATED_HEADS = "sdpa_repeated_heads"
SDPA = ("sdpa", REPEATED_HEADS)


def _with_repeated_heads(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    """SDPA with key and value heads repeated, not shared by the kernel (grouped queries)."""
    groups = int(getattr(module, "num_key_value_groups", 1))
    # without the number of groups transformers leaves the heads as they are
    plain = SimpleNamespace(is_causal=getattr(module, "is_causal", True))
    key, value = repeat_kv(key, groups), repeat_kv(value, groups)
    attended: tuple[Tensor, None] = sdpa_attention_forward(
        plain, query, key, value, attention_mask, **options
    )
    return attended


AttentionInterface.register(REPEATED_HEADS, _with_repeated_heads)
AttentionMaskInterface.register(REPEATED_HEADS, sdpa_mask)


def caps_attention(config: Any) -> bool:
    """Whether attention scores are capped, as in Gemma 2: SDPA doesn't compute that.

    transformers 5.20 and before chooses SDPA all the same, which leaves the cap out.
    """
    return getattr(config.get_text_config(), "attn_logit_softcapping", None) is not None


def repeat_heads_where_needed(config: Any, device: torch.device, dtype: torch.dtype) -> None:
    """Keep float32 models with grouped queries off the math path on GPUs.

    There only the memory-efficient kernel supports float32, and it requires as many key heads as
    query heads; asked to share them, SDPA falls back to the math path without a warning
    (github.com/pytorch/pytorch/pull/181528).
    """
    heads = getattr(config, "num_attention_heads", None)
    grouped = getattr(config, "num_key_value_heads", None) not in (None, heads)
    if (
        device.type == "cuda"
        and dtype == torch.float32
        and grouped
        and config._attn_implementation == "sdpa"
    ):
        config._attn_implementation = REPEATED_HEADS


def preferred_kernels(device: torch.device) -> Kernels:
    """Fused kernels in the order of preference: cuDNN's first where it is the fastest.

    The engine's self-check decides whether it is used.
    """
    if device.type != "cuda" or torch.version.hip:
        return FUSED
    if torch.cuda.get_device_capability(device) < HOPPER:
        return FUSED
    return (SDPBackend.CUDNN_ATTENTION, *without_cudnn(FUSED))


def without_cudnn(kernels: Kernels) -> Kernels:
    """The same kernels but cuDNN's."""
    return tuple(kernel for kernel in kernels if kernel is not SDPBackend.CUDNN_ATTENTION)


@contextmanager
def fused_kernels(device: torch.device, kernels: Kernels = FUSED) -> Iterator[None]:
    """On a GPU let SDPA use fused kernels only; processors have one of their own.

    Raises:
        NoKernelError: no fused kernel supports what is computed inside.
    """
    if device.type != "cuda":
        yield
        return
    try:
        with sdpa_kernel(list(kernels), set_priority=True):
            yield
    except RuntimeError as error:
        if not has_no_plan(error):
            raise
        raise NoKernelError(
            f"no fused attention kernel (flash, cuDNN, memory-efficient) takes this model here "
            f"({first_line(error, 80)}); use --dtype bfloat16, or --attention eager for short "
            "documents"
        ) from None


@contextmanager
def with_masks(config: Any) -> Iterator[None]:
    """SDPA while suffixes run: FlashAttention, good for whole texts, supports no masks.

    Eager attention where scores are capped.
    """
    chosen = config._attn_implementation
    if chosen not in (*SDPA, "eager"):
        config._attn_implementation = "eager" if caps_attention(config) else "sdpa"
    try:
        yield
    finally:
        config._attn_implementation = chosen


def describe(
    config: Any, device: torch.device, dtype: torch.dtype, kernels: Kernels = FUSED
) -> str:
    """Implementation and, for SDPA, the kernel used for a whole text: `sdpa/flash`, `eager` ….

    Args:
        config: of the model's text part.
        device, dtype: of keys and queries.
        kernels: fused ones that it may take, in the order of preference.
    """
    chosen = str(getattr(config, "_attn_implementation", "unknown"))
    heads = getattr(config, "num_attention_heads", None)
    if heads is None or chosen not in SDPA or device.type not in ("cpu", "cuda"):
        return chosen
    shared = (getattr(config, "num_key_value_heads", None) or heads) if chosen == "sdpa" else heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    query = torch.zeros(1, heads, 16, width, device=device, dtype=dtype)
    key = torch.zeros(1, shared, 16, width, device=device, dtype=dtype)
    with fused_kernels(device, kernels):
        kernel = torch._fused_sdp_choice(
            query, key, key, None, 0.0, True, enable_gqa=shared != heads
        )
    name = SDPBackend(kernel).name.removesuffix("_ATTENTION").lower()
    return f"sdpa/{name}"
