"""Interventions change what they say, the same way every time, and reach the fingerprint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoint_samples import loaded
from reference import assert_scored, references
from refusal import refuses
from tiny_requests import requests_of

from extract.models.interventions import quantized
from extract.scoring.budgets import Budgets
from extract.scoring.engine import Engine

IDS = torch.arange(2, 42)[None]


def load(folder: Path, *interventions: dict[str, Any]) -> Any:
    return loaded(folder, interventions=interventions)


def logits(model: Any) -> torch.Tensor:
    with torch.inference_mode():
        output: torch.Tensor = model(IDS).logits
    return output


def test_rope_scaling_equals_the_same_setting_in_the_configuration(tiny_checkpoint):
    from transformers import AutoConfig, AutoModelForCausalLM

    folder = tiny_checkpoint()
    changed = load(folder, {"kind": "rope", "scaling": "linear", "factor": 2.0, "theta": 500.0})
    config = AutoConfig.from_pretrained(folder)
    config.rope_parameters = {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0}
    by_hand = AutoModelForCausalLM.from_pretrained(folder, config=config)
    torch.testing.assert_close(logits(changed), logits(by_hand))
    assert not torch.allclose(logits(changed), logits(load(folder)))


def test_rope_of_an_architecture_with_two_kinds_of_layers(tiny_checkpoint):
    folder = tiny_checkpoint("gemma3_text")
    changed = load(folder, {"kind": "rope", "theta": 123.0})
    rope = changed.config.rope_parameters
    assert rope["full_attention"]["rope_theta"] == 123.0
    assert rope["sliding_attention"]["rope_theta"] != 123.0


def test_noise_is_seeded_and_scales_with_each_matrix(tiny_checkpoint):
    folder = tiny_checkpoint()
    plain = load(folder).get_decoder().layers[0].mlp.up_proj.weight
    one, again, other = (
        load(folder, {"kind": "weight_noise", "scale": 0.1, "seed": seed})
        .get_decoder()
        .layers[0]
        .mlp.up_proj.weight
        for seed in (0, 0, 1)
    )
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    spread = ((one - plain).std() / plain.std()).item()
    assert spread == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize("architecture", ["llama", "gemma2"])
def test_dropped_layers_leave_a_working_shorter_model(architecture, tiny_checkpoint):
    folder = tiny_checkpoint(architecture)
    # in float64, so that what is left of the difference is no processor's
    short = load(folder, {"kind": "drop_layers", "layers": [-1, 0]}).double()
    assert len(short.get_decoder().layers) == 1
    with torch.inference_mode():
        cached = short(IDS[:, :20], use_cache=True)
        rest = short(IDS[:, 20:], past_key_values=cached.past_key_values).logits
    torch.testing.assert_close(rest, logits(short)[:, 20:], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        *(("drop_layers", {"layers": layers}) for layers in ([0, 1, 2], [3], [-4])),
        ("quantize", {"bits": 4, "group": 11}),
    ],
)
def test_impossible_interventions_are_refused(kind, settings, tiny_checkpoint):
    with refuses("impossible-intervention", f"interventions.{kind}"):
        load(tiny_checkpoint(), {"kind": kind, **settings})


@pytest.mark.parametrize("architecture", ["llama", "gemma3_text"])
@pytest.mark.parametrize(
    ("change", "prefix_tokens"),
    [
        ({"kind": "attention_window", "window": 12, "sinks": 2}, None),
        ({"kind": "attention_window", "window": 12, "sinks": 2}, 40),
        ({"kind": "attention_temperature", "temperature": 1.5}, None),
        ({"kind": "quantize", "bits": 3, "group": 8}, None),
    ],
)
def test_a_change_holds_in_prefixes_pieces_and_suffixes(
    architecture, change, prefix_tokens, tiny_checkpoint
):
    folder, requests = tiny_checkpoint(architecture), requests_of(0)
    changed = references(load(folder, change), requests)
    engine = Engine(
        load(folder, change), budgets=Budgets(1024, 1024, 64, prefix_tokens, prefix_tokens)
    )
    assert engine.share_prefixes
    assert_scored(engine, requests, changed)
    assert any(
        not np.allclose(one.exact.logprob, other.exact.logprob, atol=1e-3)
        for one, other in zip(changed, references(load(folder), requests), strict=True)
    )


def by_hand(weights: np.ndarray[Any, Any], bits: int, group: int) -> np.ndarray[Any, Any]:
    """Round to nearest in float64, one group at a time, from the definition."""
    rounded = weights.astype(np.float64).copy()
    most = 2 ** (bits - 1) - 1
    for row in rounded:
        for start in range(0, len(row), group):
            part = row[start : start + group]
            step = np.abs(part).max() / most
            grid = step * np.arange(-most, most + 1)
            row[start : start + group] = grid[np.abs(part[:, None] - grid[None]).argmin(axis=1)]
    return rounded


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_rounded_weights_are_the_nearest_of_the_grid(bits):
    weights = np.random.default_rng(bits).normal(size=(6, 64)).astype(np.float32)
    found = quantized(torch.from_numpy(weights), bits, 16).numpy()
    expected = by_hand(weights, bits, 16)
    # a number on the edge between two steps may fall to either side in float32
    step = np.abs(weights.reshape(6, 4, 16)).max(axis=2) / (2 ** (bits - 1) - 1)
    edge = np.abs(np.abs(weights - expected) - np.repeat(step, 16, axis=1) / 2) < 1e-6
    assert np.abs(found - expected)[~edge].max() < 1e-6
    assert edge.mean() < 0.01
    levels = found.reshape(6, 4, 16) / step[:, :, None]
    assert np.abs(levels - levels.round()).max() < 1e-4
    assert len(np.unique(levels.round())) <= 2**bits - 1


def test_eight_bits_in_groups_of_32_are_those_of_gguf():
    """Q8_0 of llama.cpp's own quantiser, whose scales are float16: half a unit in 2^-11."""
    from gguf import GGMLQuantizationType, quants

    weights = np.random.default_rng(0).normal(size=(8, 64)).astype(np.float32)
    packed = quants.quantize(weights, GGMLQuantizationType.Q8_0)
    theirs = quants.dequantize(packed, GGMLQuantizationType.Q8_0)
    found = quantized(torch.from_numpy(weights), 8, 32).numpy()
    step = np.repeat(np.abs(weights.reshape(8, 2, 32)).max(axis=2) / 127, 32, axis=1)
    assert (np.abs(found - theirs) <= 127 * step * 2.0**-11 + 1e-7).mean() > 0.99
    assert np.abs(found - theirs).max() <= 1.1 * step.max()


def test_zeros_stay_and_rounding_twice_changes_nothing():
    weights = torch.randn(3, 32, generator=torch.Generator().manual_seed(0))
    weights[1] = 0
    once = quantized(weights, 4, 8)
    assert torch.equal(once[1], weights[1])
    torch.testing.assert_close(quantized(once, 4, 8), once, atol=1e-6, rtol=1e-6)


def test_quantised_models_lose_more_with_fewer_bits(tiny_checkpoint):
    folder = tiny_checkpoint()
    plain = load(folder)
    lost = []
    for bits in (8, 4, 3):
        model = load(folder, {"kind": "quantize", "bits": bits, "group": 8})
        weight, before = (m.get_decoder().layers[0].mlp.up_proj.weight for m in (model, plain))
        torch.testing.assert_close(weight, quantized(before, bits, 8))
        assert torch.equal(model.get_input_embeddings().weight, plain.get_input_embeddings().weight)
        lost.append((logits(model) - logits(plain)).abs().mean().item())
    assert 0 < lost[0] < lost[1] < lost[2]


def test_a_temperature_is_the_same_as_smaller_queries(tiny_checkpoint):
    """softmax(q k / (T sqrt(d))): dividing every query by T does the same, rotary or not."""
    folder = tiny_checkpoint()
    warm = load(folder, {"kind": "attention_temperature", "temperature": 1.3}).double()
    by_hand_ = load(folder).double()
    with torch.no_grad():
        for layer in by_hand_.get_decoder().layers:
            layer.self_attn.q_proj.weight.div_(1.3)
    torch.testing.assert_close(logits(warm), logits(by_hand_), atol=1e-10, rtol=1e-10)
    assert not torch.allclose(logits(warm), logits(load(folder).double()))
