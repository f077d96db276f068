"""Files of experts on this machine: folders, and headers of safetensors without their weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from extract.checkpoints import find_checkpoint
from plugins.merging.problem import Expert, MergeProblem
from warehouse.errors import TokenmartError
from warehouse.files import sha256_file
from warehouse.paths import Workspace
from warehouse.problem.models import ModelSpec
from warehouse.sources.folders import ProblemFolders
from warehouse.sources.weights import SAFETENSORS, has_weights, is_mask_buffer, weight_files
from warehouse.strict_json import StrictJsonError, read_json

_LARGEST_CONFIG = 16 << 20
_FLOATS = ("F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2")

Shapes = dict[str, tuple[int, ...]]
"""Shape of each tensor by name."""


@dataclass(frozen=True)
class ExpertFiles:
    """An expert's files.

    Attributes:
        folder: checkpoint or adapter.
        shapes: of the tensors of this folder, without the base.
        tokenizer: sha256 of tokenizer.json; None without that file.
        adapter_type: peft's name of the kind of adapter; None for a checkpoint.
    """

    folder: Path
    shapes: Shapes
    tokenizer: str | None
    adapter_type: str | None = None


def expert_folder(expert: Expert, problem: MergeProblem, workspace: Workspace) -> Path:
    """An expert's checkpoint, downloaded and converted if needed; an adapter's folder unchanged.

    Raises:
        TokenmartError: its files are missing and can't be downloaded.
    """
    if expert.source is None:
        assert expert.adapter is not None
        return ProblemFolders(workspace, problem.name).resolve(expert.adapter)
    spec = ModelSpec(full_id=expert.name, source=expert.source, family=expert.base or expert.name)
    return find_checkpoint(spec, workspace, problem.name).folder


def read_expert(expert: Expert, problem: MergeProblem, workspace: Workspace) -> ExpertFiles:
    """Headers and configuration of an expert.

    Raises:
        TokenmartError: files are missing or damaged.
    """
    folder = expert_folder(expert, problem, workspace)
    shapes = read_headers(folder)
    tokenizer = folder / "tokenizer.json"
    return ExpertFiles(
        folder,
        shapes,
        sha256_file(tokenizer) if tokenizer.is_file() else None,
        None if expert.adapter is None else _adapter_type(folder / "adapter_config.json"),
    )


def _adapter_type(path: Path) -> str:
    try:
        config: dict[str, Any] = read_json(path, _LARGEST_CONFIG).content
        return str(config["peft_type"])
    except (StrictJsonError, KeyError, TypeError) as error:
        raise TokenmartError(f"{path}: {error}", code="bad-adapter", where=path) from error


def count_parameters(shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Number of stored parameters; tied weights are stored once."""
    return sum(map(math.prod, shapes.values()))


def read_headers(folder: Path) -> Shapes:
    """Shape of every tensor in a folder's safetensors files, by name.

    Raises:
        TokenmartError: files are missing, damaged or truncated, or weights are quantised (their
            number doesn't follow from their shapes).
    """
    from safetensors import SafetensorError, safe_open

    if not has_weights(folder, SAFETENSORS):
        raise TokenmartError(
            f"{folder}: .safetensors weights are missing", code="no-weights", where=folder
        )
    shapes: Shapes = {}
    for path in weight_files(folder, SAFETENSORS):
        try:
            with safe_open(path, framework="np") as file:
                parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
                headers = {n: (p.get_dtype(), tuple(p.get_shape())) for n, p in parts.items()}
        except (SafetensorError, OSError, ValueError) as error:
            raise TokenmartError(
                f"{path}: damaged or cut short ({error})", code="damaged-weights", where=path
            ) from error
        for name, (dtype, shape) in headers.items():
            if is_mask_buffer(dtype, shape):
                continue
            if dtype not in _FLOATS:
                raise TokenmartError(
                    f"{folder}: tensor {name!r} is stored as {dtype}: quantised weights can't be "
                    "counted or merged; take the model before it was quantised",
                    code="quantised-weights",
                    where=f"{folder}: {name}",
                )
            shapes[name] = shape
    return shapes
