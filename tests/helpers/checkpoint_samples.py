"""Checkpoints of other formats and in parts, and tiny GGUF files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from extract.checkpoints import Checkpoint
from extract.models.loading import Loading, load_model
from extract.tokenization import DocumentTokenizer, load_tokenizer
from warehouse.problem.models import ModelSpec

Tensors = dict[str, Any]


def spec_of(path: Path, kind: str = "local", pickled: bool = False, **changes: Any) -> ModelSpec:
    """A model of this folder or file; keyword arguments are what its entry says besides."""
    source = {"kind": kind, "path": str(path)} | ({"pickled": True} if pickled else {})
    entry = {"full_id": "tiny/one", "family": "tiny", "source": source}
    return ModelSpec.model_validate({**entry, **changes})


def loaded(
    folder: Path,
    dtype: str = "float32",
    device: str = "cpu",
    attention: str | None = None,
    **changes: Any,
) -> Any:
    """The model of a folder as an extraction loads it; `changes` are those of `spec_of`."""
    spec, checkpoint = spec_of(folder, **changes), Checkpoint(folder, "r")
    return load_model(Loading(spec, checkpoint, device, dtype, attention=attention))


def tokenizer_of(folder: Path, state: str = "") -> DocumentTokenizer:
    """The tokenizer of a folder; `state` names a later content of the same folder."""
    return load_tokenizer(Checkpoint(folder, f"{folder} {state}"), spec_of(folder))


def rewritten(
    folder: Path, source: Path, change: Callable[[Tensors], Tensors] = dict, **saved: Any
) -> Path:
    """A copy of a safetensors checkpoint with other tensors, in other files.

    Args:
        folder: where it is written.
        source: a checkpoint of one file.
        change: its tensors → the copy's.
        saved: arguments of `save_weights`.
    """
    from safetensors.torch import load_file

    shutil.copytree(source, folder)
    weights = change(load_file(folder / "model.safetensors"))
    (folder / "model.safetensors").unlink()
    save_weights(folder, weights, **saved)
    return folder


def save_weights(
    folder: Path,
    weights: Tensors,
    shards: int = 1,
    suffix: str = "safetensors",
    lost: str = "",
    **options: Any,
) -> None:
    """Write a checkpoint's weights.

    Args:
        folder: of the checkpoint.
        weights: name → tensor.
        shards: number of files; more than one have an index.
        suffix: `safetensors` or `bin`.
        lost: a tensor that the index names and no file has.
        options: of `torch.save`, or metadata of safetensors.
    """
    import torch
    from safetensors.torch import save_file

    stem = "model" if suffix == "safetensors" else "pytorch_model"
    weight_map: dict[str, str] = {}
    for number in range(shards):
        part = sorted(weights)[number::shards]
        of = f"-{number + 1:05d}-of-{shards:05d}" if shards > 1 else ""
        file = folder / f"{stem}{of}.{suffix}"
        held = {name: weights[name] for name in part if name != lost}
        if suffix == "safetensors":
            save_file(held, file, metadata={"format": "pt", **options})
        else:
            torch.save(held, file, **options)
        weight_map |= dict.fromkeys(part, file.name)
    if shards > 1:
        total = sum(tensor.nbytes for tensor in weights.values())
        index = {"metadata": {"total_size": total}, "weight_map": weight_map}
        (folder / f"{stem}.{suffix}.index.json").write_text(json.dumps(index))


def write_gguf(
    path: Path,
    architecture: str = "llama",
    words: int = 6,
    left_out: str = "",
    more: str = "",
    parts: int = 0,
    scaling: str = "",
    bos: bool | None = None,
    pre: str | None = "gpt-2",
    config: Any = None,
    tensors: Mapping[str, tuple[NDArray[Any], Any]] | None = None,
    names: Sequence[str] = (),
    merges: Sequence[str] = ("a b",),
) -> Path:
    """A GGUF file of one narrow layer, or of a given model.

    Args:
        path: the file.
        architecture: as GGUF names it.
        words: tokens of the vocabulary; the first are `<s>`, `</s>`, `a`, `b`, `ab`.
        left_out: a tensor that it lacks.
        more: a tensor that the architecture doesn't have.
        parts: of how many files it says to be one; 0 for nothing.
        scaling: what it says of RoPE.
        bos: whether texts begin with BOS; None says nothing.
        pre: type of its pre-tokenizer; None says nothing.
        config: a Llama's configuration, in place of the narrow one.
        tensors: name → its data and GGUF's number format, in place of random ones.
        names: the vocabulary, in place of words; the first two are special.
        merges: of its byte-pair encoding.
    """
    from gguf import GGUFWriter

    width, inner, heads = 8, 16, 2
    plain = ["<s>", "</s>", "a", "b", "ab", *(f"word{n}" for n in range(words - 5))]
    names = [*(names or plain)]
    writer = GGUFWriter(path, architecture)
    for name, value in {
        "block_count": 1, "context_length": 64, "embedding_length": width,
        "feed_forward_length": inner, "head_count": heads, "head_count_kv": heads,
        "layer_norm_rms_eps": 1e-5, "tokenizer_model": "gpt2", "token_list": names,
        "token_types": [3, 3] + [1] * (len(names) - 2), "token_merges": [*merges],
        "bos_token_id": 0, "eos_token_id": 1, "add_bos_token": bos, "tokenizer_pre": pre,
        **({} if config is None else {
            "block_count": config.num_hidden_layers,
            "context_length": config.max_position_embeddings,
            "embedding_length": config.hidden_size,
            "feed_forward_length": config.intermediate_size,
            "head_count": config.num_attention_heads,
            "head_count_kv": config.num_key_value_heads,
        }),
    }.items():  # fmt: skip
        if value is not None:
            getattr(writer, f"add_{name}")(value)
    if parts:
        writer.add_uint16("split.count", parts)
    if scaling:
        writer.add_string(f"{architecture}.rope.scaling.type", scaling)
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd": (words, width), "output": (words, width), "output_norm": (width,),
        "blk.0.attn_norm": (width,), "blk.0.ffn_norm": (width,),
        **{f"blk.0.attn_{part}": (width, width) for part in ("q", "k", "v", "output")},
        "blk.0.ffn_gate": (inner, width), "blk.0.ffn_up": (inner, width),
        "blk.0.ffn_down": (width, inner), **({more: (width // 2,)} if more else {}),
    }  # fmt: skip
    draw = np.random.default_rng(0)
    for name, (data, kind) in (tensors or {}).items():
        writer.add_tensor(name, data, raw_dtype=kind)
    for name, shape in {} if tensors else shapes.items():
        if name != left_out:
            tensor = draw.normal(size=shape).astype(np.float32)
            writer.add_tensor(name if "bias" in name else f"{name}.weight", tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
