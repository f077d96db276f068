"""Weights of every format: whole and only tensors, or refused by every loader."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from checkpoint_samples import Tensors, loaded, rewritten, spec_of, write_gguf
from click.testing import CliRunner
from refusal import refuses
from safetensors.torch import load_file
from tiny_models import make_checkpoint
from tiny_runs import CONDITIONS, ok, run
from transformers import AutoTokenizer

from extract.checkpoints import begin_texts, find_checkpoint
from extract.models.loading import Loading, load_model
from extract.models.weights import load_weights
from extract.scoring.engine import Engine
from extract.tokenization import load_tokenizer
from warehouse.maintenance.cli import data
from warehouse.probes.request import Request
from warehouse.store.ledger import read_units
from warehouse.store.token_files import published_path

DOWN = "model.layers.1.mlp.down_proj.weight"
HEAD, EMBEDDINGS = "lm_head.weight", "model.embed_tokens.weight"
MISSING = "incomplete-weights"


# Tensors


def _without(part: str) -> Callable[[Tensors], Tensors]:
    return lambda weights: {name: t for name, t in weights.items() if part not in name}


def _renamed(change: Callable[[str], str]) -> Callable[[Tensors], Tensors]:
    return lambda weights: {change(name): tensor for name, tensor in weights.items()}


def _more(name: str) -> Callable[[Tensors], Tensors]:
    return lambda weights: {**weights, name: torch.ones(3, 3)}


REFUSED: dict[str, tuple[Callable[[Tensors], Tensors], str, str]] = {
    "one missing": (_without(DOWN), MISSING, DOWN),
    "no head": (_without(HEAD), MISSING, HEAD),
    "no embeddings": (_without(EMBEDDINGS), MISSING, EMBEDDINGS),
    "a layer missing": (_without(".layers.2."), MISSING, "model.layers.2.input_layernorm.weight"),
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
    "another shape": (lambda w: {**w, DOWN: w[DOWN][:-1].contiguous()}, "other-shapes", DOWN),
    "the same twice": (
        lambda weights: weights | {f"_orig_mod.{n}": t.clone() for n, t in weights.items()},
        "tensors-twice",
        HEAD,
    ),
    "nothing": (lambda weights: {}, MISSING, HEAD),
}
WRAPPED = {
    "compiled": (lambda name: f"_orig_mod.{name}", '"_orig_mod." from 30 names'),
    "both": (lambda name: f"module._orig_mod.{name}", '"_orig_mod.", "module." from 30 names'),
    "a layer": (lambda n: n.replace("layers.1.", "layers.1._orig_mod."), '"_orig_mod." from 9'),
    "sharded": (lambda name: f"_fsdp_wrapped_module.{name}", '"_fsdp_wrapped_module." from 30'),
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_tensors_are_refused(case, tmp_path, tiny_checkpoint):
    change, code, where = REFUSED[case]
    folder = rewritten(tmp_path / "m", tiny_checkpoint(), change)
    # in memory, and by a look at the files that reads no weights
    for options in ({}, {"device_map": "meta"}):
        with refuses(code, where):
            load_weights(folder, "org/m", **options)


@pytest.mark.parametrize("case", WRAPPED)
def test_names_of_wrappers_are_removed_and_recorded(case, tmp_path, tiny_checkpoint):
    change, removed = WRAPPED[case]
    folder = rewritten(tmp_path / "m", tiny_checkpoint(), _renamed(change))
    loaded, sound = load_weights(folder, "org/m"), load_weights(tiny_checkpoint(), "org/m")
    assert removed in loaded.record and sound.record == "complete"
    expected = sound.model.state_dict()
    assert all(torch.equal(tensor, expected[n]) for n, tensor in loaded.model.state_dict().items())


def test_a_tied_head_need_not_be_there(tmp_path, tiny_checkpoint):
    folder = rewritten(tmp_path / "m", tiny_checkpoint(), _without(HEAD))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": True}))
    loaded = load_weights(folder, "org/m")
    assert loaded.record == "complete"
    head = loaded.model.get_output_embeddings().weight
    assert head is loaded.model.get_input_embeddings().weight


def test_a_model_that_lacks_tensors_fails_alone_and_the_ledger_records_the_others(
    workspace, tiny_problem, tmp_path
):
    path = tiny_problem()
    raw = yaml.safe_load(path.read_text())
    source = raw["models"][0]["source"]
    source["path"] = str(rewritten(tmp_path / "m", Path(source["path"]), _without(DOWN)))
    path.write_text(yaml.safe_dump(raw))
    result = run(path)
    assert result.exit_code == 5 and DOWN in result.output and "LOAD REPORT" not in result.output
    for condition in CONDITIONS:
        failed = read_units(published_path(workspace, "tiny", "tiny--one", condition))
        assert {(unit.status, unit.rows) for unit in failed} == {("failed", 0)}
        done = read_units(published_path(workspace, "tiny", "tiny--two", condition))
        assert {(unit.status, unit.weights) for unit in done} == {("done", "complete")}
    ok(CliRunner().invoke(data, ["check"]))


def test_a_shard_without_a_tensor_of_its_index(workspace, tmp_path, tiny_checkpoint):
    spec = spec_of(rewritten(tmp_path / "m", tiny_checkpoint(), shards=2, lost=DOWN))
    with refuses(MISSING, DOWN):
        load_model(Loading(spec, find_checkpoint(spec, workspace, "tiny"), "cpu", "float32"))


@pytest.mark.parametrize("suffix", ["safetensors", "bin"])
def test_a_shard_that_is_not_there_is_noticed(suffix, workspace, tmp_path, tiny_checkpoint):
    folder = rewritten(tmp_path / "m", tiny_checkpoint(), shards=2, suffix=suffix)
    next(folder.glob("*-00002-of-00002.*")).unlink()
    with refuses("no-weights", str(folder)):
        find_checkpoint(spec_of(folder, pickled=True), workspace, "tiny")


def test_an_adapter_next_to_whole_weights_is_not_applied_to_them(tmp_path, tiny_checkpoint):
    """What `save_pretrained` of peft leaves in a folder that is given to it."""
    folder = rewritten(tmp_path / "m", tiny_checkpoint())
    adapter = {"peft_type": "LORA", "r": 1, "target_modules": ["q_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(adapter))
    for options in ({}, {"device_map": "meta"}):
        with refuses("adapter-and-weights", str(folder / "adapter_config.json")):
            load_weights(folder, "org/m", **options)


def test_float32_weights_load_into_the_asked_dtype(tiny_checkpoint):
    model = loaded(tiny_checkpoint(), "bfloat16")
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}


@pytest.mark.parametrize(("tokens", "special"), [(2, False), (1, True)])
def test_a_tokenizer_with_more_tokens_than_embeddings(tokens, special, workspace, tmp_path):
    folder = make_checkpoint(tmp_path / "m")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    added = [f"<more{number}>" for number in range(tokens)]
    tokenizer.add_tokens(added, special_tokens=special)
    tokenizer.save_pretrained(folder)
    spec = spec_of(folder)
    checkpoint = find_checkpoint(spec, workspace, "tiny")
    if not special:
        with refuses("tokens-beyond-embeddings", "<more1>"):
            load_tokenizer(checkpoint, spec)
        return
    # padding that was added for training; a text that has it is refused before the model runs
    ids = load_tokenizer(checkpoint, spec).encode("the token <more0> here").ids
    engine = Engine(load_model(Loading(spec, checkpoint, "cpu", "float32")))
    nowhere = np.zeros(len(ids) - 1, dtype=np.int32)
    with refuses("tokens-beyond-embeddings", str(max(ids))):
        engine.score([Request(0, ids, 1, nowhere, nowhere)])


# Pickled weights


@pytest.mark.parametrize(("shards", "legacy"), [(1, False), (2, False), (1, True)])
def test_pickled_weights_are_converted_once(shards, legacy, workspace, tmp_path, tiny_checkpoint):
    zipped = {"_use_new_zipfile_serialization": not legacy}
    folder = rewritten(tmp_path / "m", tiny_checkpoint(), shards=shards, suffix="bin", **zipped)
    weights = load_file(tiny_checkpoint() / "model.safetensors")
    with refuses("no-weights", str(folder)):
        find_checkpoint(spec_of(folder), workspace, "tiny")
    spec = spec_of(folder, pickled=True)
    found = find_checkpoint(spec, workspace, "tiny")
    assert not list(found.folder.glob("*.bin*"))
    assert len(list(found.folder.glob("*.safetensors"))) == shards
    loaded = load_model(Loading(spec, found, "cpu", "float32")).state_dict()
    assert set(weights) <= set(loaded)
    assert all(torch.equal(loaded[name], tensor) for name, tensor in weights.items())
    written = {path: path.stat().st_mtime_ns for path in found.folder.iterdir()}
    assert find_checkpoint(spec, workspace, "tiny") == found
    assert {path: path.stat().st_mtime_ns for path in found.folder.iterdir()} == written
    conversions = workspace.cache / "checkpoints"
    assert {path.suffix for path in conversions.iterdir()} == {"", ".lock"}


@pytest.fixture
def pickled(tmp_path: Path, tiny_checkpoint: Callable[..., Path]) -> Path:
    """The file of a model with pickled weights."""
    folder = rewritten(tmp_path / "m", tiny_checkpoint(), suffix="bin")
    return folder / "pytorch_model.bin"


def test_weights_that_share_memory_are_converted_and_changed_ones_again(workspace, pickled):
    spec, weights = spec_of(pickled.parent, pickled=True), torch.load(pickled)
    torch.save({**weights, HEAD: weights[EMBEDDINGS]}, pickled)
    first = find_checkpoint(spec, workspace, "tiny")
    converted = load_file(first.folder / "model.safetensors")
    assert torch.equal(converted[HEAD], converted[EMBEDDINGS])
    torch.save({name: tensor * 2 for name, tensor in weights.items()}, pickled)
    second = find_checkpoint(spec, workspace, "tiny")
    assert second.folder != first.folder and second.revision != first.revision


class Malicious:
    """Unpickled by pickle itself, it makes a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.file),)


@pytest.mark.parametrize("plain", [True, False])
def test_a_malicious_pickle_is_refused_and_not_executed(plain, workspace, pickled):
    trace = workspace.root / "executed"
    if plain:
        pickled.write_bytes(pickle.dumps(Malicious(trace)))
    else:
        torch.save({**torch.load(pickled), "model.norm.weight": Malicious(trace)}, pickled)
    with refuses("not-only-tensors", str(pickled)):
        find_checkpoint(spec_of(pickled.parent, pickled=True), workspace, "tiny")
    assert not trace.exists()
    assert [path.suffix for path in (workspace.cache / "checkpoints").iterdir()] == [".lock"]
    # the file would have done it
    with pickled.open("rb") as file:
        pickle.load(file) if plain else torch.load(pickled, weights_only=False)
    assert trace.exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut off", b"no pickle", None])
def test_a_damaged_file_or_other_things_than_named_tensors_are_refused(content, workspace, pickled):
    if content is None:
        torch.save({"state_dict": torch.load(pickled)}, pickled)
    else:
        pickled.write_bytes(content)
    with refuses("not-only-tensors", str(pickled)):
        find_checkpoint(spec_of(pickled.parent, pickled=True), workspace, "tiny")


# GGUF


@pytest.mark.parametrize(
    ("options", "code", "where"),
    [
        ({}, "", ""),
        ({"scaling": "none"}, "", ""),
        ({"left_out": "blk.0.ffn_up"}, MISSING, "model.layers.0.mlp.up_proj.weight"),
        ({"parts": 3}, "gguf-part", "tiny.gguf"),
        ({"name": "tiny-00001-of-00003.gguf"}, "gguf-part", "tiny-00001-of-00003.gguf"),
        # transformers leaves these out, and says nothing
        ({"more": "rope_freqs"}, "gguf-unread", "rope_freqs.weight"),
        ({"more": "blk.0.attn_q.bias"}, "gguf-unread", "blk.0.attn_q.bias"),
        ({"scaling": "linear"}, "gguf-unread", "RoPE scaling 'linear'"),
    ],
)
def test_a_gguf_file_is_converted_only_if_it_is_whole(options, code, where, workspace, tmp_path):
    file = tmp_path / options.pop("name", "tiny.gguf")
    spec = spec_of(write_gguf(file, words=5, **options), "gguf")
    if not code:
        assert (find_checkpoint(spec, workspace, "tiny").folder / "config.json").is_file()
        return
    with refuses(code, str(tmp_path / where) if where.endswith("gguf") else where):
        find_checkpoint(spec, workspace, "tiny")
    assert not [p for p in (workspace.cache / "checkpoints").iterdir() if p.is_dir()]


@pytest.mark.parametrize("bos", [True, False])
def test_a_gguf_file_says_whether_texts_begin_with_bos(bos, workspace, tmp_path):
    spec = spec_of(write_gguf(tmp_path / "m.gguf", bos=bos), "gguf")
    tokenizer = load_tokenizer(find_checkpoint(spec, workspace, "tiny"), spec)
    assert tokenizer.bos == (0 if bos else None)
    assert tokenizer.library("ab").input_ids == ([0, 4] if bos else [4])
    assert tokenizer.encode("ab").ids.tolist() == [4]
    # what a library forgot of it is put back
    forgetful = AutoTokenizer.from_pretrained(find_checkpoint(spec, workspace, "tiny").folder)
    begin_texts(forgetful, with_bos=not bos)
    forgetful.save_pretrained(tmp_path / "corrected")
    corrected = AutoTokenizer.from_pretrained(tmp_path / "corrected")
    assert corrected("ab").input_ids == ([4] if bos else [0, 4])


def test_a_gguf_file_may_say_nothing_of_bos(workspace, tmp_path):
    spec = spec_of(write_gguf(tmp_path / "m.gguf"), "gguf").model_copy(update={"bos": "always"})
    assert load_tokenizer(find_checkpoint(spec, workspace, "tiny"), spec).bos == 0
