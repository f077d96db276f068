"""`tokenmart metrics`, the catalogue of metrics, and `tokenmart dbt`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from warehouse.errors import TokenmartError, did_you_mean, visible
from warehouse.options import JSON, RECORDS
from warehouse.paths import Workspace, find_workspace
from warehouse.terminal import counted, print_records

if TYPE_CHECKING:
    from warehouse.problem.spec import Problem

Row = dict[str, Any]


@click.group()
def metrics() -> None:
    """List metrics, variants and formulas."""


@metrics.command("list", short_help="List all metrics with their formula and direction.")
@click.option("--metric", help="List the variants of this metric, with their formulas.")
@click.option(
    "--problem",
    help="Name of the problem, or path of its .yml file: list every METRIC/VARIANT that its probes "
    "allow, built or not.",
)
@JSON
def list_(metric: str | None, problem: str | None, as_json: bool) -> None:
    """List all metrics with formula, direction and cautions.

    --metric lists the variants of one metric and their formulas. The list is that of the metrics'
    files (dbt's manifest); it needs no build.

    --problem lists the names for `preregister` and `submit`: every variant in every context that
    the problem's probes create.

    \b
    tokenmart metrics list
    tokenmart metrics list --metric longppl
    tokenmart metrics list --problem no4k --metric retrieval_gain
    """
    from warehouse.problem.spec import load_problem

    workspace = find_workspace()
    loaded = None if problem is None else load_problem(problem, workspace)
    rows = entries(workspace, metric, loaded)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    else:
        _print(_list_variants(rows) if metric or problem else _list_metrics(rows))


@metrics.command()
@click.argument("metric")
@RECORDS
def show(metric: str, as_json: bool) -> None:
    """Show a metric's description, and the formula of each variant.

    `tokenmart sql "from metric_values where metric = 'longppl'"` shows its values, after `tokenmart
    dbt build`; `tokenmart sql --name near_duplicates` the variants that rank the models alike.

    \b
    tokenmart metrics show longppl
    """
    rows = entries(find_workspace(), metric)
    if as_json:
        print_records(rows)
    else:
        _print(_describe(rows))


@click.command(
    name="dbt",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def dbt_command(arguments: tuple[str, ...]) -> None:
    """Run dbt in dbt_project/, with this checkout's data and database.

    All arguments are passed to dbt. By default the core variants are computed. The variable grids
    adds the grids of all metrics, or of the named ones. `build` also runs dbt's data and unit
    tests.

    \b
    tokenmart dbt run
    tokenmart dbt run --vars 'grids: true'
    tokenmart dbt run --vars 'grids: [longppl, context_gain]'
    tokenmart dbt run --select +perplexity+

    `tokenmart dbt run --help` lists dbt's options.
    """
    if arguments in ((), ("--help",), ("-h",)):
        click.echo(click.get_current_context().get_help())
        return
    from warehouse.metrics.manifest import run_dbt

    sys.exit(run_dbt(arguments, find_workspace()))


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
    from warehouse.metrics.manifest import in_contexts, read_metrics

    known = read_metrics(workspace)
    if metric is not None and metric not in known:
        raise TokenmartError(
            f"metrics: no {metric!r}; {did_you_mean(metric, known)}metrics: {', '.join(known)}",
            code="unknown-metric",
            where=metric,
        )
    rows = [
        {
            "metric": name,
            "variant": shown,
            "family": described.family,
            "direction": described.direction,
            "admissible": described.admissible,
            "needs": described.needs,
            "caution": described.caution,
            "formula": described.formula,
            "description": described.description,
            **settings,
        }
        for name, described in known.items()
        for variant, settings in described.variants.items()
        for shown in (
            [variant]
            if problem is None
            else in_contexts(variant, problem.suffixes(described.needs))
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


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(visible(line))


def _list_metrics(rows: Sequence[Row]) -> Iterator[str]:
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


def _list_variants(rows: Sequence[Row]) -> Iterator[str]:
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


def _describe(rows: Sequence[Row]) -> Iterator[str]:
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
