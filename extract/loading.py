"""From a model of the problem file to a tokenizer and a model in memory."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from extract.probes import Ids
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.problem.spec import ModelSpec
from warehouse.sources.hashes import remembered
from warehouse.sources.place import Place


@dataclass(frozen=True)
class Checkpoint:
    """A folder that transformers can load, and the revision of what is in it."""

    folder: Path
    revision: str


@dataclass(frozen=True)
class Encoded:
    """A document in one model's tokens: ids and character spans, each of shape (n,)."""

    ids: Ids
    char_start: NDArray[np.int32]
    char_end: NDArray[np.int32]


class DocumentTokenizer:
    """A tokenizer with character spans and an explicit BOS policy.

    Raises:
        TokenmartError: the tokenizer gives no character spans, or a BOS is asked for and
            it has none.
    """

    def __init__(self, tokenizer: Any, spec: ModelSpec) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise TokenmartError(
                f"{spec.full_id}: its tokenizer gives no character spans (not a 'fast' one); "
                "convert it with AutoTokenizer.from_pretrained(…, use_fast=True).save_pretrained"
                " and point source to that folder"
            )
        self._tokenizer = tokenizer
        self.bos = self._bos(spec)
        described = tokenizer.backend_tokenizer.to_str() + f"|bos={self.bos}"
        self.sha256 = hashlib.sha256(described.encode()).hexdigest()

    def _bos(self, spec: ModelSpec) -> int | None:
        bos = self._tokenizer.bos_token_id
        if spec.bos == "never":
            return None
        if spec.bos == "always":
            if bos is None:
                raise TokenmartError(
                    f"{spec.full_id}: bos: always, but its tokenizer has no BOS token; use "
                    "bos: never or bos: tokenizer"
                )
            return int(bos)
        ids = self._tokenizer("a").input_ids
        return int(bos) if bos is not None and ids and ids[0] == bos else None

    def encode(self, text: str) -> Encoded:
        """Tokens of a text, without special tokens; spans are in Unicode code points."""
        batch = self._tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        spans = np.asarray(batch["offset_mapping"], dtype=np.int32).reshape(-1, 2)
        return Encoded(np.asarray(batch["input_ids"], dtype=np.int32), spans[:, 0], spans[:, 1])


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

    _quiet()
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


def _quiet() -> None:
    """The extraction has a progress bar of its own."""
    from transformers.utils import logging

    logging.disable_progress_bar()


def load_tokenizer(checkpoint: Checkpoint, spec: ModelSpec) -> DocumentTokenizer:
    """Load a checkpoint's tokenizer; variants of one checkpoint share it."""
    trusted = bool(getattr(spec.source, "trust_remote_code", False))
    with _load_errors(spec):
        tokenizer = _tokenizer(checkpoint, trusted)
    return DocumentTokenizer(tokenizer, spec)


def tokenizer_fingerprint(checkpoint: Checkpoint, spec: ModelSpec, workspace: Workspace) -> str:
    """sha256 of a checkpoint's tokenizer and BOS policy, without loading it a second time."""
    key = f"tokenizer|{checkpoint.revision}|bos={spec.bos}|transformers={version('transformers')}"
    return remembered(key, lambda: load_tokenizer(checkpoint, spec).sha256, workspace)


@lru_cache(maxsize=2)
def _tokenizer(checkpoint: Checkpoint, trust_remote_code: bool) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(checkpoint.folder, trust_remote_code=trust_remote_code)


def load_config(checkpoint: Checkpoint, spec: ModelSpec) -> Any:
    """The model's configuration with interventions applied."""
    from transformers import AutoConfig

    from extract.interventions import configure

    trusted = getattr(spec.source, "trust_remote_code", False)
    with _load_errors(spec):
        config = AutoConfig.from_pretrained(checkpoint.folder, trust_remote_code=trusted)
    configure(config, spec)
    return config


def context_limit(config: Any, spec: ModelSpec) -> int | None:
    """Longest input the model is meant for: the problem file's word, else its configuration."""
    if spec.context is not None:
        return spec.context
    limit = getattr(config.get_text_config(), "max_position_embeddings", None)
    return None if limit is None else int(limit)


def load_model(
    checkpoint: Checkpoint,
    spec: ModelSpec,
    *,
    device: str,
    dtype: str,
    attention: str | None = None,
    room: int = 0,
) -> Any:
    """Load a model in eval mode, with its interventions, on a device.

    Args:
        checkpoint: from `find_checkpoint`.
        spec: the model of the problem file.
        device: `cpu`, `cuda`, `cuda:1` …, or `auto-map` for accelerate's device map.
        dtype: a torch dtype's name.
        attention: attention implementation; None leaves the choice to transformers.
        room: bytes that a device map leaves free on each GPU for the forward.

    Raises:
        TokenmartError: it can't be loaded, or its interventions can't act on offloaded weights.
    """
    import torch
    from transformers import AutoModelForCausalLM

    from extract import interventions
    from extract.placement import device_map_options

    _quiet()
    if interventions.needs_masks(spec):
        attention = "sdpa"
    options = device_map_options(room) if device == "auto-map" else {}
    if attention is not None:
        options["attn_implementation"] = attention
    with _load_errors(spec):
        model = AutoModelForCausalLM.from_pretrained(
            checkpoint.folder,
            config=load_config(checkpoint, spec),
            dtype=getattr(torch, dtype),
            trust_remote_code=getattr(spec.source, "trust_remote_code", False),
            use_safetensors=True,
            **options,
        )
    if device != "auto-map":
        model.to(device)
    model.eval()
    interventions.apply(model, spec)
    return model


class _load_errors:
    """Turn a loader's exception into one line that names the model."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, (OSError, ValueError, KeyError, ImportError)):
            first = (
                str(error).strip().splitlines()[0][:200] if str(error).strip() else kind.__name__
            )
            raise TokenmartError(
                f"{self.spec.full_id}: can't be loaded ({first}); check source and "
                "trust_remote_code in the problem file"
            ) from error
