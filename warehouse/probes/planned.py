"""What conditions score of a document of which only the length is known."""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from warehouse.probes.request import Condition, DocumentTokens

CHARACTERS_PER_TOKEN = 4
"""Of the made-up text that a plan uses in place of a document."""
MOST_NAMED = 10

_LETTERS = string.ascii_letters + string.digits
_SENTENCE_WORDS = 25


@lru_cache(maxsize=1)
def _made_up_text(words: int) -> str:
    """Words of CHARACTERS_PER_TOKEN characters, no two alike, in sentences."""
    count = len(_LETTERS)
    return "".join(
        f" {_LETTERS[n // count**2 % count]}{_LETTERS[n // count % count]}"
        + ("." if (n + 1) % _SENTENCE_WORDS == 0 else _LETTERS[n % count])
        for n in range(words)
    )


def planned_document(tokens: int, longest: int | None = None) -> DocumentTokens:
    """A document of the given number of tokens, each a word, and another one of the same length.

    Args:
        tokens: its length.
        longest: that of the longest that is asked for, so that one text serves all.
    """
    text = _made_up_text(max(tokens, longest or 0))
    ids = np.arange(tokens, dtype=np.int32)
    starts, ends = CHARACTERS_PER_TOKEN * ids, CHARACTERS_PER_TOKEN * (ids + 1)
    part = text[: CHARACTERS_PER_TOKEN * tokens]
    foreign = DocumentTokens(ids + np.int32(tokens), starts, ends, part, None)
    return DocumentTokens(ids, starts, ends, part, None, foreign)


def too_short(documents: Iterable[tuple[str, int]], conditions: Sequence[Condition]) -> list[str]:
    """A line for each document of which a condition scores nothing; `MOST_NAMED` are named.

    Args:
        documents: name and estimated tokens of each.
    """
    lines = []
    for document, tokens in documents:
        planned = planned_document(tokens)
        short = [
            condition.name
            for condition in conditions
            if not any(len(request.targets) for request in condition.build(planned))
        ]
        if short:
            lines.append(f"{document}: about {tokens:,} tokens, too short for {', '.join(short)}")
    more = len(lines) - MOST_NAMED
    return [*lines[:MOST_NAMED], f"and {more} further documents"] if more > 0 else lines
