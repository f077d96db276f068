"""What is compared at load, how near it must be, and what happens where it is not."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from real_models import real_model, real_text
from refusal import refuses
from tiny_requests import load
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from extract.scoring import packing, self_check
from extract.scoring.engine import Engine
from extract.scoring.head import LogitTransform
from warehouse.probes.request import Ids, Request

LENGTH = self_check.TEXT_TOKENS


def missing_one_token(ids: Ids) -> Request:
    """The suffix of the check, blind for the last token of its prefix."""
    right = self_check.suffix_request(ids, self_check.SUFFIX_STARTS[0])
    return dataclasses.replace(right, prefix_length=right.prefix_length - 1)


def test_real_text_is_taken_where_there_is_some():
    sample = np.arange(1000, 1200, dtype=np.int32)
    np.testing.assert_array_equal(self_check.check_text(sample, 50_000), sample[:LENGTH])
    made = self_check.check_text(sample[: LENGTH - 1], 50_000)
    np.testing.assert_array_equal(made, self_check.check_text(None, 50_000))
    assert len(made) == LENGTH and made.max() < LENGTH


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_transform_after_the_head_is_refused_in_every_dtype(dtype, factor, tiny_checkpoint):
    model = AutoModelForCausalLM.from_pretrained(tiny_checkpoint("llama"), dtype=dtype).eval()
    forward = model.forward

    def scaled(*args: Any, **kwargs: Any) -> Any:
        output = forward(*args, **kwargs)
        output.logits = output.logits * factor
        return output

    model.forward = scaled
    with refuses("unsupported-architecture"):
        Engine(model)


def test_a_transform_between_backbone_and_head_is_refused(tiny_checkpoint):
    model = load(tiny_checkpoint("llama"))
    model.get_output_embeddings().register_forward_pre_hook(lambda _, args: (args[0] * 1.01,))
    with refuses("unsupported-architecture"):
        Engine(model)


def test_a_suffix_that_misses_one_token_is_refused(tiny_checkpoint):
    engine = Engine(load(tiny_checkpoint("llama")))
    (wrong,) = engine.score([missing_one_token(engine._reference.ids)])
    with refuses("unsupported-architecture"):
        self_check.compare(engine.model, "suffix", wrong.scores, engine._reference)


def test_packed_groups_that_see_each_other_are_refused(tiny_checkpoint, monkeypatch):
    def together(group: Any, *columns: Any) -> Any:
        return visible_tokens(group * 0, *columns)

    visible_tokens = packing.visible_tokens
    assert Engine(load(tiny_checkpoint("llama"))).prefixes == "shared"
    monkeypatch.setattr(packing, "visible_tokens", together)
    with refuses("separate-prefixes"):
        Engine(load(tiny_checkpoint("llama")))


def test_draws_that_happen_to_be_small_refuse_no_model(tiny_checkpoint, monkeypatch):
    """Two draws of a model that roundings move far at some tokens alone may miss all of these."""
    monkeypatch.setattr(self_check, "LOGPROB_STEPS", 0)
    engine = Engine(load(tiny_checkpoint("llama")), check=False)
    found = engine._reference
    lucky = dataclasses.replace(found, redrawn=found.redrawn / 1e3, head_error=0.0)
    (plain,) = engine.score([self_check.whole(found.ids)])
    with refuses("unsupported-architecture"):
        self_check.compare(engine.model, "plain", plain.scores, lucky)
    assert self_check.check_paths(engine, lucky) == "shared"

    more = self_check.drawn_more(engine.model, found, LogitTransform.of(engine.config))
    assert more.redrawn.shape == (self_check.ROUNDS * self_check.REDRAWN, LENGTH - 1)
    assert len(np.unique(more.redrawn, axis=0)) == len(more.redrawn)
    sizes = np.sqrt((more.redrawn**2).mean(axis=1))
    assert sizes.max() < 10 * sizes.min()
    # and what is wrong stays wrong
    (wrong,) = engine.score([missing_one_token(found.ids)])
    with refuses("unsupported-architecture"):
        self_check.compare(engine.model, "suffix", wrong.scores, more)


@pytest.mark.parametrize("width", [8, 32])
def test_a_narrow_model_is_checked_to_a_step_of_its_log_probs(width):
    """Its logits are nearly exact; what is rounded is the log-prob near ln 49,152."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=49_152,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
    )
    engine = Engine(LlamaForCausalLM(config).eval())
    own = engine._reference
    (plain,) = engine.score([self_check.whole(own.ids)])
    step = np.spacing(np.float32(np.abs(own.logprob).max()))
    assert step > 4 * own.head_error
    # what no rounding explains is refused, in one token and in all
    for wrong in (np.zeros(LENGTH - 1), np.full(LENGTH - 1, 6 * step)):
        wrong[-1] = 6 * step + np.abs(own.redrawn).max() * self_check.WORST_FACTOR
        shifted = dataclasses.replace(plain.scores, logprob=own.logprob - wrong)
        with refuses("unsupported-architecture"):
            self_check.compare(engine.model, "plain", shifted, own)


def test_redrawn_roundings_are_as_large_as_the_dtypes(tiny_checkpoint):
    spread = {}
    for dtype in (torch.float32, torch.bfloat16):
        model = AutoModelForCausalLM.from_pretrained(tiny_checkpoint("llama"), dtype=dtype).eval()
        spread[dtype] = np.sqrt((Engine(model)._reference.redrawn ** 2).mean())
    ratio = torch.finfo(torch.bfloat16).eps / torch.finfo(torch.float32).eps
    # a random model is chaotic in bfloat16, so that the differences stop growing
    assert 100 < spread[torch.bfloat16] / spread[torch.float32] < 10 * ratio
    assert spread[torch.float32] < 1e-3


def test_the_locked_architectures_must_share_prefixes(tiny_checkpoint, monkeypatch):
    """What takes no mask is an error for them; others go on without, and say so."""

    def without_masks(model: Any) -> Any:
        forward = model.get_decoder().forward

        def refusing(*args: Any, **kwargs: Any) -> Any:
            if kwargs.get("attention_mask") is not None:
                raise ValueError("no masks here")
            return forward(*args, **kwargs)

        monkeypatch.setattr(model.get_decoder(), "forward", refusing)
        return model

    for architecture in ("llama", "mistral", "qwen2"):
        with refuses("separate-prefixes", architecture):
            Engine(without_masks(load(tiny_checkpoint(architecture))))
    engine = Engine(without_masks(load(tiny_checkpoint("cohere"))))
    assert engine.prefixes == "separate: no masks here"
    assert not engine.share_prefixes


@pytest.mark.models
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("name", "dtype"),
    # processors without bfloat16 instructions take minutes for the larger model
    [("smollm2-135m", "float32"), ("gemma3-270m", "float32"), ("smollm2-135m", "bfloat16")],
)
def test_real_models_pass_and_a_missing_token_does_not(name, dtype, real_workspace):
    model, tokenizer = real_model(real_workspace, name, dtype)
    engine = Engine(model, sample=tokenizer.encode(real_text(real_workspace, 3)).ids)
    assert engine.prefixes == "shared"
    (wrong,) = engine.score([missing_one_token(engine._reference.ids)])
    with refuses("unsupported-architecture"):
        self_check.compare(engine.model, "suffix", wrong.scores, engine._reference)
