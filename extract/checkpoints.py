"""The files of a model: found, fetched or converted, and the revision of what is in them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from warehouse.errors import TokenmartError
from warehouse.files import sha256_file, write_whole
from warehouse.paths import Workspace
from warehouse.problem.spec import GgufSource, HubSource, LocalSource, ModelSpec, PackageSource
from warehouse.sources.fetch import ensure_weights
from warehouse.sources.hub import ensure_hub_model

WEIGHT_SUFFIXES = (".safetensors", ".json", ".model")


@dataclass(frozen=True)
class Checkpoint:
    """A folder that transformers can load, and the revision of what is in it."""

    folder: Path
    revision: str


def source_path(source: LocalSource | GgufSource, workspace: Workspace) -> Path:
    """Where a model of the user's lies; relative paths are within the checkout."""
    return workspace.root / source.path.expanduser()


def find_checkpoint(spec: ModelSpec, workspace: Workspace, problem: str) -> Checkpoint:
    """Locate (and fetch or convert where needed) the files of a model.

    GGUF weights are dequantised once into safetensors in the cache, keyed by their sha256.

    Raises:
        TokenmartError: files are missing and can't be fetched; the message says what to do.
    """
    source = spec.source
    if isinstance(source, HubSource):
        folder, commit = ensure_hub_model(spec, workspace, problem)
        return Checkpoint(folder, commit)
    if isinstance(source, LocalSource):
        folder = source_path(source, workspace)
        if not (folder / "config.json").is_file():
            raise TokenmartError(
                f"{spec.full_id}: source.path {folder} holds no config.json; give a folder "
                "written by save_pretrained"
            )
        if not list(folder.glob("*.safetensors")):
            raise TokenmartError(
                f"{spec.full_id}: source.path {folder} holds no .safetensors weights; convert "
                "them with save_pretrained (pickled weights are not loaded)"
            )
        return Checkpoint(folder, _folder_sha256(folder, workspace))
    if isinstance(source, PackageSource):
        return _converted(ensure_weights(spec, workspace), source.sha256, workspace)
    assert isinstance(source, GgufSource)
    path = source_path(source, workspace)
    if not path.is_file():
        raise TokenmartError(f"{spec.full_id}: source.path {path}: no such file; correct the path")
    found = _file_sha256(path, workspace)
    if source.sha256 not in (None, found):
        raise TokenmartError(
            f"{spec.full_id}: {path}: sha256 is {found}, the problem file expects "
            f"{source.sha256}; fetch the file again or correct the problem file"
        )
    return _converted(path, found, workspace)


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


def _file_sha256(path: Path, workspace: Workspace) -> str:
    """sha256 of a file, remembered by size and modification time."""
    stat = path.stat()
    key = f"{path.resolve()}|{stat.st_size}|{stat.st_mtime_ns}"

    return remembered(key, lambda: sha256_file(path), workspace)


def remembered(key: str, compute: Callable[[], str], workspace: Workspace) -> str:
    """A hash from the cache's memory, computed and kept at its first use."""
    memory = workspace.cache / "hashes.json"
    try:
        known: dict[str, str] = json.loads(memory.read_text())
    except (FileNotFoundError, ValueError):
        known = {}
    if key not in known:
        known[key] = compute()
        write_whole(memory, json.dumps(known, indent=1))
    return known[key]


def _folder_sha256(folder: Path, workspace: Workspace) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.suffix in WEIGHT_SUFFIXES:
            digest.update(f"{path.name}:{_file_sha256(path, workspace)}\n".encode())
    return digest.hexdigest()


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
