"""Where weights live: spread by accelerate, kept on disk; which attention runs; precision."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from checkpoint_samples import loaded, spec_of
from reference import assert_scored, references
from refusal import refuses
from tiny_models import ARCHITECTURES
from tiny_requests import load, requests_of
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import flash_attention_mask

from extract.checkpoints import Checkpoint
from extract.devices import resolve_dtype
from extract.models.interventions import is_offloaded
from extract.models.loading import Loading, load_engine, weights_memory
from extract.planning.cost import Footprint
from extract.scoring.engine import Engine


@pytest.mark.parametrize("architecture", ["llama", "mistral", "qwen2", "gemma2"])
def test_a_model_partly_on_disk_gives_the_same_statistics(
    architecture, tiny_checkpoint, monkeypatch
):
    folder = tiny_checkpoint(architecture)
    requests = requests_of(0)
    plain = references(load(folder), requests)
    weights = sum(p.numel() * 4 for p in load(folder).parameters())
    monkeypatch.setattr("accelerate.utils.get_max_memory", lambda: {"cpu": weights // 2})
    model = loaded(folder, device="auto-map")
    assert is_offloaded(model) and "disk" in model.hf_device_map.values()
    engine = Engine(model)
    assert engine.share_prefixes
    assert_scored(engine, requests, plain)


def test_noise_is_refused_where_it_could_not_reach_the_weights(tiny_checkpoint, monkeypatch):
    folder = tiny_checkpoint("llama")
    noise = ({"kind": "weight_noise", "scale": 0.1, "seed": 0},)
    monkeypatch.setattr("accelerate.utils.get_max_memory", lambda: {"cpu": 100_000})
    with refuses("impossible-intervention", "interventions.weight_noise"):
        loaded(folder, device="auto-map", interventions=noise)


def test_a_device_map_leaves_room_on_gpus_only():
    free: dict[int | str, int] = {0: 100, 1: 20, "cpu": 70}
    assert weights_memory(free, None) == free
    assert weights_memory(free, Footprint(80, 0, 10, 20)) == {0: 70, 1: 0, "cpu": 70}
    # half as much cache as weights, of the layers that a card has: two thirds are for weights
    assert weights_memory({0: 90, 1: 60}, Footprint(80, 40, 10, 20)) == {0: 40, 1: 20}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_attention_without_masks_serves_whole_texts_and_leaves_suffixes_to_sdpa(
    architecture, tiny_checkpoint
):
    """The path of FlashAttention 2, with an attention that like it takes no mask."""
    calls: list[int] = []

    def maskless(
        module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **options: Any
    ) -> Any:
        assert attention_mask is None
        calls.append(query.shape[2])
        window = options.get("sliding_window")
        size = query.shape[2]
        distance = torch.arange(size)[:, None] - torch.arange(key.shape[2])[None]
        visible = (distance >= 0) & (distance < (window or size))
        groups = query.shape[1] // key.shape[1]
        output = torch.nn.functional.scaled_dot_product_attention(
            query,
            key.repeat_interleave(groups, 1),
            value.repeat_interleave(groups, 1),
            attn_mask=visible,
            scale=options.get("scaling"),
        )
        return output.transpose(1, 2).contiguous(), None

    AttentionInterface.register("maskless", maskless)
    AttentionMaskInterface.register("maskless", flash_attention_mask)
    folder = tiny_checkpoint(architecture)
    # Gemma 2's soft-capping of attention exists in eager attention only
    settings = {"attn_logit_softcapping": None} if architecture == "gemma2" else {}
    requests = requests_of(None)
    plain_model = load(folder)
    for name, value in settings.items():
        for layer in plain_model.model.layers:
            setattr(layer.self_attn, name, value)
    plain = references(plain_model, requests)
    model = loaded(folder, attention="maskless")
    for name, value in settings.items():
        for layer in model.model.layers:
            setattr(layer.self_attn, name, value)
    engine = Engine(model)
    assert engine.share_prefixes == (architecture != "llama_ntk")
    calls.clear()
    assert_scored(engine, requests, plain)
    assert calls and model.config._attn_implementation == "maskless"


def test_float32_never_means_tf32(tiny_checkpoint):
    torch.set_float32_matmul_precision("high")
    Engine(load(tiny_checkpoint("llama")))
    assert torch.get_float32_matmul_precision() == "highest"
    assert not torch.backends.cudnn.allow_tf32


@pytest.mark.parametrize(
    ("asked", "of_model", "device", "gpu_has_bfloat16", "expected"),
    [
        ("auto", "auto", "cpu", None, "float32"),
        ("auto", "auto", "auto-map", None, "float32"),
        ("auto", "auto", "cuda:1", True, "bfloat16"),
        ("auto", "auto", "auto-map", True, "bfloat16"),
        ("auto", "auto", "cuda", False, "float16"),
        ("auto", "bfloat16", "cpu", None, "bfloat16"),
        ("float16", "bfloat16", "cpu", None, "float16"),
    ],
)
def test_the_default_dtype_is_the_devices(
    asked, of_model, device, gpu_has_bfloat16, expected, tmp_path, monkeypatch
):
    """No processor is asked what it is good at; None is a machine without a GPU."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: gpu_has_bfloat16 is not None)
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda **options: bool(gpu_has_bfloat16))
    assert resolve_dtype(spec_of(tmp_path, dtype=of_model), asked, device) == expected


def test_a_model_that_runs_out_of_memory_while_loading_is_one_line(tiny_checkpoint, monkeypatch):
    folder = tiny_checkpoint("llama")
    loading = Loading(spec_of(folder), Checkpoint(folder, "0"), "cpu", "float32")
    assert load_engine(loading).prefixes == "shared"

    def too_large(*args: Any, **kwargs: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr("transformers.LlamaForCausalLM.forward", too_large)
    with refuses("out-of-memory", "tiny/one"):
        load_engine(loading)
