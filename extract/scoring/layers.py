"""Layers of a loaded model: exact float32, packed products, rotary frequencies."""

from __future__ import annotations

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


def has_length_dependent_rope(config: Any) -> bool:
    """Whether frequencies differ between a text and its prefixes, and within a padded batch."""
    rope = getattr(config, "rope_parameters", None) or {}
    # one set for all layers, or one for each kind of layer
    sets = [rope, *(value for value in rope.values() if isinstance(value, dict))]
    return any(parameters.get("rope_type") in ("dynamic", "longrope") for parameters in sets)


def reset_frequencies(backbone: Any, device: torch.device, dtype: torch.dtype) -> None:
    """Reset dynamic RoPE, which keeps the frequencies of the longest input so far."""
    rotary = getattr(backbone, "rotary_emb", None)
    if rotary is None:
        return
    # an input of one token resets them
    nothing = torch.zeros(1, 1, 1, dtype=dtype, device=device)
    position = torch.zeros(1, 1, dtype=torch.long, device=device)
    # with several kinds of layers each has frequencies of its own
    for kind in rotary.rope_type if isinstance(rotary.rope_type, dict) else [None]:
        rotary(nothing, position, *([] if kind is None else [kind]))


_EXPECTED_ROWS = 512


def onednn_available(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether packed oneDNN products can replace float32 linear layers here."""
    return (
        device.type == "cpu"
        and dtype == torch.float32
        and bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and torch.cpu._is_avx512_supported()
    )


def pack(weight: Tensor) -> Tensor:
    """Pack a float32 weight of shape (out, in) for oneDNN."""
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _EXPECTED_ROWS)
    return packed


def packed_product(inputs: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    """`inputs @ weight.T + bias` with a packed weight; inputs of shape (…, in)."""
    product: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, packed, bias, "none", [], "")
    return product


class PackedLinear(nn.Module):
    """A drop-in for `nn.Linear` in inference, float32 on CPU."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.packed = pack(linear.weight.detach())
        self.bias = None if linear.bias is None else linear.bias.detach()
        self.out_features = linear.out_features

    @property
    def weight(self) -> Tensor:
        """The weight, shape (out, in), unpacked again: some architectures read it themselves."""
        return self.packed.to_dense()

    def forward(self, inputs: Tensor) -> Tensor:
        """Same shapes as `nn.Linear`."""
        return packed_product(inputs, self.packed, self.bias)


def pack_linear_layers(module: nn.Module) -> None:
    """Replace every `nn.Linear` below `module` whose weight is in memory."""
    for name, child in module.named_children():
        if type(child) is not nn.Linear:
            pack_linear_layers(child)
        elif child.weight.device.type == "cpu":
            setattr(module, name, PackedLinear(child))
