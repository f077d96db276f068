"""Faults that other projects had, tried on ours; each test names the reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pytest
from reference import assert_agree, references, target_logprobs
from tiny_requests import load

from extract.scoring.engine import Engine
from extract.tokenization import DocumentTokenizer
from warehouse.errors import TokenmartError
from warehouse.probes.context import full_requests
from warehouse.probes.request import Request, span

IDS = np.random.default_rng(3).integers(2, 300, 400).astype(np.int32)


def behind(prefix: int, start: int, size: int) -> Request:
    """`size` tokens from `start`, behind the first `prefix` tokens."""
    places = span(0, size)
    return Request(0, IDS[start : start + size], 0, places, places, IDS[:prefix], prefix)


def assert_plain(folder: Path, requests: list[Request]) -> None:
    expected = references(load(folder), requests)
    found = Engine(load(folder)).score(requests)
    for result, reference in zip(found, expected, strict=True):
        assert_agree(result.scores, reference)


@pytest.mark.parametrize("total", [14, 15, 16, 17, 18, 31, 32, 33])
def test_a_window_that_is_just_full(total: int, tiny_checkpoint: Callable[..., Path]) -> None:
    """transformers 37574, mlx-lm 390: a cache of exactly a sliding window's length."""
    folder = tiny_checkpoint("mistral")
    assert load(folder).config.sliding_window == 16
    prefix = total - 4
    assert_plain(folder, [behind(prefix, 100, 4), behind(prefix, 200, 4), behind(prefix, 300, 1)])


@pytest.mark.parametrize("architecture", ["llama", "mistral", "qwen2"])
def test_several_tokens_behind_a_cache(
    architecture: str, tiny_checkpoint: Callable[..., Path]
) -> None:
    """pytorch 110144, llama 899: a causal mask that is aligned to the wrong corner."""
    assert_plain(tiny_checkpoint(architecture), [behind(90, 100, 20), behind(90, 130, 7)])


def test_masks_of_our_own_are_not_replaced(tiny_checkpoint: Callable[..., Path]) -> None:
    """transformers 29525: packed suffixes saw each other where 4-d masks were ignored."""
    prompts = [
        Request(0, IDS[at : at + 9], 0, span(0, 9), span(0, 9), IDS[begin : begin + 30], 30)
        for begin in (0, 40, 80)
        for at in (200, 220, 240)
    ]
    assert_plain(tiny_checkpoint("llama"), prompts)


def test_a_target_is_predicted_by_the_token_before(tiny_checkpoint: Callable[..., Path]) -> None:
    """lighteval 1252 (unshifted logits); lm-evaluation-harness 3333 and 1586 (BOS, once)."""
    model = load(tiny_checkpoint("llama"))
    (request,) = full_requests(IDS[:50], 0)
    assert request.ids.tolist() == [0, *IDS[:50]]
    (found,) = Engine(load(tiny_checkpoint("llama"))).score([request])
    np.testing.assert_allclose(found.scores.logprob, target_logprobs(model, request), atol=2e-4)


def test_spans_without_length_are_refused() -> None:
    """tokenizers 1553, 1688: Llama 3 gave (0, 0), (6, 6)."""

    class Library:
        bos_token_id = None
        added_tokens_decoder = MappingProxyType({})
        backend_tokenizer = SimpleNamespace(to_str=str)

        def __call__(self, text: str, **_: object) -> dict[str, object]:
            whole = {"input_ids": [5, 6], "offset_mapping": [(0, 6), (6, 12)]}
            empty = {"input_ids": [5, 6], "offset_mapping": [(0, 0), (6, 6)]}
            return empty if text == "Sample input" else whole

    tokenizer = DocumentTokenizer(Library(), SimpleNamespace(bos="never", full_id="m"))
    assert tokenizer.encode("sample input").char_end.tolist() == [6, 12]
    with pytest.raises(TokenmartError) as caught:
        tokenizer.encode("Sample input")
    assert (caught.value.code, caught.value.where) == ("lost-text", "character 0")


@pytest.mark.parametrize("text", ["i ⭢ j", "Karadžić 👍🏽", "e\u0301 …………", "T\x10his \u202f…"])
def test_spans_stay_within_the_text(text: str, tiny_checkpoint: Callable[..., Path]) -> None:
    """tokenizers 156, 977, 663: pieces of one character, and normalised ones."""
    from transformers import AutoTokenizer

    library = AutoTokenizer.from_pretrained(tiny_checkpoint("llama"))
    found = DocumentTokenizer(library, SimpleNamespace(bos="never", full_id="m")).encode(text)
    assert found.char_end.max() <= len(text) and (found.char_start <= found.char_end).all()
    assert (np.diff(found.char_start) >= 0).all()
    covered = {
        at for a, b in zip(found.char_start, found.char_end, strict=True) for at in range(a, b)
    }
    assert all(at in covered for at, character in enumerate(text) if character.isalnum())
