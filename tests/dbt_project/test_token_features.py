"""The public view `token_features` against the text itself."""

from __future__ import annotations

import re

import pytest
from dbt_harness import Warehouse


@pytest.mark.parametrize("model", ["lab--model-0", "lab--model-1"])
def test_words_bytes_and_distances_are_those_of_the_text(built: Warehouse, model: str) -> None:
    """Two tokenizers."""
    rows = built.rows(
        "select doc_id, position, char_start, char_end, characters, bytes, word, is_first,"
        " word_distance, word_distance_characters from token_features"
        f" where model_id = '{model}' order by doc_id, position"
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
        (doc_id, place): (found.start(), found[0].lower())
        for doc_id, text in texts.items()
        for found in re.finditer(r"\w+", text)
        for place in range(found.start(), found.end())
    }
    for doc_id, position, start, past, characters, size, word, is_first, distance, apart in rows:
        assert (characters, size) == (past - start, len(texts[doc_id][start:past].encode()))
        first, expected = words.get((doc_id, past - 1), (None, None))
        assert word == expected
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
