"""`disagreement` compares two tokenizers over the same characters, whatever they divide."""

from __future__ import annotations

import itertools
import math
import unicodedata
import zlib
from collections.abc import Callable

import pytest
from sql_samples import write_spans

from warehouse.sql.dataframes import cookbook

Spans = list[tuple[int, int]]


def characters(text: str) -> Spans:
    return [(at, at + 1) for at in range(len(text))]


def utf8_bytes(text: str) -> Spans:
    """A token for each byte: pieces of a character have its span."""
    return [(at, at + 1) for at, char in enumerate(text) for _ in char.encode()]


def words(text: str) -> Spans:
    """Words with the space before them."""
    starts = [at for at, char in enumerate(text) if at == 0 or char == " "]
    return list(itertools.pairwise([*starts, len(text)]))


def without_spaces(text: str) -> Spans:
    """Words alone: no token has a space."""
    found, start = [], None
    for at, char in enumerate(f"{text} "):
        if char == " " and start is not None:
            found.append((start, at))
            start = None
        elif char != " " and start is None:
            start = at
    return found


def threes(text: str) -> Spans:
    return [(at, min(at + 3, len(text))) for at in range(0, len(text), 3)]


def straddling(text: str) -> Spans:
    """Pieces of two characters that share the one between them, as bytes merged across them do."""
    return [(max(at - 1, 0), at + 1) for at in range(0, len(text), 2)] + (
        [(len(text) - 1, len(text))] if len(text) % 2 == 0 else []
    )


def first_unscored(text: str) -> Spans:
    """Without a BOS, the first token has no log-probability."""
    return words(text)[1:]


TEXTS = [
    "plain ascii words in a row",
    "ship it 🚀🚀 now 🎉",
    "family 👨‍👩‍👧‍👦 of four",
    "flags 🇩🇪🇫🇷 and 👍🏽 skin",
    "漢字とかな交じり文 です よ",
    "한국어 문장 입니다",
    unicodedata.normalize("NFD", "café naïve Ångström"),
    "q̇̃ two marks ỡ",
    "مرحبا بالعالم هنا",
    "a\u200bb zero width \ufeffand bom",
]
PAIRS: list[tuple[Callable[[str], Spans], Callable[[str], Spans]]] = [
    (words, utf8_bytes),
    (straddling, threes),
    (without_spaces, first_unscored),
]


def logprobs(spans: Spans, seed: str) -> list[float]:
    return [
        -0.25 - zlib.crc32(f"{seed} {at} {span}".encode()) % 64 / 8 for at, span in enumerate(spans)
    ]


def aligned(spans: Spans, others: Spans) -> list[int]:
    """Characters behind which a text of both ends, found by trying each."""
    return [
        end
        for end in sorted({end for _, end in spans} & {end for _, end in others})
        if not any(start < end < past for start, past in (*spans, *others))
    ]


def expected(text: str, a: Spans, b: Spans) -> set[tuple[str, int, int, float]]:
    found, start = set(), None
    for end in aligned(a, b):
        first = start if start is not None else 0
        in_a = [at for at, (_, past) in enumerate(a) if first < past <= end]
        in_b = [at for at, (_, past) in enumerate(b) if first < past <= end]
        same_start = start is not None or a[0][0] == b[0][0]
        if in_a and in_b and same_start:
            difference = sum(logprobs(a, "a")[n] for n in in_a)
            difference -= sum(logprobs(b, "b")[n] for n in in_b)
            shown = text[(start if start is not None else min(a[0][0], b[0][0])) : end]
            found.add((shown, len(in_a), len(in_b), round(difference, 6)))
        start = end
    return found


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: "-".join(each.__name__ for each in pair))
def test_both_models_are_summed_over_the_same_characters(workspace, pair):
    divided = {
        name: [divide(text) for text in TEXTS] for name, divide in zip("ab", pair, strict=True)
    }
    scored = {
        name: [[(*span, value) for span, value in zip(own, logprobs(own, name), strict=True)]
               for own in spans]
        for name, spans in divided.items()
    }  # fmt: skip
    write_spans(workspace, TEXTS, scored)
    given = {"problem": "minilong", "model_a": "a", "model_b": "b", "condition": "full"}
    rows = cookbook("disagreement", **given, limit=10_000).to_pylist()
    found: dict[str, set[tuple[str, int, int, float]]] = {}
    for row in rows:
        sums = row["text"], row["tokens_a"], row["tokens_b"], round(row["difference"], 6)
        found.setdefault(row["document"], set()).add(sums)
    for number, spans in enumerate(zip(TEXTS, divided["a"], divided["b"], strict=True)):
        assert found[f"{number}.txt"] == expected(*spans)
    differences = [abs(row["difference"]) for row in rows]
    assert differences == sorted(differences, reverse=True)
    assert all(math.isclose(math.log(row["probability_a"]) - math.log(row["probability_b"]),
                            row["difference"], abs_tol=1e-6) for row in rows)  # fmt: skip
