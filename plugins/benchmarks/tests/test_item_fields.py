"""Fields of a task's documents: subject, and the text that items share."""

from __future__ import annotations

import pytest

from plugins.benchmarks.harness.item_rows import CLUSTER_FIELDS, _field
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
