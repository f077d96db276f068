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
