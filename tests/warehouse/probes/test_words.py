"""Where words and sentences begin, by eye."""

from __future__ import annotations

import pytest

from warehouse.probes.lookup import sentences, word_start, word_starts


@pytest.mark.parametrize(
    ("text", "character", "start"),
    [
        ("one two three", 0, 0),
        ("one two three", 1, 3),
        ("one two three", 3, 3),
        ("one two three", 4, 7),
        ("one  two", 1, 4),
        ("one.\n\nTwo", 1, 6),
        ("one.\n\n two", 1, 6),
        ("one", 1, 1),
        ("x" * 100 + " y", 3, 3),
    ],
)
def test_the_next_word_begins_with_its_one_space(text, character, start):
    assert word_start(text, character) == start


def test_words_cover_the_text():
    text = "One two.\n\n  Three\tfour"
    starts = word_starts(text)
    assert [text[a:b] for a, b in zip(starts, [*starts[1:], None], strict=True)] == [
        "One", " two.\n\n ", " Three\t", "four",
    ]  # fmt: skip


def test_sentences_end_with_their_mark_or_with_the_paragraph():
    text = 'He said "no." Then 3.14 came! A title\n\nNext one? Last'
    assert [text[a:b] for a, b in sentences(text)] == [
        'He said "no."', " Then 3.14 came!", " A title\n\n", "Next one?", " Last",
    ]  # fmt: skip
    assert sentences("no mark") == [(0, 7)]
