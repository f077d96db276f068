"""Weights of other formats: converted once where allowed, refused if more than tensors."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf import GGUFWriter
from safetensors.torch import load_file
from transformers import AutoTokenizer

from extract.backends.backend import Loading
from extract.checkpoints import Checkpoint, begin_texts, find_checkpoint
from extract.models.loading import load_model
from extract.tokenization import load_tokenizer
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.problem.models import ModelSpec

Write = Callable[..., tuple[ModelSpec, dict[str, torch.Tensor]]]


@pytest.fixture
def pickled(workspace: Workspace, tiny_checkpoint: Callable[..., Path]) -> Write:
    """A function that writes a tiny model with `.bin` weights, in one file or two."""

    def write(shards: int = 1, legacy: bool = False) -> tuple[ModelSpec, dict[str, torch.Tensor]]:
        folder = workspace.root / f"pickled-{shards}-{legacy}"
        shutil.copytree(tiny_checkpoint(), folder)
        weights = load_file(folder / "model.safetensors")
        (folder / "model.safetensors").unlink()
        names = list(weights)
        parts = [names[number::shards] for number in range(shards)]
        weight_map = {}
        for number, part in enumerate(parts, start=1):
            name = f"pytorch_model-{number:05d}-of-{shards:05d}.bin"
            name = "pytorch_model.bin" if shards == 1 else name
            tensors = {key: weights[key] for key in part}
            torch.save(tensors, folder / name, _use_new_zipfile_serialization=not legacy)
            weight_map |= dict.fromkeys(part, name)
        if shards > 1:
            index = {"metadata": {"total_size": 0}, "weight_map": weight_map}
            (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
        return spec_of(folder), weights

    return write


def spec_of(folder: Path, **source: Any) -> ModelSpec:
    source = {"kind": "local", "path": str(folder), "pickled": True} | source
    return ModelSpec.model_validate({"full_id": "org/old", "family": "f", "source": source})


@pytest.mark.parametrize(("shards", "legacy"), [(1, False), (2, False), (1, True)])
def test_pickled_weights_are_converted_once(
    shards: int, legacy: bool, workspace: Workspace, pickled: Write, capsys: Any
) -> None:
    spec, weights = pickled(shards, legacy)
    found = find_checkpoint(spec, workspace, "tiny")
    assert not list(found.folder.glob("*.bin*"))
    assert len(list(found.folder.glob("*.safetensors"))) == shards
    model = load_model(Loading(spec, found, "cpu", "float32"))
    loaded = model.state_dict()
    assert set(weights) <= set(loaded)
    assert all(torch.equal(loaded[name], tensor) for name, tensor in weights.items())
    written = {path: path.stat().st_mtime_ns for path in found.folder.iterdir()}
    assert find_checkpoint(spec, workspace, "tiny") == found
    assert {path: path.stat().st_mtime_ns for path in found.folder.iterdir()} == written
    assert capsys.readouterr().err.count("converting the pickled weights of org/old") == 1
    conversions = workspace.cache / "checkpoints"
    assert {path.suffix for path in conversions.iterdir()} == {"", ".lock"}


def test_weights_that_share_memory_are_converted(workspace: Workspace, pickled: Write) -> None:
    spec, weights = pickled()
    shared = {**weights, "lm_head.weight": weights["model.embed_tokens.weight"]}
    torch.save(shared, spec.source.path / "pytorch_model.bin")
    folder = find_checkpoint(spec, workspace, "tiny").folder
    converted = load_file(folder / "model.safetensors")
    assert torch.equal(converted["lm_head.weight"], converted["model.embed_tokens.weight"])


def test_changed_weights_are_converted_again(workspace: Workspace, pickled: Write) -> None:
    spec, weights = pickled()
    first = find_checkpoint(spec, workspace, "tiny")
    doubled = {name: tensor * 2 for name, tensor in weights.items()}
    torch.save(doubled, spec.source.path / "pytorch_model.bin")
    second = find_checkpoint(spec, workspace, "tiny")
    assert second.folder != first.folder and second.revision != first.revision


class Malicious:
    """Unpickled by pickle itself, it makes a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.file),)


@pytest.mark.parametrize("plain", [True, False])
def test_a_malicious_pickle_is_refused_and_not_executed(
    plain: bool, workspace: Workspace, pickled: Write
) -> None:
    spec, weights = pickled()
    trace = workspace.root / "executed"
    file = spec.source.path / "pytorch_model.bin"
    if plain:
        file.write_bytes(pickle.dumps(Malicious(trace)))
    else:
        torch.save({**weights, "model.norm.weight": Malicious(trace)}, file)
    with pytest.raises(
        TokenmartError, match=r"pytorch_model.bin: refused, .*more than tensors"
    ) as e:
        find_checkpoint(spec, workspace, "tiny")
    assert "\n" not in e.value.format_message()
    assert not trace.exists()
    assert [path.suffix for path in (workspace.cache / "checkpoints").iterdir()] == [".lock"]
    # the file would have done it
    with file.open("rb") as pickled_file:
        pickle.load(pickled_file) if plain else torch.load(file, weights_only=False)
    assert trace.exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut off", b"no pickle"])
def test_a_damaged_file_is_one_line(content: bytes, workspace: Workspace, pickled: Write) -> None:
    spec, _ = pickled()
    (spec.source.path / "pytorch_model.bin").write_bytes(content)
    with pytest.raises(TokenmartError, match="refused, it is damaged") as caught:
        find_checkpoint(spec, workspace, "tiny")
    assert "\n" not in caught.value.format_message()


def test_other_things_than_named_tensors_are_refused(workspace: Workspace, pickled: Write) -> None:
    spec, weights = pickled()
    torch.save({"state_dict": weights}, spec.source.path / "pytorch_model.bin")
    with pytest.raises(TokenmartError, match="not a table of named tensors"):
        find_checkpoint(spec, workspace, "tiny")


def test_without_permission_pickled_weights_are_refused(
    workspace: Workspace, pickled: Write
) -> None:
    folder = pickled()[0].source.path
    with pytest.raises(TokenmartError) as caught:
        find_checkpoint(spec_of(folder, pickled=False), workspace, "tiny")
    assert (caught.value.code, caught.value.where) == ("no-weights", str(folder))


def test_a_missing_shard_is_noticed(workspace: Workspace, pickled: Write) -> None:
    spec, _ = pickled(shards=2)
    (spec.source.path / "pytorch_model-00002-of-00002.bin").unlink()
    with pytest.raises(TokenmartError) as caught:
        find_checkpoint(spec, workspace, "tiny")
    assert (caught.value.code, caught.value.where) == ("missing-shards", str(spec.source.path))


def test_float32_weights_load_into_the_asked_dtype(tiny_checkpoint: Callable[..., Path]) -> None:
    spec = spec_of(tiny_checkpoint())
    checkpoint = Checkpoint(tiny_checkpoint(), "r")
    model = load_model(Loading(spec, checkpoint, "cpu", "bfloat16"))
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}


@pytest.fixture
def gguf(workspace: Workspace) -> Callable[[bool | None], ModelSpec]:
    """A function that writes a tiny GGUF file, which says of BOS what it is given."""

    def write(add_bos: bool | None) -> ModelSpec:
        path = workspace.root / f"bos-{add_bos}.gguf"
        width, inner, names = 8, 16, ["<s>", "</s>", "a", "b", "ab", "Ġ"]
        writer = GGUFWriter(path, "llama")
        writer.add_context_length(64)
        writer.add_embedding_length(width)
        writer.add_block_count(1)
        writer.add_feed_forward_length(inner)
        writer.add_head_count(2)
        writer.add_head_count_kv(2)
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_tokenizer_model("gpt2")
        writer.add_token_list(names)
        writer.add_token_types([3, 3, 1, 1, 1, 1])
        writer.add_token_merges(["a b"])
        writer.add_bos_token_id(0)
        writer.add_eos_token_id(1)
        if add_bos is not None:
            writer.add_add_bos_token(add_bos)
        square = [f"attn_{part}" for part in ("q", "k", "v", "output")]
        shapes: dict[str, tuple[int, ...]] = {
            "token_embd": (len(names), width),
            "output_norm": (width,),
            "blk.0.attn_norm": (width,),
            "blk.0.ffn_norm": (width,),
            **{f"blk.0.{name}": (width, width) for name in square},
            "blk.0.ffn_gate": (inner, width),
            "blk.0.ffn_up": (inner, width),
            "blk.0.ffn_down": (width, inner),
        }
        random = np.random.default_rng(0)
        for name, shape in shapes.items():
            writer.add_tensor(f"{name}.weight", random.normal(size=shape).astype(np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return ModelSpec(full_id="org/gguf", family="f", source={"kind": "gguf", "path": str(path)})

    return write


@pytest.mark.parametrize("add_bos", [True, False])
def test_a_gguf_file_says_whether_texts_begin_with_bos(
    add_bos: bool, workspace: Workspace, gguf: Callable[[bool | None], ModelSpec]
) -> None:
    spec = gguf(add_bos)
    tokenizer = load_tokenizer(find_checkpoint(spec, workspace, "tiny"), spec)
    assert tokenizer.bos == (0 if add_bos else None)
    begin = [0] if add_bos else []
    assert tokenizer.library("ab").input_ids == [*begin, 4]
    assert tokenizer.encode("ab").ids.tolist() == [4]


def test_a_gguf_file_may_say_nothing_of_bos(
    workspace: Workspace, gguf: Callable[[bool | None], ModelSpec]
) -> None:
    always = gguf(None).model_copy(update={"bos": "always"})
    assert load_tokenizer(find_checkpoint(always, workspace, "tiny"), always).bos == 0


@pytest.mark.parametrize("says", [True, False])
def test_what_a_library_forgot_of_bos_is_put_back(
    says: bool, workspace: Workspace, gguf: Callable[[bool | None], ModelSpec]
) -> None:
    folder = find_checkpoint(gguf(not says), workspace, "tiny").folder
    forgetful = AutoTokenizer.from_pretrained(folder)
    assert len(forgetful("ab").input_ids) == (1 if says else 2)
    begin_texts(forgetful, with_bos=says)
    forgetful.save_pretrained(workspace.root / "mended")
    mended = AutoTokenizer.from_pretrained(workspace.root / "mended")
    assert mended("ab").input_ids == ([0, 4] if says else [4])
