"""Target scores from items, worked by hand."""

from __future__ import annotations

import pyarrow as pa
import pytest

from warehouse.sql.views import connect_to_targets
from warehouse.store.parquet_files import write_table
from warehouse.store.schema import DOWNSTREAM, RECALL_ITEMS


@pytest.fixture
def scores(workspace):
    """A function: items (task, cluster, score), and facts on them, to the rows of a view."""

    def compute(view, items, asked=()):
        rows = [
            {"task": task, "item": item, "cluster": cluster, "score": score}
            for item, (task, cluster, score) in enumerate(items)
        ]
        place = "problem=p/model_id=m/items.parquet"
        write_table(workspace.store / "downstream" / place, pa.Table.from_pylist(rows, DOWNSTREAM))
        facts = [{"task": rows[n]["task"], "item": n} | fact for n, fact in enumerate(asked)]
        if facts:
            table = pa.Table.from_pylist(facts, RECALL_ITEMS)
            write_table(workspace.store / "recall_items" / place, table)
        with connect_to_targets(workspace) as connection:
            return connection.execute(
                f"select * exclude (problem, model_id) from {view}"
            ).fetchall()

    return compute


def test_lengths_share_their_contexts(scores):
    """Two contexts, asked once at a short length and twice at a long one.

    All is right in the first and wrong in the second. Each length: √(2 (0.5² + 0.5²))/2 and
    √(2 (1² + 1²))/4, both 0.5. They err together, so their mean is no surer, not 0.5/√2.
    """
    items = [("recall_1", 0, 1.0), ("recall_1", 1, 0.0)]
    items += [("recall_2", 0, 1.0), ("recall_2", 0, 1.0), ("recall_2", 1, 0.0), ("recall_2", 1, 0)]
    assert set(scores("downstream_scores", items)) == {
        ("recall_1", 0.5, 0.5, 2),
        ("recall_2", 0.5, 0.5, 4),
        ("overall", 0.5, 0.5, 6),
    }


def test_the_shortest_length_is_left_out(scores):
    """Each counting task weighs the same: (0.5 + 0)/2; the one left out varies, too.

    Clustered by context: √(2 (0.25² + 0.25²))/2 of the residuals ±0.5 and 0, halved.
    """
    items = [("recall_1", 0, 0.5), ("recall_1", 1, 1.0), ("recall_2", 0, 1.0), ("recall_2", 1, 0.0)]
    items += [("multi_key_2", 0, 0.0), ("multi_key_2", 1, 0.0)]
    asked = [{"kind": "k", "length": 1, "counts": number > 1} for number in range(6)]
    assert set(scores("downstream_scores", items, asked)) == {
        ("recall_1", 0.75, 0.25, 2),
        ("recall_2", 0.5, 0.5, 2),
        ("multi_key_2", 0.0, 0.0, 2),
        ("overall", 0.25, 0.25, 4),
    }


def test_depths_by_hand(scores):
    """At depth 0.1 one context is right and one wrong: 0.5, √(2 (0.5² + 0.5²))/2 = 0.5.

    At depth 1, the last eighth, one context alone: no standard error. Common words are everywhere.
    """
    items = [("recall_2", 0, 1.0), ("recall_2", 1, 0.0), ("recall_2", 0, 0.2)]
    items += [("common_words_2", 0, 0.75)]
    kinds = ["single_key"] * 3 + ["common_words"]
    asked = [
        {"kind": kind, "length": 2, "depth": depth, "counts": True}
        for kind, depth in zip(kinds, (0.1, 0.1, 1.0, None), strict=True)
    ]
    assert set(scores("downstream_depths", items, asked)) == {
        ("single_key", 2, 0, 0.5, 0.5, 2, 2),
        ("single_key", 2, 7, 0.2, None, 1, 1),
        ("common_words", 2, None, 0.75, None, 1, 1),
    }


def test_without_files_there_are_no_scores(workspace):
    with connect_to_targets(workspace) as connection:
        assert connection.execute("from downstream_scores").fetchall() == []
