"""Fields of a task's documents: subject, and the text that items share."""

from __future__ import annotations

import pytest

from plugins.benchmarks.harness.item_rows import CLUSTER_FIELDS, _field
from plugins.benchmarks.harness.stored_items import lengths_of
from warehouse.errors import TokenmartError


@pytest.mark.parametrize(
    ("named", "found"), [(None, "a passage"), ("section", "7"), ("empty", None)]
)
def test_clusters_of_a_named_field(named, found):
    """`eval --cluster FIELD`: by default the first of the usual names."""
    doc = {"question": "?", "section": 7, "passage": "a passage", "story": "another", "empty": ""}
    assert _field(doc, named, CLUSTER_FIELDS, "--cluster") == found
    with pytest.raises(TokenmartError):
        _field({"question": "?"}, "passage", (), "--cluster")


@pytest.mark.parametrize(
    ("text", "lengths"),
    [("né ", (3, 4, 2)), (" 漢字 e\u0301", (6, 11, 3)), ("\ud800", (1, 3, 1)), ("", (0, 0, 1))],
)
def test_lengths_of_a_choice(text, lengths):
    """Characters, bytes of UTF-8, words with empty ends."""
    assert tuple(lengths_of(text).values()) == lengths
