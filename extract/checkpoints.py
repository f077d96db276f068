"""The files of a model: found, fetched or converted, and the revision of what is in them."""

from __future__ import annotations

import json
import os
import re
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click
from filelock import FileLock

from extract.failures import load_errors
from extract.gguf_tokenizers import BEGINS_WITH_BOS, split_as_stated
from warehouse.errors import TokenmartError, first_line
from warehouse.files import files_sha256, storage_errors
from warehouse.paths import Workspace
from warehouse.problem.models import ModelSpec
from warehouse.sources.configurations import GgufHeader, gguf_header
from warehouse.sources.folders import ProblemFolders
from warehouse.sources.tokenizer_files import read_as_published
from warehouse.sources.weights import PICKLED, Located, weight_files
from warehouse.terminal import listed

if TYPE_CHECKING:
    from torch import Tensor


CONVERSION = 3
"""Of GGUF files; 2 splits text as the file's type of pre-tokenizer does, 3 reads no other tokenizer
that lies in the folder of the file."""


@dataclass(frozen=True)
class Checkpoint:
    """A folder that transformers can load, and the revision of what is in it."""

    folder: Path
    revision: str


def find_checkpoint(
    spec: ModelSpec, workspace: Workspace, problem: str, argument: str = ""
) -> Checkpoint:
    """Locate (and fetch or convert where needed) the files of a model.

    GGUF and pickled weights are converted once into safetensors in the cache, keyed by the hash
    of the files. `argument` is the value of `--problem`, for messages.

    Raises:
        TokenmartError: files are missing and can't be fetched, or contain more than weights; the
            message states what to do.
        StorageError: the cache can't be written.
    """
    located = spec.locate(ProblemFolders(workspace, problem, argument=argument))
    folder = _loadable_folder(located, workspace)
    if folder != located.path:
        _convert_once(spec, located, folder)
    return Checkpoint(folder, located.revision)


def checkpoint_here(spec: ModelSpec, folders: ProblemFolders) -> Checkpoint | None:
    """A model's files if they are here and converted; nothing is fetched or written.

    Raises:
        TokenmartError: they have another checksum than the problem file or the lock file gives.
    """
    if spec.present(folders) is None:
        return None
    located = spec.locate(folders)
    folder = _loadable_folder(located, folders.workspace)
    return Checkpoint(folder, located.revision) if folder.is_dir() else None


def _loadable_folder(located: Located, workspace: Workspace) -> Path:
    """The folder that transformers loads: the model's own, or that of its conversion."""
    if located.is_gguf:
        return workspace.cache / "checkpoints" / f"{located.revision}-{CONVERSION}"
    if located.is_pickled:
        key = files_sha256(_files(located.path), workspace)
        return workspace.cache / "checkpoints" / key
    return located.path


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file())


def _convert_once(spec: ModelSpec, located: Located, folder: Path) -> None:
    """Write the folder of a conversion; it appears whole, in one rename."""
    with storage_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if folder.is_dir():
            return
        staging = folder.with_name(f".{folder.name}.{os.getpid()}")
        try:
            if located.is_gguf:
                with load_errors(spec, located.path):
                    _convert_gguf(spec.full_id, located, staging)
            else:
                _convert_pickled(spec, _files(located.path), staging)
            staging.rename(folder)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def _refuse_part(who: str, gguf: Path, header: GgufHeader) -> None:
    """Stop at one part of a GGUF checkpoint: the others are not looked for.

    Raises:
        TokenmartError: the file is one of several.
    """
    named = re.search(r"-\d{5}-of-(\d{5})\.gguf$", gguf.name)
    parts = header.fields.get("split.count", int(named[1]) if named else 1)
    if parts > 1:
        raise TokenmartError(
            f"{who}: {gguf} is one of {parts} parts; join them with `llama-gguf-split --merge "
            "FIRST_PART JOINED.gguf` and give the joined file",
            code="gguf-part",
            where=gguf,
        )


def _refuse_unread(who: str, header: GgufHeader, model: Any) -> None:
    """Stop at what transformers leaves out of a GGUF file without a message.

    Raises:
        TokenmartError: the file has tensors that the model has no place for, or scales RoPE.
    """
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map

    config = model.config.get_text_config()
    kind = header.fields["general.architecture"]
    scaling = header.fields.get(f"{kind}.rope.scaling.type", "none")
    rope = getattr(config, "rope_parameters", None) or {}
    unread = [f"RoPE scaling {scaling!r}"] if scaling != "none" and "factor" not in rope else []
    architecture = next((key for key, name in MODEL_ARCH_NAMES.items() if name == kind), None)
    if architecture is not None:
        names = get_tensor_name_map(architecture, config.num_hidden_layers)
        read = {names.get_name(name, (".weight", ".bias")) for name in model.state_dict()}
        tied = {"output.weight"} if config.tie_word_embeddings else set()
        stored = sum(size for name, size in header.tensors.items() if name not in tied)
        # names missing from this table may have been read anyway
        if stored > sum(parameter.numel() for parameter in model.parameters()):
            unread += [name for name in header.tensors if name not in read | tied]
    if unread:
        raise TokenmartError(
            f"{who}: transformers doesn't read {listed(unread)} of its GGUF file; give its "
            "safetensors checkpoint",
            code="gguf-unread",
            where=unread[0],
        )


def _convert_gguf(who: str, located: Located, staging: Path) -> None:
    """Write a GGUF checkpoint as safetensors in float32, with its tokenizer.

    Raises:
        TokenmartError: it is one part of several, has not all tensors of the model, or has others;
            or it splits text in an unknown way.
    """
    import torch
    from transformers import AutoTokenizer

    from extract.models.weights import load_weights

    name = {"gguf_file": located.path.name}
    with _one_reader_of_gguf(), TemporaryDirectory() as alone:
        # a tokenizer.json beside the file would be read in place of the file's tokenizer
        gguf = Path(alone, located.path.name)
        gguf.symlink_to(located.path.resolve())
        # reads the file first: whatever is wrong in it becomes one error of transformers
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, **name)
        header = gguf_header(gguf)
        assert header is not None, "transformers has read it"
        _refuse_part(who, located.path, header)
        if located.tokenizer is not None:
            tokenizer = AutoTokenizer.from_pretrained(located.tokenizer)
            read_as_published(tokenizer.backend_tokenizer, located.tokenizer)
        else:
            _tokenize_as_stated(tokenizer, header, who)
        model = load_weights(gguf.parent, who, dtype=torch.float32, **name).model
        _refuse_unread(who, header, model)
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.hf_quantizer = None
    model.save_pretrained(staging)
    tokenizer.save_pretrained(staging)


@contextmanager
def _one_reader_of_gguf() -> Iterator[None]:
    """Let transformers share a file's reader: it makes three, 15 CPU seconds each for Gemma's."""
    import gguf

    original = gguf.GGUFReader
    gguf.GGUFReader = cache(original)
    try:
        yield
    finally:
        gguf.GGUFReader = original


def _tokenize_as_stated(tokenizer: Any, header: GgufHeader, who: str) -> None:
    """Set what transformers leaves out of a GGUF file's tokenizer: how it splits, and BOS.

    Raises:
        TokenmartError: the file names an unknown type.
    """
    kind = header.fields.get("tokenizer.ggml.pre")
    begins = header.fields.get("tokenizer.ggml.add_bos_token")
    if header.fields.get("tokenizer.ggml.model") == "gpt2":
        split_as_stated(tokenizer, kind, who)
        if begins is None and kind in BEGINS_WITH_BOS:
            begins = True
    if begins is not None:
        begin_texts(tokenizer, with_bos=bool(begins))


def begin_texts(tokenizer: Any, *, with_bos: bool) -> None:
    """Make a tokenizer put BOS before a text, or not: versions of transformers ignore the file's
    setting, each for other models.
    """
    from tokenizers.processors import TemplateProcessing

    bos = tokenizer.bos_token
    if bos is None or with_bos == (tokenizer("a").input_ids[:1] == [tokenizer.bos_token_id]):
        return
    begin = [bos] if with_bos else []
    special = [(bos, tokenizer.bos_token_id)] if with_bos else []
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=[*begin, "$A"], pair=[*begin, "$A", *begin, "$B:1"], special_tokens=special
    )


def _convert_pickled(spec: ModelSpec, files: list[Path], staging: Path) -> None:
    """Write the same folder with safetensors in place of pickled weights, file by file."""
    from safetensors.torch import save_file

    shards = weight_files(files[0].parent, PICKLED)
    click.echo(f"converting the pickled weights of {spec.full_id} to safetensors, once", err=True)
    with storage_errors(staging):
        staging.mkdir()
        for file in files:
            if file.suffix != ".bin" and not file.name.endswith(".bin.index.json"):
                shutil.copyfile(file, staging / file.name)
    weight_map: dict[str, str] = {}
    size = 0
    for number, shard in enumerate(shards, start=1):
        name = "model.safetensors"
        if len(shards) > 1:
            name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        tensors = _unpickle(spec, shard)
        with storage_errors(staging / name):
            save_file(tensors, staging / name, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(tensors, name)
        size += sum(tensor.nbytes for tensor in tensors.values())
    if len(shards) > 1:
        index = {"metadata": {"total_size": size}, "weight_map": weight_map}
        with storage_errors(staging):
            (staging / "model.safetensors.index.json").write_text(json.dumps(index), "utf-8")


def _unpickle(spec: ModelSpec, file: Path) -> dict[str, Tensor]:
    """The tensors of a pickled file; nothing else in it is read, and nothing executed.

    Raises:
        TokenmartError: it is damaged, or contains something other than tensors.
    """
    import torch

    what = f"{spec.full_id}: {file.name}"
    try:
        # files of torch before 1.6 are no zip archives and can't be mapped
        content: Any = torch.load(
            file, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(file)
        )
    except Exception as error:  # a damaged pickle raises whatever its bytes lead to
        # torch first explains how to load it regardless; the cause is further down
        met = re.search(r"Unsupported (?:global: GLOBAL )?\S+(?: \d+)?", str(error))
        first = (met[0] if met else first_line(error))[:120].rstrip(". ")
        raise TokenmartError(
            f"{what}: refused, it is damaged or contains more than tensors ({first}); "
            "fetch it again, or ask its publisher for safetensors",
            code="not-only-tensors",
            where=file,
        ) from None
    if not isinstance(content, dict) or not all(
        isinstance(name, str) and isinstance(tensor, torch.Tensor)
        for name, tensor in content.items()
    ):
        raise TokenmartError(
            f"{what}: refused, not a table of named tensors; ask its publisher for safetensors",
            code="not-only-tensors",
            where=file,
        )
    tensors, seen = {}, set()
    for name, tensor in content.items():
        place = tensor.untyped_storage().data_ptr()
        # safetensors takes each stretch of memory once
        tensors[name] = tensor.clone() if place in seen else tensor.contiguous()
        seen.add(place)
    return tensors


def trusts_remote_code(spec: ModelSpec) -> bool:
    """Whether the problem file allows code that comes with the model."""
    return bool(getattr(spec.source, "trust_remote_code", False))
