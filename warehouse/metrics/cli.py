"""`tokenmart metrics` and `tokenmart dbt`: options and words."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

import click

from warehouse.errors import TokenmartError, visible
from warehouse.options import ANY_PROBLEM, JSON
from warehouse.paths import find_workspace


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
    from warehouse.metrics import catalog
    from warehouse.problem.spec import load_problem

    workspace = find_workspace()
    loaded = None if problem is None else load_problem(problem, workspace)
    rows = catalog.entries(workspace, metric, loaded)
    if as_json:
        short = [{name: row[name] for name in row if name != "description"} for row in rows]
        click.echo(json.dumps(short, indent=2))
    else:
        _print(catalog.list_variants(rows) if metric or problem else catalog.list_metrics(rows))


@metrics.command(short_help="Show a metric's description and formulas, and a variant's values.")
@click.argument("name", metavar="METRIC[/VARIANT]")
@ANY_PROBLEM
@JSON
def show(name: str, problem_name: str | None, as_json: bool) -> None:
    """Show a metric's description and the formula of each variant; of one variant also its values.

    Values need `tokenmart dbt build`; formulas don't. `tokenmart sql --name near_duplicates` lists
    variants that rank the models alike.

    \b
    tokenmart metrics show longppl
    tokenmart metrics show longppl/alpha_2_beta_-2@window_4096 --problem no4k
    """
    from warehouse.metrics import catalog
    from warehouse.problem.problem_files import read_problem_file
    from warehouse.sql.output import print_table

    workspace = find_workspace()
    metric, _, variant = name.partition("/")
    rows = catalog.entries(workspace, metric)
    if variant:
        rows = [row for row in rows if row["variant"] == variant.partition("@")[0]]
    if not rows:
        raise TokenmartError(
            f"metrics: {metric} has no variant {variant!r}; `tokenmart metrics list --metric "
            f"{metric}` lists them",
            code="unknown-variant",
            where=name,
        )
    if not as_json:
        _print(catalog.describe(rows))
    names: list[str] = []
    values: list[tuple[Any, ...]] = []
    if variant and workspace.database.is_file():
        problem = problem_name and read_problem_file(problem_name, workspace).value.get("name")
        names, values = catalog.values(workspace, metric, variant, problem)
    if as_json:
        found = [dict(zip(names, row, strict=True)) for row in values]
        click.echo(json.dumps({"catalog": rows, "values": found}, indent=2))
    elif values:
        print_table(names, values)


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
    from warehouse.metrics.dbt_process import run_dbt

    sys.exit(run_dbt(arguments, find_workspace()))


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(visible(line))
