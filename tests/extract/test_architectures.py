"""Every architecture of the locked list, and some that do things after the backbone."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest
import torch
from reference import assert_scored, references, target_logprobs
from refusal import refuses
from tiny_models import ARCHITECTURES
from tiny_requests import load, requests_of

from extract.failures import NonFiniteLogits
from extract.scoring.budgets import Budgets
from extract.scoring.engine import Engine
from warehouse.probes.context import full_requests
from warehouse.probes.request import Request, span


@pytest.mark.parametrize("bos", [None, 0])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_all_probes_agree_with_plain_logits(architecture, bos, tiny_checkpoint):
    folder = tiny_checkpoint(architecture)
    requests = requests_of(bos)
    plain = references(load(folder), requests)
    engine = Engine(load(folder), budgets=Budgets(100, 30, 64))
    # dynamic scaling follows the length, so a prefix can't be shared between its suffixes
    assert engine.share_prefixes == (architecture != "llama_ntk")
    assert_scored(engine, requests, plain)
    for request, expected in zip(requests, plain, strict=True):
        assert_scored(engine, [request], [expected])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_half_precision_is_as_near_to_float64_as_the_plain_forward_in_it(
    architecture, dtype, tiny_checkpoint
):
    folder, requests = tiny_checkpoint(architecture), requests_of(0)
    model = load(folder, dtype)
    exact, plain = (
        np.concatenate([target_logprobs(each, request) for request in requests])
        for each in (load(folder, dtype).double(), model)
    )
    results = Engine(model, budgets=Budgets(100, 30, 64)).score(requests)
    ours = np.concatenate([result.scores.logprob for result in results])
    assert np.abs(ours - exact).mean() <= 1.5 * np.abs(plain - exact).mean()


@pytest.mark.parametrize("architecture", ["llama", "gemma3_text", "llama_ntk"])
def test_choices_of_one_token_cost_no_more_than_their_prompts(architecture, tiny_checkpoint):
    """A prompt's last state predicts them; a prompt with a longer choice runs its choices."""
    folder = tiny_checkpoint(architecture)
    tokens = np.random.default_rng(6).integers(2, 300, 60).astype(np.int32)
    prompts = {(0, 30): ((5,), (6,), (7,), (8,)), (30, 47): ((5,), (6,)), (47, 60): ((5,), (6, 7))}
    requests = [
        Request(
            segment=0,
            ids=np.array(choice, dtype=np.int32),
            first_target=0,
            positions=span(end, end + len(choice)),
            context_tokens=span(end, end + len(choice)),
            prefix=tokens[start:end],
            prefix_length=end - start,
        )
        for (start, end), choices in prompts.items()
        for choice in choices
    ]
    plain = references(load(folder), requests)
    engine = Engine(load(folder))
    results = assert_scored(engine, requests, plain)
    spent = [result.tokens_processed for result in results]
    if engine.share_prefixes:
        assert (sum(spent[:4]), sum(spent[4:6]), sum(spent[6:])) == (30, 17, 13 + 1 + 2)


def test_equal_requests_are_scored_once(tiny_checkpoint):
    engine = Engine(load(tiny_checkpoint("llama")))
    requests = requests_of(0)
    once, twice = engine.score(requests), engine.score([*requests, *requests])
    assert sum(r.tokens_processed for r in twice) == sum(r.tokens_processed for r in once)
    for first, second, alone in zip(twice, twice[len(requests) :], once, strict=False):
        assert second.tokens_processed == 0
        np.testing.assert_array_equal(first.scores.logprob, second.scores.logprob)
        np.testing.assert_allclose(first.scores.logprob, alone.scores.logprob, atol=1e-5)
    assert engine.score([]) == []


def test_out_of_memory_halves_the_budgets_and_continues(tiny_checkpoint, monkeypatch):
    engine = Engine(load(tiny_checkpoint("llama")), budgets=Budgets(256, 1024, 64))
    requests = requests_of(0)
    plain = references(load(tiny_checkpoint("llama")), requests)
    backbone, sizes = engine.backbone.forward, []

    def limited(*args: Any, **kwargs: Any) -> Any:
        sizes.append(kwargs["input_ids"].numel())
        if sizes[-1] > 128:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return backbone(*args, **kwargs)

    monkeypatch.setattr(engine.backbone, "forward", limited)
    assert_scored(engine, requests, plain)
    assert max(sizes) > 128 and max(sizes[-1:]) <= 128
    # the next document is tried with all of it again
    assert engine.budgets.batch_tokens == 256


def test_what_did_not_fit_is_gone_before_the_next_attempt(tiny_checkpoint, monkeypatch):
    """A traceback keeps the frames of the failed forward, and with them its tensors."""
    engine = Engine(load(tiny_checkpoint("llama")))
    backbone, left = engine.backbone.forward, []

    def once_too_much(*args: Any, **kwargs: Any) -> Any:
        if not left:
            large = torch.zeros(8)
            left.append(weakref.ref(large))
            raise torch.OutOfMemoryError("CUDA out of memory")
        assert left[0]() is None
        return backbone(*args, **kwargs)

    monkeypatch.setattr(engine.backbone, "forward", once_too_much)
    monkeypatch.setattr("extract.devices.gc.collect", lambda: 0)
    engine.score(requests_of(0))
    assert left


def test_memory_that_never_suffices_is_refused(tiny_checkpoint, monkeypatch):
    engine = Engine(load(tiny_checkpoint("llama")))

    def too_much(*args: Any, **kwargs: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(engine.backbone, "forward", too_much)
    with refuses("out-of-memory"):
        engine.score(requests_of(0))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_prefix_in_pieces_gives_what_one_forward_gives(
    architecture, tiny_checkpoint, monkeypatch
):
    folder = tiny_checkpoint(architecture)
    requests = requests_of(0)
    plain = references(load(folder), requests)
    engine = Engine(load(folder), budgets=Budgets(1024, 1024, 64, 70, 70))
    backbone, sizes = engine.backbone.forward, []

    def counted(*args: Any, **kwargs: Any) -> Any:
        sizes.append(kwargs["input_ids"].shape[1])
        return backbone(*args, **kwargs)

    monkeypatch.setattr(engine.backbone, "forward", counted)
    assert_scored(engine, requests, plain)
    # frequencies that follow the length would be those of the piece
    assert (max(sizes) > 70) == (architecture == "llama_ntk")
    assert_scored(engine, requests[:1], plain[:1])
    assert sizes[-1] == 91 or sizes[-3:] == [35, 35, 21]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_non_finite_logits_stop_the_unit(value, tiny_checkpoint):
    model = load(tiny_checkpoint("llama"))
    engine = Engine(model)
    with torch.no_grad():
        model.get_input_embeddings().weight[5] = value
    tokens = np.full(30, 5, dtype=np.int32)
    with pytest.raises(NonFiniteLogits):
        engine.score(full_requests(tokens, 0))


def test_a_tiled_vocabulary_gives_the_same_statistics(tiny_checkpoint, monkeypatch):
    folder = tiny_checkpoint("llama")
    requests = requests_of(0)
    plain = references(load(folder), requests)
    monkeypatch.setattr("extract.scoring.head.CPU_TILE", 37)
    monkeypatch.setattr("extract.scoring.head.CPU_ROWS", 7)
    assert_scored(Engine(load(folder)), requests, plain)


@pytest.mark.parametrize("total", [14, 15, 16, 17, 18, 31, 32, 33])
def test_a_window_that_is_just_full(total, tiny_checkpoint):
    """transformers 37574, mlx-lm 390: a cache of exactly a sliding window's length."""
    folder = tiny_checkpoint("mistral")
    assert load(folder).config.sliding_window == 16
    ids = np.random.default_rng(3).integers(2, 300, 400).astype(np.int32)
    requests = [
        Request(0, ids[start : start + size], 0, span(0, size), span(0, size), ids, total - 4)
        for start, size in ((100, 4), (200, 4), (300, 1))
    ]
    assert_scored(Engine(load(folder)), requests, references(load(folder), requests))
