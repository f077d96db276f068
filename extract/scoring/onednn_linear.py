"""Float32 linear layers through oneDNN on x86 processors.

PyTorch sends float32 matrix products to MKL, which runs at a fraction of its speed on
processors of other makers; oneDNN, which ships inside PyTorch, uses AVX-512 on all of them.
Weights are packed once. Results differ from MKL's in the last bits only, and the engine's
self-check at load compares against the untouched model.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

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

    def forward(self, inputs: Tensor) -> Tensor:
        """Same shapes as `nn.Linear`."""
        return packed_product(inputs, self.packed, self.bias)


def pack_linear_layers(module: nn.Module) -> int:
    """Replace every `nn.Linear` below `module` whose weight is in memory; returns how many."""
    replaced = 0
    for name, child in module.named_children():
        if type(child) is nn.Linear and child.weight.device.type == "cpu":
            setattr(module, name, PackedLinear(child))
            replaced += 1
        elif type(child) is not nn.Linear:
            replaced += pack_linear_layers(child)
    return replaced
