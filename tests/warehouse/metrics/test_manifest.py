"""dbt's manifest as the catalogue of metrics."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from refusal import refuses

from warehouse.metrics.manifest import (
    Metric,
    current_manifest,
    manifest_path,
    read_metrics,
)


def test_what_ships_is_whole(built):
    with built.as_workspace() as workspace:
        found = read_metrics(workspace)
        assert list(found) == workspace.metric_names
    assert sum(len(metric.variants) for metric in found.values()) == 723
    grids = [name for name, m in found.items() if not any(r["core"] for r in m.variants.values())]
    assert grids == ["context_gain_all_text", "copying_bits_per_byte", "min_k_plus_plus"]
    assert found["longppl"].variants["alpha_0.5_beta_-4_macro"] == {
        "over": "key_tokens",
        "numerator": "sum(nll)",
        "denominator": "count(*)",
        "where": "gain > 0.5 and nll < 4",
        "aggregation": "macro",
        "transform": "exp",
        "tokens": "count(*)",
        "min_tokens": 10,
        "min_document_tokens": 1,
        "core": False,
        "code": found["longppl"].variants["alpha_2_beta_-2"]["code"],
    }
    assert found["longppl"].caution and not found["longppl_external"].admissible
    assert found["perplexity"].formula == "exp(-Σ log p / N)"


def test_a_definition_is_that_of_its_variant_alone():
    """A further variant, or another core, changes no definition; a setting does."""
    settings = {"numerator": "sum(nll)", "core": True}
    one = Metric("m", "f", "lower", True, "full", variants={"a": settings})
    both = Metric("m", "f", "lower", True, "full", variants={"b": {}, "a": {**settings, "core": 0}})
    other = Metric("m", "f", "lower", True, "full", variants={"a": {"numerator": "sum(gain)"}})
    assert one.definition("a") == both.definition("a") != other.definition("a")


@pytest.mark.parametrize(
    "name", ["models/metrics/new.sql", "models/metrics/new.yml", "macros/m.sql", "dbt_project.yml"]
)
def test_dbt_parses_what_is_newer_than_its_manifest(name, marts, monkeypatch):
    marts.manifest({"good": []})
    parsed: list[Path] = []

    def parse(arguments: object, workspace: object, log: object) -> int:
        parsed.append(manifest_path(marts.workspace))
        return len(parsed) - 1  # the second time it fails

    monkeypatch.setattr("warehouse.metrics.manifest.run_dbt", parse)
    assert current_manifest(marts.workspace)["nodes"] and not parsed
    model = marts.workspace.dbt_project / name
    model.parent.mkdir(parents=True, exist_ok=True)
    model.touch()
    later = manifest_path(marts.workspace).stat().st_mtime + 9
    os.utime(model, (later, later))
    assert current_manifest(marts.workspace)["nodes"] and len(parsed) == 1
    with refuses("dbt-parse"):
        current_manifest(marts.workspace)


@pytest.mark.parametrize(
    ("key", "value"),
    [("direction", "Lower"), ("direction", None), ("family", None), ("needs", None),
     ("admissible", "perhaps")],
)  # fmt: skip
def test_a_metric_says_what_it_is(marts, key, value):
    """A direction that is neither `higher` nor `lower` would turn the sign of a correlation."""
    marts.manifest({"good": []})
    path = manifest_path(marts.workspace)
    manifest = json.loads(path.read_text())
    meta = manifest["nodes"]["model.tokenmart.good"]["config"]["meta"]
    del meta[key]
    meta |= {key: value} if value else {}
    path.write_text(json.dumps(manifest))
    with refuses("metric-meta", f"good.yml: meta.{key}"):
        read_metrics(marts.workspace)
