"""The catalogue where nothing is built yet, as the families' own files have it: no values."""

from __future__ import annotations

import json
import re
from pathlib import Path

import duckdb

from warehouse.metrics.registry import find_families
from warehouse.metrics.variant_files import read_variants

_BLOCK = re.compile(r"\{% docs (\w+) %\}(.*?)\{% enddocs %\}", re.DOTALL)
_QUOTED = re.compile(r"\{\{ *doc\([\"'](\w+)[\"']\) *\}\}")
_NO_SETTINGS = ("metric", "variant", "core")

_TABLES = """
    create table metric_catalog (
        metric varchar, variant varchar, family varchar, parameters varchar, core boolean,
        direction varchar, admissible boolean, needs varchar, transform varchar, caution varchar,
        formula varchar, description varchar
    );
    create table metric_values (
        problem varchar, metric varchar, variant varchar, model_id varchar, value double,
        reason varchar
    );
"""


def unbuilt_catalog(project: Path) -> duckdb.DuckDBPyConnection:
    """A database in memory with `metric_catalog` from a dbt project's files, and no values.

    Raises:
        TokenmartError: a family's YAML or variants can't be read; see `find_families`.
    """
    blocks = {
        name: text.strip()
        for path in sorted((project / "docs").glob("*.md"))
        for name, text in _BLOCK.findall(path.read_text(encoding="utf-8"))
    }
    rows = []
    for family in find_families(project):
        description = _QUOTED.sub(lambda name: blocks.get(name[1], ""), family.description)
        formula = re.search(r"`([^`]+)`", description)
        for row in read_variants(project / "variants" / f"{family.metric}.csv"):
            settings = {
                name: value
                for name, value in row.settings.items()
                if value and name not in _NO_SETTINGS
            }
            rows.append(
                (
                    *(family.metric, row.variant, family.family, json.dumps(settings)),
                    *(row.settings.get("core") == "true", family.direction, family.admissible),
                    *(family.needs, family.transform, family.caution),
                    *(formula[1] if formula else None, description),
                )
            )
    connection = duckdb.connect()
    connection.execute(_TABLES)
    if rows:
        places = ", ".join("?" * len(rows[0]))
        connection.executemany(f"insert into metric_catalog values ({places})", rows)
    return connection
