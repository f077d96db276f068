"""The lineage graph: labels above a metric are seen, however far away."""

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


def test_a_table_of_labels_named_without_ref_is_seen(marts):
    marts.manifest({"clean": ["stg_token_stats", "helper"], "sly": ["stg_token_stats"]})
    path = manifest_path(marts.workspace)
    graph = json.loads(path.read_text())
    nodes = graph["nodes"]
    nodes["model.tokenmart.clean"]["raw_code"] = "select * from {{ ref('helper') }}"
    nodes["model.tokenmart.helper"] = {"resource_type": "model", "raw_code": "select 1 as x"}
    path.write_text(json.dumps(graph))
    assert read_lineage(path, "clean").labels == ()
    nodes["model.tokenmart.sly"]["raw_code"] = 'select * from main."Downstream_scores"'
    nodes["model.tokenmart.helper"]["depends_on"] = {"macros": ["macro.tokenmart.outer"]}
    graph["macros"] = {
        "macro.tokenmart.outer": {"depends_on": {"macros": ["macro.tokenmart.inner"]}},
        "macro.tokenmart.inner": {
            "macro_sql": "{% macro inner() %} main.downstream {% endmacro %}"
        },
        "macro.dbt.unrelated": {"macro_sql": "downstream"},
    }
    path.write_text(json.dumps(graph))
    assert read_lineage(path, "sly").labels == (
        "model.tokenmart.sly: its SQL names Downstream_scores",
        "model.tokenmart.sly: its SQL reads main.downstream_scores",
    )
    assert read_lineage(path, "clean").labels == (
        "model.tokenmart.helper: its SQL names main.downstream",
    )


def test_without_a_manifest_it_says_what_to_run(marts):
    with pytest.raises(TokenmartError, match="tokenmart dbt build"):
        read_lineage(manifest_path(marts.workspace), "clean")


def test_dbt_may_write_elsewhere(marts, monkeypatch):
    monkeypatch.setenv("DBT_TARGET_PATH", "/somewhere")
    assert str(manifest_path(marts.workspace)) == "/somewhere/manifest.json"
