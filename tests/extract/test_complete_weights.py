"""Checkpoints that lack tensors, or have others than the model: refused by every loader."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from click.testing import CliRunner
from gguf import GGUFWriter
from refusal import refuses
from safetensors.torch import load_file, save_file
from tiny_models import make_checkpoint
from tiny_runs import ok, one_line_error, run

from extract.backends.backend import Loading
from extract.checkpoints import find_checkpoint
from extract.models.loading import load_model
from extract.models.weights import load_weights
from extract.scoring.engine import Engine
from extract.tokenization import load_tokenizer
from warehouse.errors import TokenmartError
from warehouse.maintenance.cli import data
from warehouse.paths import Workspace
from warehouse.probes.request import Request
from warehouse.problem.models import ModelSpec
from warehouse.store.ledger import read_units
from warehouse.store.token_files import published_path

Tensors = dict[str, torch.Tensor]
DOWN = "model.layers.1.mlp.down_proj.weight"
CONDITIONS = ("full", "window_24", "retrieval_with", "retrieval_without")


def _without(*names: str) -> Callable[[Tensors], Tensors]:
    return lambda weights: {n: t for n, t in weights.items() if n not in names}


def _renamed(change: Callable[[str], str]) -> Callable[[Tensors], Tensors]:
    return lambda weights: {change(name): tensor for name, tensor in weights.items()}


def _cut(weights: Tensors) -> Tensors:
    return {**weights, DOWN: weights[DOWN][:-1].contiguous()}


def _more(name: str) -> Callable[[Tensors], Tensors]:
    return lambda weights: {**weights, name: torch.ones(3, 3)}


def write(folder: Path, source: Path, change: Callable[[Tensors], Tensors]) -> Path:
    """A copy of a checkpoint with other tensors."""
    shutil.copytree(source, folder)
    tensors = change(load_file(folder / "model.safetensors"))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def spec_of(folder: Path, kind: str = "local") -> ModelSpec:
    source = {"kind": kind, "path": str(folder)}
    return ModelSpec(full_id="org/m", family="f", source=source)  # type: ignore[arg-type]


LAYER_2 = "model.layers.2.input_layernorm.weight"
HEAD, MISSING = "lm_head.weight", "incomplete-weights"
REFUSED: dict[str, tuple[Callable[[Tensors], Tensors], str, str]] = {
    "one missing": (_without(DOWN), MISSING, DOWN),
    "no head": (_without(HEAD), MISSING, HEAD),
    "no embeddings": (_without(EMBEDDINGS := "model.embed_tokens.weight"), MISSING, EMBEDDINGS),
    "a layer missing": (
        lambda weights: {n: t for n, t in weights.items() if ".layers.2." not in n},
        MISSING,
        LAYER_2,
    ),
    "other names": (
        _renamed(lambda name: name.replace("mlp", "ffn")),
        MISSING,
        "model.layers.0.mlp.down_proj.weight",
    ),
    "another prefix": (_renamed(lambda name: f"student.{name}"), MISSING, HEAD),
    "one name more": (_more("v_head.weight"), MISSING, "v_head.weight"),
    "a layer more": (_more(MORE := "model.layers.3.mlp.up_proj.weight"), MISSING, MORE),
    "an adapter within": (
        _renamed(lambda n: n.replace("q_proj.weight", "q_proj.base_layer.weight")),
        MISSING,
        "model.layers.0.self_attn.q_proj.weight",
    ),
    "another shape": (_cut, "other-shapes", DOWN),
    "the same twice": (
        lambda weights: weights | {f"_orig_mod.{n}": t.clone() for n, t in weights.items()},
        "tensors-twice",
        HEAD,
    ),
    "nothing": (lambda weights: {}, MISSING, HEAD),
}

WRAPPED = {
    "compiled": (lambda name: f"_orig_mod.{name}", '"_orig_mod." from 30 names'),
    "data parallel": (lambda name: f"module.{name}", '"module." from 30 names'),
    "both": (lambda name: f"module._orig_mod.{name}", '"_orig_mod.", "module." from 30 names'),
    "a compiled layer": (
        lambda name: name.replace("layers.1.", "layers.1._orig_mod."),
        '"_orig_mod." from 9 names',
    ),
    "sharded": (lambda name: f"_fsdp_wrapped_module.{name}", '"_fsdp_wrapped_module." from 30'),
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_tensors_are_refused(
    case: str, tmp_path: Path, tiny_checkpoint: Callable[..., Path]
) -> None:
    change, code, where = REFUSED[case]
    folder = write(tmp_path / "m", tiny_checkpoint(), change)
    # in memory, and by a look at the files that reads no weights
    for options in ({}, {"device_map": "meta"}):
        with refuses(code, where):
            load_weights(folder, "org/m", **options)


@pytest.mark.parametrize("case", WRAPPED)
def test_names_of_wrappers_are_removed_and_recorded(
    case: str, tmp_path: Path, tiny_checkpoint: Callable[..., Path]
) -> None:
    change, words = WRAPPED[case]
    loaded = load_weights(write(tmp_path / "m", tiny_checkpoint(), _renamed(change)), "org/m")
    assert loaded.record.startswith("complete; removed ") and words in loaded.record
    sound = load_weights(tiny_checkpoint(), "org/m")
    assert sound.record == "complete"
    expected = sound.model.state_dict()
    assert all(torch.equal(tensor, expected[n]) for n, tensor in loaded.model.state_dict().items())


def test_a_tied_head_need_not_be_there(
    tmp_path: Path, tiny_checkpoint: Callable[..., Path]
) -> None:
    folder = write(tmp_path / "m", tiny_checkpoint(), _without("lm_head.weight"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": True}))
    loaded = load_weights(folder, "org/m")
    assert loaded.record == "complete"
    head = loaded.model.get_output_embeddings().weight
    assert head is loaded.model.get_input_embeddings().weight


def test_a_model_that_lacks_tensors_fails_alone_and_the_ledger_records_the_others(
    workspace: Workspace, tiny_problem: Callable[..., Path], tmp_path: Path
) -> None:
    path = tiny_problem()
    raw = yaml.safe_load(path.read_text())
    sound = Path(raw["models"][0]["source"]["path"])
    folder = write(tmp_path / "m", sound, _without(DOWN))
    raw["models"][0]["source"]["path"] = str(folder)
    path.write_text(yaml.safe_dump(raw))
    result = run(path)
    one_line_error(result, 5)
    assert f"tiny/one: its files lack 1 of its tensors ({DOWN})" in result.output
    assert "LOAD REPORT" not in result.output
    for condition in CONDITIONS:
        failed = read_units(published_path(workspace, "tiny", "tiny--one", condition))
        assert {(unit.status, unit.rows) for unit in failed} == {("failed", 0)}
        done = read_units(published_path(workspace, "tiny", "tiny--two", condition))
        assert {(unit.status, unit.weights) for unit in done} == {("done", "complete")}
    checked = CliRunner().invoke(data, ["check"])
    assert "no defects" in ok(checked) and "note:" not in checked.output


def _gguf(
    path: Path,
    leave_out: str = "",
    parts: int = 0,
    named: bool = False,
    more: str = "",
    scaling: str = "",
) -> ModelSpec:
    width, inner, names = 8, 16, ["<s>", "</s>", "a", "b", "ab"]
    file = path / ("tiny-00001-of-00003.gguf" if named else "tiny.gguf")
    writer = GGUFWriter(file, "llama")
    for name, value in (
        ("block_count", 1), ("context_length", 64), ("embedding_length", width),
        ("feed_forward_length", inner), ("head_count", 1), ("head_count_kv", 1),
        ("vocab_size", len(names)),
    ):  # fmt: skip
        getattr(writer, f"add_{name}")(value)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(names)
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(0)
    if parts:
        writer.add_uint16("split.count", parts)
    if scaling:
        writer.add_string("llama.rope.scaling.type", scaling)
    square = ("attn_q", "attn_k", "attn_v", "attn_output")
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd": (len(names), width), "output": (len(names), width),
        "output_norm": (width,), "blk.0.attn_norm": (width,), "blk.0.ffn_norm": (width,),
        **{f"blk.0.{name}": (width, width) for name in square},
        "blk.0.ffn_gate": (inner, width), "blk.0.ffn_up": (inner, width),
        "blk.0.ffn_down": (width, inner), **({more: (width // 2,)} if more else {}),
    }  # fmt: skip
    for name, shape in shapes.items():
        if name != leave_out:
            random = np.random.default_rng(0).normal(size=shape).astype(np.float32)
            writer.add_tensor(name if "bias" in name else f"{name}.weight", random)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return spec_of(file, "gguf")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, ""),
        ({"leave_out": "blk.0.ffn_up"}, r"lack 1 .*layers\.0\.mlp\.up_proj\.weight"),
        ({"parts": 3}, r"one of 3 parts; join them with `llama-gguf-split"),
        # transformers leaves these out, and says nothing
        ({"more": "rope_freqs"}, r"doesn't read rope_freqs\.weight of its GGUF file; give"),
        ({"more": "blk.0.attn_q.bias"}, r"doesn't read blk\.0\.attn_q\.bias of"),
        ({"scaling": "linear"}, r"doesn't read RoPE scaling 'linear' of"),
        ({"scaling": "none"}, ""),
        ({"named": True}, r"tiny-00001-of-00003\.gguf is one of 3 parts"),
    ],
)
def test_a_gguf_file_is_converted_only_if_it_is_whole(
    options: dict[str, Any], words: str, workspace: Workspace, tmp_path: Path
) -> None:
    spec = _gguf(tmp_path, **options)
    if not words:
        assert (find_checkpoint(spec, workspace, "tiny").folder / "config.json").is_file()
        return
    with pytest.raises(TokenmartError, match=words):
        find_checkpoint(spec, workspace, "tiny")
    assert not [p for p in (workspace.cache / "checkpoints").iterdir() if p.is_dir()]


@pytest.fixture
def sharded(tmp_path: Path, tiny_checkpoint: Callable[..., Path]) -> Callable[..., Path]:
    """A function that writes a checkpoint of two shards, without a tensor."""

    def write(leave_out: str = "") -> Path:
        folder = tmp_path / "m"
        shutil.copytree(tiny_checkpoint(), folder)
        weights = load_file(folder / "model.safetensors")
        (folder / "model.safetensors").unlink()
        names = list(weights)
        weight_map = {}
        for number, part in enumerate((names[::2], names[1::2]), start=1):
            file = f"model-{number:05d}-of-00002.safetensors"
            there = {name: weights[name] for name in part if name != leave_out}
            save_file(there, folder / file, metadata={"format": "pt"})
            weight_map |= dict.fromkeys(part, file)
        index = {"metadata": {"total_size": 0}, "weight_map": weight_map}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        return folder

    return write


def test_a_shard_without_a_tensor_of_its_index(
    workspace: Workspace, sharded: Callable[..., Path]
) -> None:
    spec = spec_of(sharded(DOWN))
    with pytest.raises(TokenmartError, match=DOWN):
        load_model(Loading(spec, find_checkpoint(spec, workspace, "tiny"), "cpu", "float32"))


def test_a_shard_that_is_not_there_is_named(
    workspace: Workspace, sharded: Callable[..., Path]
) -> None:
    folder = sharded()
    (folder / "model-00002-of-00002.safetensors").unlink()
    words = r"lacks model-00002-of-00002\.safetensors, named by the index of its weights; fetch"
    with pytest.raises(TokenmartError, match=words):
        find_checkpoint(spec_of(folder), workspace, "tiny")


def test_an_adapter_next_to_whole_weights_is_not_applied_to_them(
    tmp_path: Path, tiny_checkpoint: Callable[..., Path]
) -> None:
    """What `save_pretrained` of peft leaves in a folder that is given to it."""
    folder = write(tmp_path / "m", tiny_checkpoint(), lambda weights: weights)
    adapter = {"peft_type": "LORA", "r": 1, "target_modules": ["q_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(adapter))
    for options in ({}, {"device_map": "meta"}):
        with refuses("adapter-and-weights", str(folder / "adapter_config.json")):
            load_weights(folder, "org/m", **options)


@pytest.mark.parametrize(
    ("tokens", "special", "words"),
    [
        (2, False, r"has 2 tokens beyond the \d+ rows of the embeddings \('<more0>' = "),
        (1, True, ""),
    ],
)
def test_a_tokenizer_with_more_tokens_than_embeddings(
    tokens: int, special: bool, words: str, workspace: Workspace, tmp_path: Path
) -> None:
    folder = make_checkpoint(tmp_path / "m")
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    added = [f"<more{number}>" for number in range(tokens)]
    tokenizer.add_tokens(added, special_tokens=special)
    tokenizer.save_pretrained(folder)
    spec = spec_of(folder)
    checkpoint = find_checkpoint(spec, workspace, "tiny")
    if words:
        with pytest.raises(TokenmartError, match=words):
            load_tokenizer(checkpoint, spec)
        return
    # padding that was added for training; a text that has it is refused before the model runs
    ids = load_tokenizer(checkpoint, spec).encode("the token <more0> here").ids
    engine = Engine(load_model(Loading(spec, checkpoint, "cpu", "float32")))
    assert engine.weights == "complete"
    nowhere = np.zeros(len(ids) - 1, dtype=np.int32)
    with pytest.raises(TokenmartError, match=r"a text has token \d+, and the model has embedd"):
        engine.score([Request(0, ids, 1, nowhere, nowhere)])
