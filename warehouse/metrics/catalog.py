"""Catalogue entries and values of the metrics, as rows: as built, or as the files have them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warehouse.errors import TokenmartError, did_you_mean
from warehouse.metrics.registry import find_families
from warehouse.metrics.variant_files import in_contexts, read_variants
from warehouse.paths import Workspace

if TYPE_CHECKING:
    import duckdb

    from warehouse.problem.spec import Problem

Row = dict[str, Any]

_VARIANTS = """
    select * exclude (description)
    from metric_catalog
    where coalesce(metric = $metric, true)
        and coalesce(family = $family, true)
        and (not $admissible or admissible)
    order by family, metric, variant
"""

_ENTRIES = """
    select *
    from metric_catalog
    where metric = $metric
        and coalesce(variant = $variant, true)
    order by variant
"""

_VALUES = """
    select * exclude (metric)
    from metric_values
    where metric = $metric
        and coalesce(variant = $variant, true)
        and coalesce(problem = $problem, true)
    order by problem, variant, model_id
"""


_BLOCK = re.compile(r"\{% docs (\w+) %\}(.*?)\{% enddocs %\}", re.DOTALL)
_QUOTED = re.compile(r"\{\{ *doc\([\"'](\w+)[\"']\) *\}\}")

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


@contextmanager
def open_catalog(workspace: Workspace) -> Iterator[duckdb.DuckDBPyConnection]:
    """The built warehouse, read-only.

    Raises:
        TokenmartError: it contains no metric yet.
    """
    from warehouse.sql.connection import connect_read_only

    with connect_read_only(workspace) as connection:
        found = connection.execute(
            "select 1 from duckdb_tables() where table_name = 'metric_catalog'"
        ).fetchone()
        if found is None:
            raise TokenmartError("metrics: no metric has been built yet; run `tokenmart dbt build`")
        yield connection


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
            parameters = {
                "aggregation": row.settings["aggregation"],
                "over": row.settings["over"],
                "numerator": row.settings["numerator"],
                "denominator": row.settings["denominator"],
                "where": row.settings.get("where") or "true",
            }
            rows.append(
                (
                    *(family.metric, row.variant, family.family, json.dumps(parameters)),
                    *(row.settings.get("core") == "true", family.direction, family.admissible),
                    *(family.needs, family.transform, family.caution),
                    *(formula[1] if formula else None, description),
                )
            )
    import duckdb

    connection = duckdb.connect()
    connection.execute(_TABLES)
    if rows:
        places = ", ".join("?" * len(rows[0]))
        connection.executemany(f"insert into metric_catalog values ({places})", rows)
    return connection


def variants(
    connection: duckdb.DuckDBPyConnection,
    metric: str | None,
    family: str | None,
    admissible: bool,
) -> list[Row]:
    """Catalogue entries without descriptions, by family, metric and variant.

    Args:
        connection: see `open_catalog`.
        metric: of this metric only.
        family: of this family only.
        admissible: only what an official submission may use.

    Raises:
        TokenmartError: the named metric or family isn't there.
    """
    rows = _rows(connection, _VARIANTS, metric=metric, family=family, admissible=admissible)
    if not rows and (metric or family):
        raise _unknown(connection, metric or family or "")
    return rows


def in_problem(rows: Sequence[Row], problem: Problem) -> list[Row]:
    """Entries of `unbuilt_catalog` under the names that they have in a problem.

    Raises:
        TokenmartError: none of them can be computed in it.
    """
    contexts = problem.contexts
    found = [
        {**row, "variant": name}
        for row in rows
        for name in in_contexts(row["variant"], contexts.get(row["needs"], ()))
    ]
    if not found:
        needed = sorted({row["needs"] for row in rows})
        raise TokenmartError(
            f"problem {problem.name}: no context of the kind {' or '.join(needed) or 'asked for'}, "
            "which these metrics need; add a probe to its file (docs/how_to/probes.md)"
        )
    return found


def entries(connection: duckdb.DuckDBPyConnection, metric: str, variant: str | None) -> list[Row]:
    """Everything the catalogue says about a metric's variants, or about one of them.

    Raises:
        TokenmartError: it isn't in the catalogue.
    """
    rows = _rows(connection, _ENTRIES, metric=metric, variant=variant)
    if not rows:
        raise _unknown(connection, metric if variant is None else f"{metric} {variant}")
    return rows


def values(
    connection: duckdb.DuckDBPyConnection, metric: str, variant: str | None, problem: str | None
) -> list[Row]:
    """Values of a metric for each problem, variant and model."""
    return _rows(connection, _VALUES, metric=metric, variant=variant, problem=problem)


def problems(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Names of the problems that the warehouse has values of."""
    rows = _rows(connection, "select distinct problem from metric_values order by problem")
    return [row["problem"] for row in rows]


def _rows(connection: duckdb.DuckDBPyConnection, query: str, **parameters: Any) -> list[Row]:
    result = connection.execute(query, parameters)
    names = [column[0] for column in result.description or []]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def _unknown(connection: duckdb.DuckDBPyConnection, name: str) -> TokenmartError:
    known = sorted(
        {row["metric"] for row in _rows(connection, "select metric from metric_catalog")}
    )
    hint = "" if name.split()[0] in known else did_you_mean(name.split()[0], known)
    return TokenmartError(
        f"metrics: no {name!r} in the catalogue; {hint}metrics: {', '.join(known)}"
    )
