"""The files of a model: found, fetched or converted, and the revision of what is in them."""

from __future__ import annotations

import json
import os
import re
import shutil
import zipfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, partial
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
    folder, convert = _conversion(spec, located, workspace)
    if convert is not None:
        with load_errors(spec, located.path) if located.is_gguf else nullcontext():
            _convert_once(folder, convert)
    return Checkpoint(folder, located.revision)


def checkpoint_here(spec: ModelSpec, folders: ProblemFolders) -> Checkpoint | None:
    """A model's files if they are here and converted; nothing is fetched or written.

    Raises:
        TokenmartError: they are not what was promised.
    """
    if spec.present(folders) is None:
        return None
    located = spec.locate(folders)
    folder, _ = _conversion(spec, located, folders.workspace)
    return Checkpoint(folder, located.revision) if folder.is_dir() else None


def _conversion(
    spec: ModelSpec, located: Located, workspace: Workspace
) -> tuple[Path, Callable[[Path], None] | None]:
    """The folder that transformers loads, and what writes it where it is a conversion."""
    if located.is_gguf:
        return (
            workspace.cache / "checkpoints" / f"{located.revision}-{CONVERSION}",
            partial(_convert_gguf, spec.full_id, located),
        )
    if located.is_pickled:
        files = sorted(path for path in located.path.iterdir() if path.is_file())
        key = files_sha256(files, workspace)
        return workspace.cache / "checkpoints" / key, partial(_convert_pickled, spec, files)
    return located.path, None


def _convert_once(folder: Path, convert: Callable[[Path], None]) -> None:
    """Make the folder of a conversion; it appears whole, in one rename."""
    with storage_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if not folder.is_dir():
            staging = folder.with_name(f".{folder.name}.{os.getpid()}")
            try:
                convert(staging)
                staging.rename(folder)
            finally:
                shutil.rmtree(staging, ignore_errors=True)


def _refuse_part(who: str, gguf: Path, reader: Any) -> None:
    """Stop at one part of a GGUF checkpoint: the others are not looked for.

    Raises:
        TokenmartError: the file is one of several.
    """
    stated = reader.get_field("split.count")
    named = re.search(r"-(\d{5})-of-(\d{5})\.gguf$", gguf.name)
    parts = int(stated.contents()) if stated is not None else int(named[2]) if named else 1
    if parts > 1:
        raise TokenmartError(
            f"{who}: {gguf} is one of {parts} parts; join them with `llama-gguf-split --merge "
            "FIRST_PART JOINED.gguf` and give the joined file",
            code="gguf-part",
            where=gguf,
        )


def _refuse_unread(who: str, reader: Any, model: Any) -> None:
    """Stop at what transformers leaves out of a GGUF file without a word.

    Raises:
        TokenmartError: the file has tensors that the model has no place for, or scales RoPE.
    """
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map

    config = model.config.get_text_config()
    kind = str(reader.get_field("general.architecture").contents())
    stated = reader.get_field(f"{kind}.rope.scaling.type")
    scaling = "none" if stated is None else str(stated.contents())
    rope = getattr(config, "rope_parameters", None) or {}
    unread = [f"RoPE scaling {scaling!r}"] if scaling != "none" and "factor" not in rope else []
    architecture = next((key for key, name in MODEL_ARCH_NAMES.items() if name == kind), None)
    if architecture is not None:
        names = get_tensor_name_map(architecture, config.num_hidden_layers)
        read = {names.get_name(name, (".weight", ".bias")) for name in model.state_dict()}
        tied = {"output.weight"} if config.tie_word_embeddings else set()
        more = [tensor for tensor in reader.tensors if tensor.name not in read | tied]
        stored = sum(int(t.n_elements) for t in reader.tensors if t.name not in tied)
        # names missing from this table may have been read anyway
        if stored > sum(parameter.numel() for parameter in model.parameters()):
            unread += [tensor.name for tensor in more]
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
    from unittest.mock import patch

    import torch
    from gguf import GGUFReader
    from transformers import AutoTokenizer

    from extract.models.weights import load_weights

    name = {"gguf_file": located.path.name}
    # transformers reads the file's metadata three times: minutes, with a large vocabulary
    reader = cache(GGUFReader)
    with patch("gguf.GGUFReader", reader), TemporaryDirectory() as alone:
        # a tokenizer.json beside the file would be read in place of the file's tokenizer
        gguf = Path(alone, located.path.name)
        gguf.symlink_to(located.path.resolve())
        # reads the file first: whatever is wrong in it becomes one error of transformers
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, **name)
        _refuse_part(who, located.path, reader(str(gguf)))
        if located.tokenizer is not None:
            tokenizer = AutoTokenizer.from_pretrained(located.tokenizer)
            read_as_published(tokenizer.backend_tokenizer, located.tokenizer)
        else:
            _tokenize_as_stated(tokenizer, reader(str(gguf)), who)
        model = load_weights(gguf.parent, who, dtype=torch.float32, **name).model
        _refuse_unread(who, reader(str(gguf)), model)
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.hf_quantizer = None
    model.save_pretrained(staging)
    tokenizer.save_pretrained(staging)


def _tokenize_as_stated(tokenizer: Any, reader: Any, who: str) -> None:
    """Set what transformers leaves out of a GGUF file's tokenizer: how it splits, and BOS.

    Raises:
        TokenmartError: the file names an unknown type.
    """

    def stated(key: str) -> Any:
        field = reader.get_field(f"tokenizer.ggml.{key}")
        return None if field is None else field.contents()

    kind, begins = stated("pre"), stated("add_bos_token")
    if stated("model") == "gpt2":
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
