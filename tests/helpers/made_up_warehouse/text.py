"""Made-up text and two kinds of tokenizer for it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Tokenisation:
    """One document in one tokenizer."""

    token_id: Ints
    char_start: Ints
    char_end: Ints
    difficulty: Floats


@dataclass(frozen=True)
class Vocabulary:
    """Words and how often each is drawn: Zipf; digits, umlauts and emoji are among the frequent."""

    words: list[str]
    weights: Floats

    @staticmethod
    def make(size: int, rng: np.random.Generator) -> Vocabulary:
        """`size` different words in an order of their own; special ones are frequent."""
        letters = np.array(list("etaoinshrdlucmfwypvbgk"))
        special = ["→", "naïve", "日本語", "2024", "17", "3.5", "x", "😀ok", "—"]
        seen: dict[str, None] = {}
        while len(seen) < size - len(special):
            seen["".join(rng.choice(letters, size=int(rng.integers(1, 11))))] = None
        words = list(seen)
        rng.shuffle(words)
        for rank, word in enumerate(special):
            words.insert(7 * rank + 3, word)
        weights = 1.0 / (np.arange(size) + 2.7)
        return Vocabulary(words, weights / weights.sum())


def _pieces(word: str, kind: int) -> list[tuple[int, int]]:
    """Token spans of ` word`, relative to the space; even kinds keep the space, odd ones trim it.

    Characters of three bytes and more become two tokens with one span, as in byte-level BPE.
    """
    width = 6 if kind % 2 == 0 else 4
    cuts = [*range(1, len(word) + 1, width), len(word) + 1]
    spans: list[tuple[int, int]] = []
    for start, end in itertools.pairwise(cuts):
        first = start - 1 if start == 1 and kind % 2 == 0 else start
        spans.append((first, end))
        if any(len(character.encode()) > 2 for character in word[start - 1 : end - 1]):
            spans.append((first, end))
    return spans


@dataclass(frozen=True)
class Pieces:
    """Every word's tokens, flattened: word w owns rows first[w] … first[w] + count[w] - 1."""

    first: Ints
    count: Ints
    start: Ints
    end: Ints

    @staticmethod
    def of(words: list[str], kind: int) -> Pieces:
        """The pieces of every word in tokenizer `kind`."""
        spans = [_pieces(word, kind) for word in words]
        count = np.array([len(s) for s in spans], dtype=np.int64)
        flat = np.array([span for s in spans for span in s], dtype=np.int64)
        return Pieces(np.cumsum(count) - count, count, flat[:, 0], flat[:, 1])

    def tokenise(self, words: Ints, word_offsets: Ints) -> Tokenisation:
        """Tokens of a document whose words start at these characters."""
        count = self.count[words]
        within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        piece = np.repeat(self.first[words], count) + within
        offset = np.repeat(word_offsets, count)
        # The first word of a document has no space before it: spans never start below 0.
        return Tokenisation(
            token_id=piece,
            char_start=np.maximum(offset + self.start[piece], 0),
            char_end=offset + self.end[piece],
            difficulty=np.where(within == 0, np.log1p(np.repeat(words, count)) * 0.45 + 0.2, 0.3),
        )


def draw_words(count: int, vocabulary: Vocabulary, rng: np.random.Generator) -> Ints:
    """Zipf words in which a tenth of the text repeats an earlier phrase of the document."""
    words = rng.choice(len(vocabulary.words), size=count, p=vocabulary.weights).astype(np.int64)
    phrase = 12
    for start in range(4 * phrase, count - phrase, 10 * phrase):
        source = int(rng.integers(0, start - phrase))
        words[start : start + phrase] = words[source : source + phrase]
    return words
