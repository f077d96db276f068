"""`make docs`: one HTML file that needs no network, with the lineage and every formula."""

from __future__ import annotations

import json
import re

import pytest
from dbt_harness import Warehouse


def descriptions(built: Warehouse) -> dict[str, str]:
    """Metric → its description."""
    found = dict(built.rows("select distinct metric, description from metric_catalog"))
    assert len(found) >= 39
    return found


def test_every_family_says_what_it_measures_its_source_unit_and_traps(built):
    for metric, text in descriptions(built).items():
        formula, measures, *others, traps = text.strip().split("\n\n")
        assert formula.startswith("Formula: `"), metric
        assert measures.startswith("Measures "), metric
        assert traps.startswith("Traps: ") and traps.endswith("."), metric
        source = " ".join(others[-1].split())
        assert re.fullmatch(r"Source: .+[.?] Unit: [^.]+\.", source), (metric, source)
        units = r"\b(tokens?|bytes?|characters?|documents?|excerpts?|needles?)\b"
        assert re.search(units, source.split("Unit: ")[1]), metric


def test_every_column_of_a_public_table_is_described(built):
    columns = {
        (node["name"], column["name"]): column["description"].strip()
        for node in built.manifest["nodes"].values()
        if node.get("access") == "public"
        for column in node["columns"].values()
    }
    tables = {table for table, _ in columns}
    assert {"metric_values", "coverage", "metric_catalog"} <= tables
    assert [name for name, description in columns.items() if not description] == []


@pytest.mark.slow
def test_every_description_is_shown_and_nothing_is_loaded_from_elsewhere(built):
    done = built.dbt("docs", "generate", "--static", "--quiet")
    assert done.returncode == 0, done.stdout + done.stderr
    page = (built.database.parent / "target" / "static_index.html").read_text(encoding="utf-8")
    for metric, text in descriptions(built).items():
        assert json.dumps(text.strip())[1:-1] in page, metric
    outside = r'<(?:script|link|img|iframe)[^>]*(?:src|href)\s*=\s*["\']?(?:https?:)?//'
    assert re.findall(outside, page) == []
    assert built.manifest["metadata"]["send_anonymous_usage_stats"] is False, (
        "dbt's page loads its tracker when this is on"
    )
