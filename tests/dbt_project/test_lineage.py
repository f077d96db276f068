"""No metric may see the target: proven on dbt's own lineage graph."""

from __future__ import annotations

from typing import Any

from dbt_harness import Warehouse

from warehouse.metrics.lineage import ancestors, read_lineage

TARGET = "source.tokenmart.extract.downstream"


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
        above = ancestors(manifest["parent_map"], model)
        assert above, model
        assert TARGET not in above, f"{model} can see downstream scores"


def test_no_metric_names_the_target_past_the_graph(built: Warehouse) -> None:
    manifest = built.manifest
    path = built.database.parent / "target" / "manifest.json"
    for model in metric_models(manifest):
        lineage = read_lineage(path, manifest["nodes"][model]["config"]["meta"]["metric"])
        assert lineage.ancestors and lineage.labels == (), lineage


def test_the_target_itself_is_on_the_graph(built: Warehouse) -> None:
    assert TARGET in ancestors(built.manifest["parent_map"], "model.tokenmart.downstream_scores")


def test_every_model_has_a_description(built: Warehouse) -> None:
    bare = [
        node["name"]
        for node in built.manifest["nodes"].values()
        if node["resource_type"] == "model" and not node["description"]
    ]
    assert not bare


def test_every_family_documents_its_formula_source_unit_and_traps(built: Warehouse) -> None:
    lacking = {
        (node["name"], word)
        for node in built.manifest["nodes"].values()
        if node["config"]["meta"].get("metric")
        for word in ("Formula: `", "Source: ", "Unit: ", "Trap")
        if word not in node["description"].replace("\n", " ")
    }
    assert not lacking
