"""Names, shapes and data types of the tensors in safetensors files, without their weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from warehouse.errors import TokenmartError
from warehouse.sources.checkpoint_files import (
    SAFETENSORS,
    has_weights,
    is_mask_buffer,
    refuse_missing_shards,
)

_FLOATS = ("F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2")


@dataclass(frozen=True)
class Tensor:
    """A tensor of floats: its data type in the file, and its shape."""

    dtype: str
    shape: tuple[int, ...]


def count_parameters(tensors: Mapping[str, Tensor]) -> int:
    """Number of stored parameters; tied weights are stored once."""
    return sum(math.prod(tensor.shape) for tensor in tensors.values())


def read_headers(folder: Path) -> dict[str, Tensor]:
    """Every tensor of a folder's safetensors files, by name.

    Raises:
        TokenmartError: files are missing, damaged or truncated, or weights are quantised (their
            number doesn't follow from their shapes).
    """
    from safetensors import SafetensorError, safe_open

    refuse_missing_shards(str(folder), folder, SAFETENSORS)
    if not has_weights(folder, SAFETENSORS):
        raise TokenmartError(
            f"{folder}: contains no .safetensors weights; convert them with save_pretrained",
            code="no-weights",
            where=folder,
        )
    found: dict[str, Tensor] = {}
    for path in sorted(folder.glob(SAFETENSORS)):
        try:
            with safe_open(path, framework="np") as file:
                for name in file.keys():  # noqa: SIM118
                    part = file.get_slice(name)
                    found[name] = Tensor(part.get_dtype(), tuple(part.get_shape()))
        except (SafetensorError, OSError, ValueError) as error:
            raise TokenmartError(
                f"{path}: damaged or cut short ({error}); fetch it again",
                code="damaged-weights",
                where=path,
            ) from error
    found = {name: t for name, t in found.items() if not is_mask_buffer(t.dtype, t.shape)}
    for name, tensor in found.items():
        if tensor.dtype not in _FLOATS:
            raise TokenmartError(
                f"{folder}: tensor {name!r} is stored as {tensor.dtype}: quantised weights can't "
                "be counted or merged; take the model before it was quantised",
                code="quantised-weights",
                where=f"{folder}: {name}",
            )
    return found
