"""`tokenmart metrics` and `tokenmart dbt`: options and words."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from warehouse.errors import TokenmartError, visible
from warehouse.options import ANY_PROBLEM, JSON, FiniteRange
from warehouse.paths import Workspace, find_workspace

if TYPE_CHECKING:
    import duckdb


@click.group()
def metrics() -> None:
    """List metrics, variants and formulas; write a new metric."""


@metrics.command("list", short_help="List all metrics with their formula and direction.")
@click.option("--metric", help="List the variants of this metric, with their formulas.")
@click.option("--family", help="List only the metrics of this family.")
@click.option(
    "--admissible", is_flag=True, help="List only metrics that an official submission may use."
)
@click.option(
    "--problem",
    help="Name of the problem, or path of its .yml file: list every METRIC/VARIANT that its probes "
    "allow, built or not.",
)
@JSON
def list_(
    metric: str | None, family: str | None, admissible: bool, problem: str | None, as_json: bool
) -> None:
    """List all metrics with formula, direction and cautions.

    --metric lists the variants of one metric and their formulas. The list comes from the database;
    before a build, from the files of the metrics.

    --problem lists the names for `preregister` and `submit`: every variant in every context that
    the problem's probes create. It needs no build.

    \b
    tokenmart metrics list
    tokenmart metrics list --metric longppl
    tokenmart metrics list --problem no4k --metric retrieval_gain
    tokenmart metrics list --admissible --json
    """
    from warehouse.metrics import catalog

    _refuse_no_text(metric or family or "")
    workspace = find_workspace()
    if problem is None:
        with _catalog(workspace) as connection:
            rows = catalog.entries(connection, metric, None, family, admissible)
    else:
        from warehouse.problem.spec import load_problem

        loaded = load_problem(problem, workspace)
        with catalog.unbuilt_catalog(workspace.dbt_project) as connection:
            rows = catalog.entries(connection, metric, None, family, admissible)
        rows = catalog.in_problem(rows, loaded)
    if as_json:
        short = [{name: row[name] for name in row if name != "description"} for row in rows]
        click.echo(json.dumps(short, indent=2))
    elif problem is not None:
        _print(catalog.list_names(rows))
    else:
        _print(catalog.list_variants(rows) if metric else catalog.list_metrics(rows))


@metrics.command(short_help="Show a metric's formula, values and near-duplicates.")
@click.argument("name", metavar="METRIC[/VARIANT]")
@ANY_PROBLEM
@click.option("--values", "all_values", is_flag=True, help="Show every model's value.")
@click.option(
    "--threshold",
    default=0.99,
    show_default=True,
    type=FiniteRange(0, 1),
    help="Variants with at least this absolute rank correlation are near-duplicates.",
)
@click.option(
    "--neighbours", default=5, show_default=True, help="Number of nearest variants to show."
)
@JSON
def show(
    name: str,
    problem_name: str | None,
    all_values: bool,
    threshold: float,
    neighbours: int,
    as_json: bool,
) -> None:
    """Show a metric's description, formula, values and near-duplicates.

    Near-duplicates are variants with nearly the same ranking of the models. Rank correlations use
    the models for which both variants have a value. A group has the variants whose correlation with
    its first one is at least --threshold; near-duplicates in other metrics are listed too. Values
    and near-duplicates need `tokenmart dbt build`; formulas don't.

    \b
    tokenmart metrics show longppl
    tokenmart metrics show longppl --threshold 0.95 --values
    tokenmart metrics show longppl/alpha_2_beta_-2@window_4096 --problem no4k
    """
    from warehouse.metrics import catalog
    from warehouse.metrics.near_duplicates import correlate_variants, group_near_duplicates, ranked
    from warehouse.metrics.variant_files import read_variants

    _refuse_no_text(name)
    workspace = find_workspace()
    metric, _, rest = name.partition("/")
    if not workspace.database.is_file():  # the metrics' files name no contexts
        rest = rest.partition("@")[0]
    variant = rest or None
    problem = _asked(problem_name, workspace)
    with _catalog(workspace) as connection:
        entries = catalog.entries(connection, metric, variant)
        values = catalog.values(connection, metric, variant, problem)
        correlations = correlate_variants(connection, metric, variant, problem)
    groups = [] if variant else group_near_duplicates(correlations, metric, threshold)
    closest = [pair for place, pair in ranked(correlations) if place <= neighbours]
    if as_json:
        content = {
            "catalog": entries,
            "values": values,
            "near_duplicates": [asdict(group) for group in groups],
            "closest": [asdict(pair) for pair in closest],
        }
        click.echo(json.dumps(content, indent=2))
        return
    _print(catalog.describe(entries, values, every_value=all_values or variant is not None))
    if variant:
        _print(catalog.closest_variants(closest, threshold))
        return
    file = workspace.dbt_project / "variants" / f"{metric}.csv"
    if file.is_file():  # a table of scores has none
        _print([catalog.how_many(entries, len(read_variants(file)), problem_name)])
    if workspace.database.is_file():
        _print(catalog.near_duplicates(groups, correlations, metric, len(entries), threshold))


@metrics.command(short_help="Count variants and distinct rankings of the models.")
@ANY_PROBLEM
@JSON
def census(problem_name: str | None, as_json: bool) -> None:
    """Count built variants, distinct rankings of the models, and variants without a value.

    It counts all built variants, and the core variants separately. Run `tokenmart dbt build` first.

    Variants with exactly the same ranking count once. `tokenmart metrics show METRIC` lists
    near-duplicates.

    \b
    tokenmart metrics census
    tokenmart metrics census --problem no4k --json
    """
    from warehouse.metrics import catalog
    from warehouse.metrics.near_duplicates import take_census

    workspace = find_workspace()
    problem = _asked(problem_name, workspace)
    with catalog.open_catalog(workspace) as connection:
        problems = [problem] if problem else catalog.problems(connection)
        found = [take_census(connection, name) for name in problems]
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found], indent=2))
        return
    for one in found:
        _print(catalog.census(one))


@metrics.command()
@click.argument("name")
@click.option(
    "--numerator",
    required=True,
    help="Numerator: an SQL aggregate over a document's tokens, such as `sum(nll)`.",
)
@click.option(
    "--denominator",
    default="count(*)",
    show_default=True,
    help="Denominator: an SQL aggregate.",
)
@click.option(
    "--where", default="", help="Filter: an SQL condition on tokens; default: all tokens."
)
@click.option(
    "--over",
    type=click.Choice(["tokens", "token_pairs"]),
    default="tokens",
    show_default=True,
    help="Rows: all tokens after the whole document, or those with a gain over a shorter context.",
)
@click.option(
    "--direction",
    type=click.Choice(["higher", "lower"]),
    default="lower",
    show_default=True,
    help="Which values are better.",
)
def new(name: str, numerator: str, denominator: str, where: str, over: str, direction: str) -> None:
    """Write a new metric: numerator, denominator and filter in SQL.

    Writes variants/NAME.csv, whose rows are the variants, the SQL view, its YAML with a description
    and a unit test, and the entry in the list of metrics. The metric builds without further edits.
    Expressions use the columns of fct_tokens.

    \b
    tokenmart metrics new late_nll --numerator 'sum(nll)' --where 'position >= 1000'
    tokenmart metrics new far_gain --over token_pairs --numerator 'sum(gain)' --direction higher
    """
    from warehouse.metrics.new_metric import NewMetric, write_metric

    workspace = find_workspace()
    metric = NewMetric(name, numerator, denominator, where, over, direction)
    for path in write_metric(workspace.dbt_project, metric):
        click.echo(f"wrote {path.relative_to(workspace.root)}")
    click.echo("next: edit the description and the test, then run `tokenmart dbt build`")


@click.command(
    name="dbt",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def dbt_command(arguments: tuple[str, ...]) -> None:
    """Run dbt in dbt_project/, with this checkout's data and database.

    All arguments are passed to dbt. By default the core variants are computed. The variable grids
    adds all other variants of all metrics, or of the named ones. `build` also runs dbt's data and
    unit tests.

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


def _refuse_no_text(name: str) -> None:
    """Refuse bytes of the shell that aren't UTF-8: neither DuckDB nor the screen takes them."""
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise TokenmartError(f"{name}: no such metric; see `tokenmart metrics list`") from error


def _asked(problem: str | None, workspace: Workspace) -> str | None:
    """The name of the problem that --problem selects by name or path; None for all.

    Raises:
        ProblemFileError: no such problem file.
    """
    from warehouse.problem.problem_files import read_problem_file

    return None if problem is None else str(read_problem_file(problem, workspace).value.get("name"))


def _catalog(workspace: Workspace) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
    """The built metrics; before a build those described by the metrics' files, with a note in one
    line.
    """
    from warehouse.metrics.catalog import open_catalog, unbuilt_catalog

    if workspace.database.is_file():
        return open_catalog(workspace)
    click.echo(
        f"{workspace.database}: no warehouse yet; this list is read from the metrics' files; run "
        "`tokenmart dbt build` for values",
        err=True,
    )
    return unbuilt_catalog(workspace.dbt_project)


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(visible(line))
