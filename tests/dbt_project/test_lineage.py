"""No metric may see the target: proven on dbt's own lineage graph."""

from __future__ import annotations

from typing import Any

from dbt_harness import Warehouse

TARGET = "source.tokenmart.extract.downstream"


def ancestors(manifest: dict[str, Any], node: str) -> set[str]:
    """All nodes and sources above `node`."""
    found: set[str] = set()
    waiting = [node]
    while waiting:
        for parent in manifest["parent_map"].get(waiting.pop(), []):
            if parent not in found:
                found.add(parent)
                waiting.append(parent)
    return found


def metric_models(manifest: dict[str, Any]) -> list[str]:
    return [
        name
        for name, node in manifest["nodes"].items()
        if node["resource_type"] == "model" and node["config"]["meta"].get("metric")
    ]


def test_no_metric_descends_from_the_target(built: Warehouse) -> None:
    manifest = built.manifest
    metrics = metric_models(manifest)
    assert len(metrics) >= 8
    for model in (*metrics, "model.tokenmart.metric_values", "model.tokenmart.metric_catalog"):
        above = ancestors(manifest, model)
        assert above, model
        assert TARGET not in above, f"{model} can see downstream scores"


def test_the_target_itself_is_on_the_graph(built: Warehouse) -> None:
    assert TARGET in ancestors(built.manifest, "model.tokenmart.downstream_scores")


def test_only_staging_reads_sources(built: Warehouse) -> None:
    for name, node in built.manifest["nodes"].items():
        if node["resource_type"] == "model" and not name.startswith("model.tokenmart.stg_"):
            parents = built.manifest["parent_map"][name]
            assert not [p for p in parents if p.startswith("source.")], name


def test_every_family_is_part_of_metric_values(built: Warehouse) -> None:
    above = set(built.manifest["parent_map"]["model.tokenmart.metric_values"])
    assert set(metric_models(built.manifest)) <= above


def test_every_model_has_a_description(built: Warehouse) -> None:
    bare = [
        node["name"]
        for node in built.manifest["nodes"].values()
        if node["resource_type"] == "model" and not node["description"]
    ]
    assert not bare
