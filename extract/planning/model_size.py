"""Size of a model, from the problem file or its own files; weights are never read."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from warehouse.paths import Workspace
from warehouse.problem.models import ModelShape, ModelSpec
from warehouse.sources.checkpoint_files import PICKLED, SAFETENSORS, gguf_header
from warehouse.sources.place import Place

_LARGEST_CONFIG = 16 << 20
_LARGEST_HEADER = 100_000_000
"""Bytes; the second is the safetensors format's own limit."""
_FLOATS = {"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"}


@dataclass(frozen=True)
class ModelSize:
    """Sizes of a model: its number of weights, and the shape that memory follows from.

    `assumed` says that only the number of weights is known; the shape is that of a typical
    decoder with as many.
    """

    parameters: int
    shape: ModelShape
    assumed: bool = False


UNKNOWN_SIZE = ModelSize(1, ModelShape.assumed(1), assumed=True)
"""Placeholder for an unknown size."""


def model_size(
    spec: ModelSpec, workspace: Workspace, folder: Path | None = None, problem: str = ""
) -> ModelSize | None:
    """The size of a model, or None if unknown.

    Its own files are asked first, as far as they are here: config.json of a folder and the headers
    of its safetensors, the header of a GGUF file (a package's, too). Then the problem file: `shape`
    and `parameters`, or `parameters` alone. At last the size of its weight files, at two bytes a
    weight.

    Args:
        spec: the model of the problem file.
        workspace: where its files are.
        folder: its checkpoint, where it is here already.
        problem: name of the problem, whose lock file has the commit of a repository.
    """
    path = folder or spec.present(Place(workspace, problem))
    shape, counted, weights = _of_files(path) if path else (None, None, None)
    if shape is not None:
        return ModelSize(_near(spec.parameters, counted or count_parameters(shape)), shape)
    if spec.shape is not None:
        parameters = spec.parameters or counted or count_parameters(spec.shape)
        return ModelSize(parameters, spec.shape)
    known = spec.parameters or counted or weights
    return None if known is None else ModelSize(known, ModelShape.assumed(known), assumed=True)


def _of_files(path: Path) -> tuple[ModelShape | None, int | None, int | None]:
    """Shape, number of weights, and that number guessed from the size of the files."""
    if path.is_file():
        return *_of_gguf(path), None
    safe = list(path.glob(SAFETENSORS))
    bytes_ = sum(file.stat().st_size for file in safe or path.glob(PICKLED))
    return _of_config(path), _of_headers(safe), bytes_ // 2 or None


def _of_headers(files: Iterable[Path]) -> int | None:
    """Number of weights in safetensors files; None where they are quantised or can't be read."""
    count = 0
    try:
        for file in files:
            with file.open("rb") as stream:
                (size,) = struct.unpack("<Q", stream.read(8))
                if size > _LARGEST_HEADER:
                    return None
                header = json.loads(stream.read(size))
            header.pop("__metadata__", None)
            if any(tensor["dtype"] not in _FLOATS for tensor in header.values()):
                return None
            count += sum(math.prod(tensor["shape"]) for tensor in header.values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error, RecursionError):
        return None
    return count or None


def _near(told: int | None, counted: int) -> int:
    """The published number of weights, unless the configuration is of another model."""
    return told if told is not None and abs(told - counted) < 0.02 * counted else counted


def count_parameters(shape: ModelShape) -> int:
    """Weights of a gated decoder without biases and norms; within 1% of the real number."""
    return linear_parameters(shape) + shape.vocabulary * shape.width * (1 if shape.tied else 2)


def linear_parameters(shape: ModelShape) -> int:
    """Weights of the linear layers of a gated decoder."""
    attention = 2 * shape.width * (shape.query_width + shape.kv_width)
    return shape.layers * (attention + 3 * shape.width * shape.inner)


def _of_config(folder: Path) -> ModelShape | None:
    try:
        with (folder / "config.json").open("rb") as file:
            config = json.loads(file.read(_LARGEST_CONFIG))
    except (OSError, ValueError, RecursionError):
        return None
    return ModelShape.of_config(config) if isinstance(config, dict) else None


def _of_gguf(path: Path) -> tuple[ModelShape | None, int | None]:
    try:
        stamp = path.stat().st_mtime_ns
    except OSError:
        return None, None
    return _read_gguf(path, stamp)


@lru_cache(maxsize=64)
def _read_gguf(path: Path, stamp: int) -> tuple[ModelShape | None, int | None]:
    """Shape and number of weights from a GGUF file's header, as far as its form is known."""
    reader = gguf_header(path)
    if reader is None:
        return None, None
    fields = reader.fields

    def value(name: str) -> Any:
        return fields[name].contents() if name in fields else None

    kind = value("general.architecture")
    of: Callable[[str], Any] = lambda name: value(f"{kind}.{name}")  # noqa: E731
    sizes = {tensor.name: tensor for tensor in reader.tensors}
    heads, inner = _largest(of("attention.head_count")), _largest(of("feed_forward_length"))
    try:
        shape = ModelShape(
            kind=str(kind),
            layers=of("block_count"),
            width=of("embedding_length"),
            inner=inner,
            heads=heads,
            kv_heads=_largest(of("attention.head_count_kv")) or heads,
            # dimensions are stored innermost first: (width, vocabulary)
            vocabulary=int(sizes["token_embd.weight"].shape[-1]),
            head_width=of("attention.key_length"),
            window=of("attention.sliding_window") or None,
            tied="output.weight" not in sizes,
        )
    except (KeyError, IndexError, ValueError, TypeError):
        shape = None
    return shape, sum(int(tensor.n_elements) for tensor in sizes.values()) or None


def _largest(value: Any) -> Any:
    """Of a value that may be given for each layer, the largest."""
    return max(value) if isinstance(value, list) else value
