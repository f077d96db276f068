"""What dbt's own graph says of the metrics: no target above them, and descriptions."""

from __future__ import annotations

from typing import Any

from warehouse.metrics.manifest import read_lineage
from warehouse.store.schema import all_tables


def metric_models(manifest: dict[str, Any]) -> list[str]:
    return [
        name
        for name, node in manifest["nodes"].items()
        if node["resource_type"] == "model" and node["config"]["meta"].get("metric")
    ]


def test_dbt_has_no_source_with_target_scores(built):
    tables = {source["name"] for source in built.manifest["sources"].values()}
    targets = {name for name, table in all_tables().items() if table.is_target}
    assert targets == {"downstream"}
    assert len(tables) > 8 and not tables & targets


def test_every_metric_is_sql_over_the_store(built):
    manifest = built.manifest
    path = built.database.parent / "target" / "manifest.json"
    metrics = metric_models(manifest)
    assert len(metrics) >= 8
    for model in metrics:
        lineage = read_lineage(path, manifest["nodes"][model]["config"]["meta"]["metric"])
        assert lineage.ancestors and lineage.foreign == (), lineage
