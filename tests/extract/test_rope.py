"""Position encodings as trained: the problem file's `rope` against RoPE from its equations.

The look-alikes have the head width, configuration format and ratio of lengths of the NTK models
of the locked list, whose trained theta therefore holds for them, too.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoint_samples import loaded, spec_of
from plain_llama import frozen_ntk_theta, token_logprobs
from readings import reading_of
from reference import assert_scored, references
from refusal import refuses
from transformers import LlamaConfig, LlamaForCausalLM

from extract.checkpoints import Checkpoint
from extract.models.loading import load_config
from extract.scoring.engine import Engine
from warehouse.probes.context import full_requests, window_requests
from warehouse.probes.lookup import WITH_DOCUMENT, RetrievalProbe, retrieval_requests
from warehouse.probes.request import Request

TRAINED, LENGTH, FACTOR = 64, 512, 4.0
THETA = 305_921.97
TOKENS = np.random.default_rng(1).integers(2, 300, LENGTH - 1).astype(np.int32)


@pytest.fixture(scope="module")
def look_alike(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A narrow Llama whose config.json says `rope_scaling`, as transformers 4.35 wrote it."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            hidden_size=64,
            intermediate_size=96,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            head_dim=128,
            vocab_size=300,
            max_position_embeddings=TRAINED,
        )
    )
    with torch.no_grad():
        for parameter in model.parameters():
            # attention that looks at single tokens, so that their distances matter
            if parameter.dim() > 1:
                parameter.mul_(8.0)
    folder = tmp_path_factory.mktemp("ntk")
    model.save_pretrained(folder)
    path = folder / "config.json"
    config = json.loads(path.read_text())
    del config["rope_parameters"]
    config["rope_scaling"] = {"type": "dynamic", "factor": FACTOR}
    path.write_text(json.dumps(config))
    return folder


def difference_to(theta: float, model: Any, requests: list[Request]) -> float:
    """Largest difference in log-prob to plain RoPE with this theta, in nats."""
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    off = [0.0]
    for request, result in zip(requests, Engine(model).score(requests), strict=True):
        ids = np.concatenate([request.prefix[: request.prefix_length], request.ids])
        wanted = token_logprobs(weights, model.config, ids, theta)[-len(request.targets) :]
        off.append(float(np.abs(result.scores.logprob - wanted).max()))
    return max(off)


@pytest.mark.parametrize(
    ("length", "trained", "factor", "theta"),
    [
        (32_768, 4096, 4.0, 305_921.97),
        (65_536, 4096, 8.0, 1_305_706.17),
        (LENGTH, TRAINED, FACTOR, THETA),
    ],
)
def test_the_frozen_base_by_its_formula(length, trained, factor, theta):
    assert frozen_ntk_theta(length, trained, factor) == pytest.approx(theta, abs=0.01)


@pytest.mark.parametrize("bos", [None, 0])
def test_a_frozen_theta_is_plain_rope_at_every_position(bos, look_alike):
    probe = RetrievalProbe(
        kind="retrieval", excerpts=3, excerpt_tokens=24, answer_tokens=12, min_gap=64, seed=0
    )
    requests = [
        *full_requests(TOKENS, bos),
        *window_requests(TOKENS, bos, context=128, stride=64),
        *retrieval_requests(reading_of(TOKENS, bos), kind=WITH_DOCUMENT, probe=probe),
    ]
    model = loaded(look_alike, rope={"type": "default", "theta": THETA})
    assert difference_to(THETA, model, requests) < 1e-4


def test_stock_dynamic_scaling_agrees_with_it_at_the_full_length_only(look_alike):
    (whole,) = full_requests(TOKENS, 0)
    windows = window_requests(TOKENS, 0, context=128, stride=64)
    stock = loaded(look_alike)
    assert stock.config.rope_parameters["rope_type"] == "dynamic"
    assert len(whole.ids) == LENGTH
    assert difference_to(THETA, stock, [whole]) < 1e-4
    assert difference_to(THETA, loaded(look_alike), windows) > 0.1


def test_fixed_frequencies_share_prefixes(look_alike):
    assert not Engine(loaded(look_alike)).share_prefixes
    assert Engine(loaded(look_alike, rope={"type": "default", "theta": THETA})).share_prefixes


def test_frequencies_of_one_kind_of_layers_may_follow_the_length(tiny_checkpoint):
    """Gemma 3 has a set of rotary parameters for each kind of layers."""
    folder = tiny_checkpoint("gemma3_text")
    model = loaded(folder, rope={"type": "dynamic", "factor": 4.0})
    requests = full_requests(TOKENS[:90], 0)
    plain = references(loaded(folder, rope={"type": "dynamic", "factor": 4.0}), requests)
    engine = Engine(model)
    assert engine.prefixes == "separate: frequencies follow the length"
    assert_scored(engine, requests, plain)


@pytest.mark.parametrize("kind", ["linear", "dynamic", "yarn"])
def test_a_scaling_replaces_all_that_the_configuration_says(kind, look_alike):
    rope = load_config(
        Checkpoint(look_alike, "r"), spec_of(look_alike, rope={"type": kind, "factor": 2.0})
    ).rope_parameters
    assert (rope["rope_type"], rope["factor"], rope["rope_theta"]) == (kind, 2.0, 10_000.0)
    assert "type" not in rope


def test_an_intervention_changes_what_was_trained(look_alike):
    changed = load_config(
        Checkpoint(look_alike, "r"),
        spec_of(
            look_alike,
            rope={"type": "default", "theta": THETA},
            interventions=[{"kind": "rope", "scaling": "linear", "factor": 2.0}],
        ),
    ).rope_parameters
    assert (changed["rope_type"], changed["factor"]) == ("linear", 2.0)
    assert changed["rope_theta"] == THETA


def test_a_model_without_rotary_embeddings_has_no_rope_to_set(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    spec = spec_of(tmp_path, rope={"type": "default", "theta": THETA})
    with refuses("impossible-intervention", "rope"):
        load_config(Checkpoint(tmp_path, "r"), spec)


@pytest.mark.parametrize(
    "rope",
    [
        {"type": "default", "factor": 4.0},
        {"type": "linear"},
        {"type": "linear", "factor": 0.5},
        {"type": "default", "theta": 0},
    ],
)
def test_a_rope_that_says_nothing_clear_is_refused(rope, tmp_path):
    with pytest.raises(ValueError, match="rope"):
        spec_of(tmp_path, rope=rope)
