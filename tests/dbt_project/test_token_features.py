"""Features of tokens against the text itself."""

from __future__ import annotations

import re

import pytest


@pytest.mark.parametrize("model", ["lab--model-0", "lab--model-3"])
def test_words_bytes_and_distances_are_those_of_the_text(built, model):
    """Two tokenizers, each of a model that scores the first token."""
    rows = built.rows(
        "select doc_id, position, char_start, char_end, byte_start, byte_end, bytes,"
        " is_capitalised, word, is_first_of_word, word_distance, word_distance_characters"
        " from token_features"
        " inner join models using (problem, tokenizer_sha256)"
        " inner join tokens using (problem, model_id, doc_id, position)"
        f" where model_id = '{model}' and condition = 'full' order by doc_id, position"
    )
    texts = dict(built.rows("select doc_id, text from documents"))
    assert (
        len(rows)
        == built.rows(
            f"select count(*) from tokens where condition = 'full' and model_id = '{model}'"
        )[0][0]
    )
    began: dict[tuple[int, int], int] = {}
    last: dict[tuple[int, str], int] = {}
    before: dict[tuple[int, int], int | None] = {}
    words = {
        (doc_id, place): (found.start(), found[0])
        for doc_id, text in texts.items()
        for found in re.finditer(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]+", text)
        for place in range(found.start(), found.end())
    }
    covered: dict[int, int] = {}
    for doc_id, position, start, past, *more in rows:
        byte_start, byte_end, size, capitalised, word, is_first, distance, apart = more
        assert byte_start == len(texts[doc_id][:start].encode())
        assert byte_end == len(texts[doc_id][:past].encode())
        # a character's bytes count once, however many tokens it takes, or none
        assert size == max(byte_end - covered.get(doc_id, byte_start), 0)
        covered[doc_id] = max(byte_end, covered.get(doc_id, 0))
        first, expected = words.get((doc_id, past - 1), (None, ""))
        assert word == (expected.lower() or None)
        assert capitalised == expected[:1].isupper()
        if word is None:
            assert not is_first and distance is None
            continue
        if (doc_id, first) not in began:
            # without BOS, a document's first token is not scored
            began[doc_id, first] = position if start <= first else position - 1
            before[doc_id, first] = last.get((doc_id, word))
            last[doc_id, word] = first
        assert is_first == (start <= first)
        previous = before[doc_id, first]
        if previous is None:
            assert distance is None and apart is None
        else:
            assert (distance, apart) == (position - began[doc_id, previous], first - previous)
    assert sum(row[-2] is not None for row in rows) > 500
