"""The lineage graph: what is not SQL over the store is seen, however far above a metric."""

from __future__ import annotations

import json

import pytest

from warehouse.errors import TokenmartError
from warehouse.metrics.lineage import ancestors, read_lineage
from warehouse.metrics.manifest import manifest_path


def test_ancestors_walk_the_whole_graph_once():
    graph = {"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": ["a"]}
    assert ancestors(graph, "a") == {"a", "b", "c", "d"}
    assert ancestors(graph, "x") == set()


def test_sql_over_the_store_is_not_foreign(marts):
    marts.manifest({"clean": ["stg_token_stats"]})
    path = manifest_path(marts.workspace)
    clean = read_lineage(path, "clean")
    assert clean.foreign == ()
    assert clean.ancestors == (
        "model.tokenmart.stg_token_stats",
        "source.tokenmart.extract.tokens",
    )
    with pytest.raises(TokenmartError, match=r"0 models have meta.metric = ppl"):
        read_lineage(path, "ppl")


@pytest.mark.parametrize("parent", ["seed.tokenmart.labels", "snapshot.tokenmart.labels"])
def test_what_is_not_sql_over_the_store_is_named_two_steps_up(marts, parent):
    marts.manifest({"sly": ["stg_token_stats"]})
    path = manifest_path(marts.workspace)
    graph = json.loads(path.read_text())
    graph["parent_map"]["model.tokenmart.stg_token_stats"].append(parent)
    path.write_text(json.dumps(graph))
    assert read_lineage(path, "sly").foreign == (parent,)


def test_without_a_manifest_it_says_what_to_run(marts):
    with pytest.raises(TokenmartError, match="tokenmart dbt build"):
        read_lineage(manifest_path(marts.workspace), "clean")
