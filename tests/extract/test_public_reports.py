"""Faults that other projects had, tried on ours; each test names the reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pytest
from reference import assert_agree, references
from tiny_requests import load

from extract.scoring.engine import Engine
from extract.tokenization import DocumentTokenizer
from warehouse.errors import TokenmartError
from warehouse.probes.context import window_requests
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


@pytest.mark.parametrize(
    "text",
    [
        "i ⭢ j",
        "Karadžić 👍🏽",
        "e\u0301 …………",
        "T\x10his \u202f…",
        "A, <mask> AllenNLP sentence.",
        "A, naïve [MASK] AllenNLP sentence.",
        "x</s>y <s> z <unk>.",
        "   17 yo  with\r\n\u200bhigh",
    ],
)
def test_spans_stay_within_the_text(text: str, tiny_checkpoint: Callable[..., Path]) -> None:
    """tokenizers 156, 977, 663: pieces of one character, and normalised ones.

    transformers 3058, 3796, 15694: spans behind a special token's text, spaces in front.
    """
    from transformers import AutoTokenizer

    library = AutoTokenizer.from_pretrained(tiny_checkpoint("llama"))
    found = DocumentTokenizer(library, SimpleNamespace(bos="never", full_id="m")).encode(text)
    assert found.char_end.max() <= len(text) and (found.char_start <= found.char_end).all()
    assert (np.diff(found.char_start) >= 0).all()
    covered = {
        at for a, b in zip(found.char_start, found.char_end, strict=True) for at in range(a, b)
    }
    assert all(at in covered for at, character in enumerate(text) if character.isalnum())
    assert found.char_end[-1] == len(text)


@pytest.mark.parametrize("bos", [None, 0])
@pytest.mark.parametrize(("context", "stride"), [(8, 8), (8, 3), (16, 5), (5, 16)])
@pytest.mark.parametrize("tokens", [16, 17, 40, 41])
def test_each_token_behind_a_window_is_scored_once(
    tokens: int, context: int, stride: int, bos: int | None
) -> None:
    """transformers 30975 (the last token of each window lost), 4415 and 34138 (tokens counted in
    several windows, unequal windows averaged), 18887; llama.cpp 2714 (less context than stated).
    """
    requests = window_requests(IDS[:tokens], bos, context=context, stride=stride)
    offset = bos is not None
    positions = [int(place) for request in requests for place in request.positions]
    assert positions == list(range(context + stride - offset, tokens))
    for request in requests:
        assert request.targets.tolist() == IDS[request.positions].tolist()
        assert context <= request.first_target <= request.context_tokens.min()
        assert request.context_tokens.max() < context + stride
