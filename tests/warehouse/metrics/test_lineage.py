"""The lineage graph: what is not SQL over the store is seen, however far above a metric."""

from __future__ import annotations

import json

import pytest
from refusal import refuses

from warehouse.metrics.manifest import manifest_path, read_lineage


def test_sql_over_the_store_is_not_foreign(marts):
    marts.manifest({"clean": ["stg_token_stats"]})
    path = manifest_path(marts.workspace)
    clean = read_lineage(path, "clean")
    assert clean.foreign == ()
    assert clean.ancestors == (
        "model.tokenmart.stg_token_stats",
        "source.tokenmart.extract.tokens",
    )
    with refuses("unknown-metric", "ppl"):
        read_lineage(path, "ppl")


@pytest.mark.parametrize("parent", ["seed.tokenmart.labels", "snapshot.tokenmart.labels"])
def test_what_is_not_sql_over_the_store_is_named_two_steps_up(marts, parent):
    marts.manifest({"sly": ["stg_token_stats"]})
    path = manifest_path(marts.workspace)
    graph = json.loads(path.read_text())
    graph["parent_map"]["model.tokenmart.stg_token_stats"].append(parent)
    graph["parent_map"][parent] = ["model.tokenmart.stg_token_stats"]
    path.write_text(json.dumps(graph))
    assert read_lineage(path, "sly").foreign == (parent,)


def test_without_a_manifest_it_says_what_to_run(marts):
    path = manifest_path(marts.workspace)
    with refuses("dbt-manifest", str(path)):
        read_lineage(path, "clean")
