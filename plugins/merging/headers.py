"""Read the headers of safetensors files, without reading weights.

Format: 8 bytes of header length (little endian), the header as JSON, the tensors' bytes.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warehouse.errors import TokenmartError
from warehouse.sources.checkpoint_files import (
    SAFETENSORS,
    has_weights,
    is_mask_buffer,
    refuse_missing_shards,
)

_LARGEST_HEADER = 100_000_000
"""Maximum size of a header in bytes, the limit of the format."""
_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1}
_AGAIN = "fetch it again"


@dataclass(frozen=True)
class Tensor:
    """A tensor of floats: its data type in the file, and its shape."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def parameters(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


def count_parameters(tensors: Mapping[str, Tensor]) -> int:
    """Number of stored parameters; tied weights are stored once."""
    return sum(tensor.parameters for tensor in tensors.values())


def read_headers(folder: Path) -> dict[str, Tensor]:
    """Every tensor of a folder's safetensors files, by name.

    Raises:
        TokenmartError: files are missing, damaged or truncated, a tensor occurs twice, or weights
            are quantised (their number doesn't follow from their shapes).
    """
    refuse_missing_shards(str(folder), folder, SAFETENSORS)
    if not has_weights(folder, SAFETENSORS):
        raise TokenmartError(
            f"{folder}: contains no .safetensors weights; convert them with save_pretrained"
        )
    found: dict[str, Tensor] = {}
    for path in sorted(folder.glob(SAFETENSORS)):
        for name, tensor in _read(path).items():
            if name in found:
                raise TokenmartError(f"{path}: tensor {name!r} is in another file, too; {_AGAIN}")
            found[name] = tensor
    return found


def _read(path: Path) -> dict[str, Tensor]:
    size = path.stat().st_size
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > min(_LARGEST_HEADER, size - 8):
                raise TokenmartError(
                    f"{path}: cut short or damaged (a header of {length:,} bytes in a file of "
                    f"{size:,}); {_AGAIN}"
                )
            header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        tensors = {
            str(name): _tensor(path, str(name), each)
            for name, each in header.items()
            if not is_mask_buffer(str(each["dtype"]), each["shape"])
        }
        end = max((each["data_offsets"][1] for each in header.values()), default=0)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, struct.error,
            RecursionError) as error:  # fmt: skip
        raise TokenmartError(f"{path}: not a safetensors file; {_AGAIN}") from error
    if 8 + length + end != size:
        raise TokenmartError(
            f"{path}: cut short or damaged ({size:,} bytes, in its header {8 + length + end:,}); "
            f"{_AGAIN}"
        )
    return tensors


def _tensor(path: Path, name: str, said: Mapping[str, Any]) -> Tensor:
    shape = tuple(int(length) for length in said["shape"])
    tensor = Tensor(str(said["dtype"]), shape)
    if tensor.dtype not in _BYTES:
        raise TokenmartError(
            f"{path}: tensor {name!r} is stored as {tensor.dtype}: quantised weights can't be "
            "counted or merged; take the model before it was quantised"
        )
    start, end = said["data_offsets"]
    if min(shape, default=0) < 0 or end - start != tensor.parameters * _BYTES[tensor.dtype]:
        raise TokenmartError(f"{path}: tensor {name!r} has another size than its shape; {_AGAIN}")
    return tensor
