"""The lineage graph: labels above a metric are seen, however far away."""

from __future__ import annotations

import pytest

from warehouse.errors import TokenmartError
from warehouse.metrics.lineage import ancestors, manifest_path, read_lineage


def test_ancestors_walk_the_whole_graph_once():
    graph = {"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": ["a"]}
    assert ancestors(graph, "a") == {"a", "b", "c", "d"}
    assert ancestors(graph, "x") == set()


def test_a_label_two_steps_up_is_named(marts):
    marts.manifest({"clean": ["stg_token_stats"], "leaky": ["stg_token_stats", "stg_downstream"]})
    path = manifest_path(marts.workspace)
    clean, leaky = read_lineage(path, "clean"), read_lineage(path, "leaky")
    assert clean.labels == ()
    assert clean.ancestors == (
        "model.tokenmart.stg_token_stats",
        "source.tokenmart.extract.tokens",
    )
    assert leaky.labels == (
        "model.tokenmart.stg_downstream",
        "source.tokenmart.extract.downstream",
    )
    with pytest.raises(TokenmartError, match=r"0 models have meta.metric = ppl"):
        read_lineage(path, "ppl")


def test_without_a_manifest_it_says_what_to_run(marts):
    with pytest.raises(TokenmartError, match="tokenmart dbt build"):
        read_lineage(manifest_path(marts.workspace), "clean")


def test_dbt_may_write_elsewhere(marts, monkeypatch):
    monkeypatch.setenv("DBT_TARGET_PATH", "/somewhere")
    assert str(manifest_path(marts.workspace)) == "/somewhere/manifest.json"
