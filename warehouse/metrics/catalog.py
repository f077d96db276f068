"""What the built warehouse says about the metrics: catalogue entries and values, as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from warehouse.errors import TokenmartError, did_you_mean
from warehouse.metrics.variant_files import in_contexts
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


@contextmanager
def open_catalog(workspace: Workspace) -> Iterator[duckdb.DuckDBPyConnection]:
    """The built warehouse, read-only.

    Raises:
        TokenmartError: it holds no metric yet.
    """
    from warehouse.sql.connection import connect_read_only

    with connect_read_only(workspace) as connection:
        found = connection.execute(
            "select 1 from duckdb_tables() where table_name = 'metric_catalog'"
        ).fetchone()
        if found is None:
            raise TokenmartError("metrics: no metric has been built yet; run `tokenmart dbt build`")
        yield connection


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
            "which these metrics need; add a probe to its file (docs/probes.md)"
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
