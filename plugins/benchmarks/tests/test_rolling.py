"""A whole text in windows: every token once, after what the plain forward would see."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from reference import target_logprobs
from tiny_requests import load

from extract.checkpoints import Checkpoint
from extract.scoring.engine import Engine
from extract.tokenization import load_tokenizer
from plugins.benchmarks.harness.encoding import PairEncoder, TooLong
from warehouse.probes.context import full_requests
from warehouse.problem.models import ModelSpec

TEXT = "the warehouse reads every token in place and the metric is a query over tokens"


def encoder_of(folder: Path, longest: int = 500, too_long: TooLong = "cut") -> PairEncoder:
    spec = ModelSpec.model_validate(
        {"full_id": "tiny/x", "family": "tiny", "source": {"kind": "local", "path": str(folder)}}
    )
    return PairEncoder(load_tokenizer(Checkpoint(folder, "r"), spec), longest, too_long)


@pytest.mark.parametrize("has_bos", [True, False])
def test_a_text_has_the_log_probability_of_the_plain_forward(has_bos, tiny_checkpoint):
    folder = tiny_checkpoint("llama", has_bos)
    encoder = encoder_of(folder)
    model = load(folder)
    (pair,) = encoder.rolling(TEXT)
    ids = encoder.tokenizer.encode(TEXT).ids
    np.testing.assert_array_equal(pair.continuation, ids)
    np.testing.assert_array_equal(pair.context, [encoder.prefix])
    (own,) = full_requests(ids, encoder.prefix)
    (scored,) = Engine(model).score([pair.request(0, 0)])
    expected = target_logprobs(model, own)
    np.testing.assert_allclose(scored.scores.logprob, expected, atol=1e-4)


def test_bos_behind_bos_is_the_harness_s_alone(tiny_checkpoint):
    encoder = encoder_of(tiny_checkpoint("llama"), too_long="harness")
    (pair,) = encoder.rolling(TEXT)
    bos = encoder.tokenizer.bos
    assert pair.context.tolist() == [bos] and pair.continuation[0] == bos


@pytest.mark.parametrize("longest", [1, 2, 7, 16, 17, 400])
@pytest.mark.parametrize("too_long", ["cut", "harness"])
@pytest.mark.parametrize("has_bos", [True, False])
def test_windows_score_every_token_once_within_the_context(
    longest, too_long, has_bos, tiny_checkpoint
):
    encoder = encoder_of(tiny_checkpoint("llama", has_bos), longest, too_long)
    ids = encoder.tokenizer.encode(TEXT).ids
    doubled = has_bos and too_long == "harness"
    pairs = encoder.rolling(TEXT)
    whole = np.concatenate([pair.continuation for pair in pairs])
    np.testing.assert_array_equal(whole, [0, *ids] if doubled else ids)
    firsts = np.cumsum([0, *(len(pair.continuation) for pair in pairs)])[:-1]
    begun = int(has_bos and not doubled)
    np.testing.assert_array_equal([pair.first for pair in pairs], firsts + begun)
    for pair in pairs:
        # the last target is no input
        assert len(pair.context) + len(pair.continuation) - 1 <= longest
    if longest > 1:
        begins = {int(pair.context[0]) == 0 for pair in pairs[1:]}
        assert begins <= {has_bos and too_long == "cut"}
    # of an empty text, the harness scores the tokenizer's BOS behind its own
    assert [p.continuation.tolist() for p in encoder.rolling("")] == [[0]] * doubled


@pytest.mark.parametrize("has_bos", [True, False])
@pytest.mark.parametrize("prompt", ["", " ", "  \n "])
def test_a_prompt_of_white_space_is_read_after_bos_or_the_end_of_text(
    prompt, has_bos, tiny_checkpoint
):
    encoder = encoder_of(tiny_checkpoint("llama", has_bos))
    pair = encoder.pair(prompt, " yes")
    assert pair.context.tolist() == [encoder.prefix] and len(pair.continuation)
    ids = encoder.tokenizer.encode(f"{prompt} yes").ids
    np.testing.assert_array_equal(pair.continuation, ids)
    (start, end) = pair.char_start[0], pair.char_end[-1]
    assert (start, end) == (0, len(f"{prompt} yes"))
    ids, cut = encoder.prompt(prompt, 5)
    assert len(ids) and cut == 0


@pytest.mark.parametrize("has_bos", [True, False])
def test_pairs_are_the_harness_s_own(has_bos, tiny_checkpoint):
    """With white space behind the prompt, and with a BOS that it begins with: no second one."""
    HFLM = pytest.importorskip("lm_eval.models.huggingface").HFLM
    folder = tiny_checkpoint("llama", has_bos)
    harness = HFLM(pretrained=str(folder), device="cpu", dtype="float32")
    encoder = encoder_of(folder)
    for begin, space in product(("", "<s>"), ("", " ", "\n", " \n", "  ", "\t")):
        texts = f"{begin}the metric{space}", " is a query"
        pair = encoder.pair(*texts)
        assert [pair.context.tolist(), pair.continuation.tolist()] == list(
            harness._encode_pair(*texts)
        ), texts


@pytest.mark.parametrize(
    ("has_bos", "too_long", "kept"), [(True, "cut", 1), (True, "harness", 0), (False, "cut", 0)]
)
def test_a_cut_prompt_keeps_its_bos(has_bos, too_long, kept, tiny_checkpoint):
    encoder = encoder_of(tiny_checkpoint("llama", has_bos), 9, too_long)
    ids = encoder.tokenizer.encode(TEXT).ids.tolist()
    context, cut = encoder.prompt(TEXT, 2)
    assert context.tolist() == [0] * kept + ids[kept - 7 :]
    assert cut == len(ids) + has_bos - 7


def test_a_text_of_the_context_s_length_is_one_window(tiny_checkpoint):
    folder = tiny_checkpoint("llama")
    count = len(encoder_of(folder).tokenizer.encode(TEXT).ids)
    assert len(encoder_of(folder, count).rolling(TEXT)) == 1
    assert len(encoder_of(folder, count - 1).rolling(TEXT)) == 2
