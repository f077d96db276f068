"""The DuckDB macros for the field's terms, on the built warehouse."""

from __future__ import annotations

import math

import pytest
from dbt_harness import Warehouse


def test_ppl_is_the_perplexity_mart(built: Warehouse) -> None:
    found = built.rows(
        "select model_id, ppl(logprob) from tokens where probe = 'full' group by all"
    )
    marts = built.values("perplexity")
    assert found
    for model, value in found:
        assert value == pytest.approx(marts["micro", model], rel=1e-9)


def test_gain_and_bits_per_byte(built: Warehouse) -> None:
    assert built.rows("select gain(-1.0, -3.0)") == [(2.0,)]
    assert built.rows("select bits_per_byte(l, b) from (values (ln(0.5), 2), (0, 2)) v(l, b)") == [
        (pytest.approx(0.25),)
    ]


def test_token_text_and_snippet(built: Warehouse) -> None:
    ((text,),) = built.rows("select text from documents where doc_id = 1")
    rows = built.rows(
        "select token_text(doc_id, char_start, char_end), "
        "context_snippet(doc_id, char_start, char_end, width := 10), char_start, char_end "
        "from tokens where doc_id = 1 and probe = 'full' and model_id = 'lab--model-0'"
    )
    assert len(rows) > 100
    for token, snippet, start, end in rows:
        assert token == text[start:end]
        before = text[max(start - 10, 0) : start]
        assert snippet == f"{before}[{token}]{text[end : end + 10]}"


def test_key_tokens_are_those_of_longppl(built: Warehouse) -> None:
    assert built.rows("select count(*) > 0, min(gain) > 2, min(logprob) > -2 from key_tokens") == [
        (True, True, True)
    ]
    assert math.isclose(
        built.rows("select avg(gain) from context_pairs where probe = 'window_64'")[0][0],
        built.rows(
            "select avg(gain(logprob, short_logprob)) from context_pairs where probe = 'window_64'"
        )[0][0],
    )
