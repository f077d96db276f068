"""The real checkpoints of minilong: every position of every probe against plain logits."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from readings import reading_of
from real_models import real_model, real_text
from reference import FACTOR, assert_scored, plain_logprobs, references, target_logprobs

from extract.scoring.divergence import Comparer, states_of
from extract.scoring.engine import Engine
from warehouse.probes.context import full_requests, window_requests
from warehouse.probes.lookup import (
    WITH_DOCUMENT,
    WITHOUT_DOCUMENT,
    RetrievalProbe,
    retrieval_requests,
)
from warehouse.probes.request import Request
from warehouse.problem.spec import load_problem

# the first one may have to download and convert the checkpoints
pytestmark = [pytest.mark.models, pytest.mark.slow, pytest.mark.timeout(900)]

# float64 forwards of a vocabulary of 262,144 are slow on processors
TOKENS = 192
RETRIEVAL = RetrievalProbe(
    kind="retrieval", excerpts=2, excerpt_tokens=16, answer_tokens=8, min_gap=48, seed=0
)


def requests_of(tokens: np.ndarray[Any, Any], bos: int | None) -> list[Request]:
    reading = reading_of(tokens, bos)
    return [
        *full_requests(tokens, bos),
        *window_requests(tokens, bos, context=64, stride=64),
        *retrieval_requests(reading, kind=WITH_DOCUMENT, probe=RETRIEVAL),
        *retrieval_requests(reading, kind=WITHOUT_DOCUMENT, probe=RETRIEVAL),
    ]


@pytest.mark.parametrize(
    ("name", "prepends_bos", "other_bos"),
    [("smollm2-135m", False, 1), ("gemma3-270m", True, None)],
)
def test_log_probs_agree_at_every_position(name, prepends_bos, other_bos, real_workspace):
    own, tokenizer = real_model(real_workspace, name)
    assert (tokenizer.bos is not None) == prepends_bos

    text = real_text(real_workspace, 49)
    encoded = tokenizer.encode(text)
    tokens = encoded.ids[:TOKENS]
    # spans are those of the text itself
    pieces = [text[a:b] for a, b in zip(encoded.char_start, encoded.char_end, strict=True)]
    assert "".join(pieces[:TOKENS]) == text[: encoded.char_end[TOKENS - 1]]

    cases = {tokenizer.bos: requests_of(tokens, tokenizer.bos)}
    cases[other_bos] = [requests_of(tokens[:64], other_bos)[0]]
    plain = {bos: references(own, requests) for bos, requests in cases.items()}
    engine = Engine(own)
    assert engine.share_prefixes
    for bos, requests in cases.items():
        assert_scored(engine, requests, plain[bos])
    requests = cases[tokenizer.bos]
    for index in (1, len(requests) - 3, len(requests) - 1):
        assert_scored(engine, [requests[index]], [plain[tokenizer.bos][index]])


def test_columns_of_numbers_are_split_as_the_gguf_file_states(real_workspace):
    """Digits alone, then GPT-2's pattern: 837.03 nats; transformers reads 1,140 tokens, 904.25."""
    rows = "".join(f"row{n:6}{37 * n % 1000:8}{n * n:8}{n % 7:4}\n" for n in range(60))
    own, tokenizer = real_model(real_workspace, "smollm2-135m")
    ids = tokenizer.encode(f"table of counts\n{rows}").ids
    (scored,) = Engine(own).score(full_requests(ids, tokenizer.bos))
    assert len(ids) == 900
    assert -scored.scores.logprob.sum() == pytest.approx(837.0318, abs=0.01)


@pytest.mark.parametrize(
    ("reference", "model"),
    [("smollm2-135m", "smollm2-135m-4-bit"), ("gemma3-270m", "gemma3-270m-noise-0.1")],
)
def test_divergence_is_as_near_to_float64_as_the_plain_models(reference, model, real_workspace):
    """Its error is the rounding of float32 states and logits, which no float32 model is without."""
    text = real_text(real_workspace, 3)
    plain, exact, engines = [], [], []
    for name in (reference, model):
        own, tokenizer = real_model(real_workspace, name)
        (request,) = full_requests(tokenizer.encode(text).ids[:TOKENS], tokenizer.bos)
        plain.append(plain_logprobs(own, request))
        exact.append(plain_logprobs(copy.deepcopy(own).double(), request))
        engines.append(Engine(own))
    first, second = engines
    comparer = Comparer(second, first.head_weights)
    found = comparer.score(request, states_of(first, request)).divergence
    assert found is not None
    for ours, *orders in (
        (found.kl_reference_model, plain, exact),
        (found.kl_model_reference, plain[::-1], exact[::-1]),
    ):
        plainly, truth = ((p.exp() * (p - q)).sum(-1).numpy() for p, q in orders)
        assert abs(ours.mean(dtype=np.float64) / plainly.mean() - 1) < 2e-6
        assert np.abs(ours - truth).max() < FACTOR * np.abs(plainly - truth).max()


def test_bfloat16_is_as_near_to_float32_as_the_plain_forward_in_it(real_workspace):
    full, tokenizer = real_model(real_workspace, "smollm2-135m")
    half, _ = real_model(real_workspace, "smollm2-135m", "bfloat16")
    requests = full_requests(tokenizer.encode(real_text(real_workspace, 3)).ids[:64], None)
    truth, plain = (target_logprobs(model, requests[0]) for model in (full, half))
    ours = Engine(half).score(requests)[0].scores.logprob
    off, own = ours - truth, plain - truth
    assert np.sqrt((off**2).mean()) < 1.5 * np.sqrt((own**2).mean())
    assert ours.dtype == np.float32
    # float32 logits of bfloat16 states have few exact ties, unlike bfloat16 logits
    assert len(np.unique(ours)) > 0.9 * len(ours)


def test_an_attention_window_hides_earlier_tokens(real_workspace):
    spec = load_problem("minilong", real_workspace).model("smollm2-135m-window-512")
    narrow = spec.interventions[0].model_copy(update={"window": 8, "sinks": 2})
    model, _ = real_model(real_workspace, spec.model_copy(update={"interventions": (narrow,)}))
    tokens = np.random.default_rng(0).integers(100, 40_000, 128).astype(np.int32)
    requests = requests_of(tokens, None)
    plain = references(model, requests)
    engine = Engine(model)
    assert_scored(engine, requests, plain)
    # in the first layer a changed token reaches the window after it and nothing else
    first = model.get_decoder().layers[0]
    seen: list[torch.Tensor] = []
    handle = first.register_forward_hook(lambda _m, _a, out: seen.append(_hidden(out)))
    for changed in (5, 7):
        tokens[50] = changed
        model(torch.from_numpy(tokens[None]).long())
    handle.remove()
    difference = (seen[0] - seen[1]).abs().amax(-1)[0]
    assert (difference[:50] == 0).all()
    assert (difference[50:58] > 0).all()
    assert (difference[58:] == 0).all()


def _hidden(output: Any) -> torch.Tensor:
    tensor = output[0] if isinstance(output, tuple) else output
    assert isinstance(tensor, torch.Tensor)
    return tensor.detach().clone()


def test_every_model_of_minilong_is_a_model_of_its_own(real_workspace):
    """2,300 tokens of a real document, longer than the widest window: no two models agree."""
    problem = load_problem("minilong", real_workspace)
    assert len(problem.ranked_models) >= 20
    text = real_text(real_workspace, 0)
    last: dict[str, np.ndarray[Any, Any]] = {}
    for spec in problem.ranked_models:
        model, tokenizer = real_model(real_workspace, spec)
        ids = tokenizer.encode(text).ids[:2300]
        with torch.inference_mode():
            state = model.get_decoder()(torch.from_numpy(ids[None]).long()).last_hidden_state[0, -1]
        last[spec.full_id] = state.double().numpy()
        assert np.isfinite(last[spec.full_id]).all(), spec.full_id
        same_size = [(n, s) for n, s in last.items() if n != spec.full_id and len(s) == len(state)]
        for name, other in same_size:
            # two runs of one model differ in rounding only: 1e-5 of its size
            apart = np.linalg.norm(other - last[spec.full_id]) / np.linalg.norm(other)
            assert apart > 1e-3, f"{spec.full_id} is {name} again"
