"""Places in a text where every tokenizer may be cut: the starts of words and sentences."""

from __future__ import annotations

import re
from itertools import pairwise

_WORD = re.compile(r" (?=\S)|(?<=[^\S ])(?=\S)")
"""A word begins with the one space before it, which most tokenizers keep in its first token."""

_SENTENCE = re.compile(r"(?<=[.!?])[\"')\]]*(?=\s+\S)|(?=\s*\n\s*\n)")

LONGEST_WORD = 64
"""If no word begins within this number of characters (scripts without spaces), any position is
used.
"""


def word_start(text: str, character: int) -> int:
    """The first word's start at this character or soon after it.

    Args:
        text: the text.
        character: 0-based, at most the length of the text.
    """
    if character == 0:
        return 0
    found = _WORD.search(text, character, character + LONGEST_WORD)
    return found.start() if found else character


def word_starts(text: str) -> list[int]:
    """Start positions of words, the text's first character included."""
    return [0, *(found.start() for found in _WORD.finditer(text) if found.start() > 0)]


def sentences(text: str) -> list[tuple[int, int]]:
    """Start and end of each sentence, in characters; together they cover the text.

    A sentence begins with the word start after the mark that ended the one before, a paragraph
    ends one, too. Abbreviations cut a sentence in two.
    """
    ends = [word_start(text, found.end()) for found in _SENTENCE.finditer(text)]
    marks = sorted({0, *ends, len(text)})
    return list(pairwise(marks))
