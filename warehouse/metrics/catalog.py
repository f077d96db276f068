"""Metrics and their values as rows, and the lines that `tokenmart metrics` prints of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from warehouse.errors import TokenmartError, did_you_mean
from warehouse.metrics.manifest import in_contexts, read_metrics
from warehouse.paths import Workspace
from warehouse.terminal import counted

if TYPE_CHECKING:
    from warehouse.problem.spec import Problem

Row = dict[str, Any]


def entries(
    workspace: Workspace,
    metric: str | None = None,
    problem: Problem | None = None,
) -> list[Row]:
    """One row per metric and variant, built or not; core variants first.

    Args:
        problem: only variants that its probes allow, in every context, by their names there.

    Raises:
        TokenmartError: dbt can't parse the metrics, or none is of this name and problem.
    """
    metrics = read_metrics(workspace)
    if metric is not None and metric not in metrics:
        raise TokenmartError(
            f"metrics: no {metric!r}; {did_you_mean(metric, metrics)}metrics: {', '.join(metrics)}",
            code="unknown-metric",
            where=metric,
        )
    rows = [
        {
            "metric": name,
            "variant": shown,
            "family": found.family,
            "direction": found.direction,
            "admissible": found.admissible,
            "needs": found.needs,
            "caution": found.caution,
            "formula": found.formula,
            "description": found.description,
            **settings,
        }
        for name, found in metrics.items()
        for variant, settings in found.variants.items()
        for shown in (
            [variant] if problem is None else in_contexts(variant, problem.suffixes(found.needs))
        )
        if metric in (None, name)
    ]
    if not rows:
        raise TokenmartError(
            f"metrics: the probes of the problem allow no {metric or 'metric'} "
            "(docs/how_to/probes.md)",
            code="no-metric",
            where=metric,
        )
    return sorted(rows, key=lambda row: not row["core"])


def values(
    workspace: Workspace, metric: str, variant: str, problem: str | None
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Names and rows of a variant's values, in any of its contexts.

    Raises:
        StorageError: nothing has been built, or another program writes.
    """
    from warehouse.sql.connection import connect_read_only

    with connect_read_only(workspace) as connection:
        result = connection.execute(
            """
            select problem, variant, model_id, value, tokens, documents, reason
            from metric_values
            where metric = $metric
                and $variant in (variant, split_part(variant, '@', 1))
                and coalesce(problem = $problem, true)
            order by problem, variant, model_id
            """,
            {"metric": metric, "variant": variant, "problem": problem},
        )
        return [column[0] for column in result.description or []], result.fetchall()


def list_metrics(rows: Sequence[Row]) -> Iterator[str]:
    """One entry per metric: how many variants, which way is better, formula, caution."""
    counts = Counter(row["metric"] for row in rows)
    core = Counter(row["metric"] for row in rows if row["core"])
    for name, row in sorted({row["metric"]: row for row in rows}.items()):
        mark = "" if row["admissible"] else ", not admissible"
        yield (
            f"{name:<24} {counted(counts[name], 'variant')} ({core[name]} in the core), "
            f"{row['direction']} is better{mark}"
        )
        yield f"    {row['formula']}"
        if row["caution"]:
            yield f"    caution: {row['caution']}"
    yield (
        f"{counted(len(rows), 'variant')} of {counted(len(counts), 'metric')}; {core.total()} in "
        "the core, which is built without `--vars 'grids: true'`"
    )


def list_variants(rows: Sequence[Row]) -> Iterator[str]:
    """One line per variant: METRIC/VARIANT, as commands take it, and its settings."""
    for row in rows:
        marks = ("" if row["core"] else "  (grid)") + (
            "" if row["admissible"] else "  (not admissible)"
        )
        yield f"{row['metric']}/{row['variant']}  {_settings(row)}{marks}"
    core = sum(row["core"] for row in rows)
    yield (
        f"{counted(len(rows), 'variant')}; {core} in the core, the others are built with "
        "`--vars 'grids: true'`"
    )


def describe(rows: Sequence[Row]) -> Iterator[str]:
    """Direction, caution and description of a metric, then each variant with its settings."""
    yield f"{rows[0]['metric']}: {rows[0]['direction']} is better"
    if rows[0]["caution"]:
        yield f"Caution: {rows[0]['caution']}"
    yield rows[0]["description"].strip() + "\n"
    for row in rows:
        yield f"{row['variant']}  {_settings(row)}"


def _settings(row: Row) -> str:
    """`exp of micro over tokens: (sum(nll)) / (count(*)) where …`."""
    formula = f"({row['numerator']}) / ({row['denominator']})"
    which = "" if row["where"] == "true" else f" where {row['where']}"
    last = f"{row['transform']} of " if row["transform"] else ""
    return f"{last}{row['aggregation']} over {row['over']}: {formula}{which}"
