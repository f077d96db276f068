"""Interventions change what they say, the same way every time, and reach the fingerprint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from reference import assert_agree, references
from tiny_requests import requests_of

from extract.checkpoints import Checkpoint
from extract.scoring.engine import Engine
from extract.scoring.loading import load_model
from warehouse.errors import TokenmartError
from warehouse.problem.spec import ModelSpec

IDS = torch.arange(2, 42)[None]


def spec_of(folder: Path, *interventions: dict[str, Any]) -> ModelSpec:
    return ModelSpec.model_validate(
        {
            "full_id": "tiny/x",
            "family": "tiny",
            "source": {"kind": "local", "path": folder},
            "interventions": interventions,
        }
    )


def load(folder: Path, *interventions: dict[str, Any]) -> Any:
    return load_model(
        Checkpoint(folder, "r"), spec_of(folder, *interventions), device="cpu", dtype="float32"
    )


def logits(model: Any) -> torch.Tensor:
    with torch.inference_mode():
        output: torch.Tensor = model(IDS).logits
    return output


def test_rope_scaling_equals_the_same_setting_in_the_configuration(
    tiny_checkpoint: Callable[..., Path],
) -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    folder = tiny_checkpoint()
    changed = load(folder, {"kind": "rope", "scaling": "linear", "factor": 2.0, "theta": 500.0})
    config = AutoConfig.from_pretrained(folder)
    config.rope_parameters = {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0}
    by_hand = AutoModelForCausalLM.from_pretrained(folder, config=config)
    torch.testing.assert_close(logits(changed), logits(by_hand))
    assert not torch.allclose(logits(changed), logits(load(folder)))


def test_rope_of_an_architecture_with_two_kinds_of_layers(
    tiny_checkpoint: Callable[..., Path],
) -> None:
    folder = tiny_checkpoint("gemma3_text")
    changed = load(folder, {"kind": "rope", "theta": 123.0})
    rope = changed.config.rope_parameters
    assert rope["full_attention"]["rope_theta"] == 123.0
    assert rope["sliding_attention"]["rope_theta"] != 123.0


def test_noise_is_seeded_and_scales_with_each_matrix(tiny_checkpoint: Callable[..., Path]) -> None:
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
def test_dropped_layers_leave_a_working_shorter_model(
    architecture: str, tiny_checkpoint: Callable[..., Path]
) -> None:
    folder = tiny_checkpoint(architecture)
    # in float64, so that what is left of the difference is no processor's
    short = load(folder, {"kind": "drop_layers", "layers": [-1, 0]}).double()
    assert len(short.get_decoder().layers) == 1
    with torch.inference_mode():
        cached = short(IDS[:, :20], use_cache=True)
        rest = short(IDS[:, 20:], past_key_values=cached.past_key_values).logits
    torch.testing.assert_close(rest, logits(short)[:, 20:], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("layers", [[0, 1, 2], [3], [-4]])
def test_impossible_layers_are_refused(
    layers: list[int], tiny_checkpoint: Callable[..., Path]
) -> None:
    with pytest.raises(TokenmartError, match=r"drop_layers: .* of 3 layers; give indices"):
        load(tiny_checkpoint(), {"kind": "drop_layers", "layers": layers})


@pytest.mark.parametrize("trunk_tokens", [None, 40])
@pytest.mark.parametrize("architecture", ["llama", "gemma3_text"])
def test_an_attention_window_holds_in_trunks_pieces_and_branches(
    architecture: str, trunk_tokens: int | None, tiny_checkpoint: Callable[..., Path]
) -> None:
    window = {"kind": "attention_window", "window": 12, "sinks": 2}
    requests = requests_of(0)
    plain = references(load(tiny_checkpoint(architecture), window), requests)
    engine = Engine(load(tiny_checkpoint(architecture), window), trunk_tokens=trunk_tokens)
    assert engine.share_trunks
    for result, expected in zip(engine.score(requests), plain, strict=True):
        assert_agree(result.scores, expected)
