"""The files of a model: found, fetched or converted, and the revision of what is in them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.problem.spec import ModelSpec
from warehouse.sources.place import Place


@dataclass(frozen=True)
class Checkpoint:
    """A folder that transformers can load, and the revision of what is in it."""

    folder: Path
    revision: str


def find_checkpoint(spec: ModelSpec, workspace: Workspace, problem: str) -> Checkpoint:
    """Locate (and fetch or convert where needed) the files of a model.

    GGUF weights are dequantised once into safetensors in the cache, keyed by their sha256.

    Raises:
        TokenmartError: files are missing and can't be fetched; the message says what to do.
    """
    found = spec.locate(Place(workspace, problem))
    if found.is_gguf:
        return _converted(found.path, found.revision, workspace)
    return Checkpoint(found.path, found.revision)


def _converted(gguf: Path, sha256: str, workspace: Workspace) -> Checkpoint:
    folder = workspace.cache / "checkpoints" / sha256
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if not (folder / "config.json").is_file():
            _convert(gguf, folder)
    return Checkpoint(folder, sha256)


def _convert(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    staging = folder.with_name(f".{folder.name}.{os.getpid()}")
    name = {"gguf_file": gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, **name)
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, dtype=torch.float32, **name)
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.hf_quantizer = None
    model.save_pretrained(staging)
    tokenizer.save_pretrained(staging)
    # config.json marks a whole conversion: the folder appears in one rename
    staging.rename(folder)


def trusts_remote_code(spec: ModelSpec) -> bool:
    """Whether the problem file allows code that comes with the model."""
    return bool(getattr(spec.source, "trust_remote_code", False))


@contextmanager
def load_errors(spec: ModelSpec) -> Iterator[None]:
    """Turn a loader's exception into one line that names the model.

    Raises:
        TokenmartError: what was raised inside.
    """
    try:
        yield
    except (OSError, ValueError, KeyError, ImportError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise TokenmartError(
            f"{spec.full_id}: can't be loaded ({first}); check source and trust_remote_code in "
            "the problem file"
        ) from error
