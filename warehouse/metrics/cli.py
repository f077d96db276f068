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
from warehouse.paths import Workspace, find_workspace

if TYPE_CHECKING:
    import duckdb

_JSON = click.option("--json", "as_json", is_flag=True, help="Write JSON instead of lines.")


@click.group()
def metrics() -> None:
    """List the metrics with their variants and formulas, and start a metric of your own."""


@metrics.command("list", short_help="List all metrics with their formula and direction.")
@click.option("--metric", help="Show the variants of this metric, with their formulas.")
@click.option("--family", help="Show the metrics of this family only.")
@click.option("--admissible", is_flag=True, help="Show only what an official submission may use.")
@click.option(
    "--problem",
    help="Show every METRIC/VARIANT that this problem's probes allow, built or not.",
)
@_JSON
def list_(
    metric: str | None, family: str | None, admissible: bool, problem: str | None, as_json: bool
) -> None:
    """List all metrics with their formula and direction, and what to be careful about.

    With --metric, list the variants of one metric and their formulas. What is listed is what was
    built; before a build, what the metrics' own files say.

    With --problem, list the names that `preregister` takes, and `submit` in two parts: of every
    variant in every context that the problem's probes make. This needs no build.

    \b
    tokenmart metrics list
    tokenmart metrics list --metric longppl
    tokenmart metrics list --problem no4k --metric retrieval_gain
    tokenmart metrics list --admissible --json
    """
    from warehouse.metrics import catalog, listing

    workspace = find_workspace()
    if problem is None:
        with _catalog(workspace) as connection:
            rows = catalog.variants(connection, metric, family, admissible)
    else:
        from warehouse.problem.spec import load_problem

        loaded = load_problem(problem, workspace)
        with catalog.unbuilt_catalog(workspace.dbt_project) as connection:
            rows = catalog.variants(connection, metric, family, admissible)
        rows = catalog.in_problem(rows, loaded)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    elif problem is not None:
        _print(listing.list_names(rows))
    else:
        _print(listing.list_variants(rows) if metric else listing.list_metrics(rows))


@metrics.command(short_help="Show a metric's formula, traps, values and near-duplicates.")
@click.argument("name", metavar="METRIC[/VARIANT]")
@click.option("--problem", help="Show the values of this problem only.")
@click.option("--values", "all_values", is_flag=True, help="Show every model's value.")
@click.option(
    "--threshold",
    default=0.99,
    show_default=True,
    type=click.FloatRange(0, 1),
    help="Variants with at least this absolute rank correlation are near-duplicates.",
)
@click.option(
    "--neighbours", default=5, show_default=True, help="Show so many of the closest variants."
)
@_JSON
def show(
    name: str,
    problem: str | None,
    all_values: bool,
    threshold: float,
    neighbours: int,
    as_json: bool,
) -> None:
    """Show what a metric measures, its formula and traps, its values and near-duplicates.

    Near-duplicates rank the models alike. Rank correlations are taken over the models that both
    variants have a value for. A group holds the variants that are as close as --threshold to its
    first one; near-duplicates in other metrics are named too. Values and near-duplicates need
    `tokenmart dbt build`; formulas don't.

    \b
    tokenmart metrics show longppl
    tokenmart metrics show longppl --threshold 0.95 --values
    tokenmart metrics show longppl/alpha_2_beta_-2@window_4096 --problem no4k
    """
    from warehouse.metrics import catalog, listing
    from warehouse.metrics.near_duplicates import correlate_variants, group_near_duplicates, ranked
    from warehouse.metrics.variant_files import read_variants

    metric, slash, rest = name.partition("/")
    variant = rest if slash else None
    workspace = find_workspace()
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
    _print(listing.describe(entries, values, every_value=all_values or variant is not None))
    if variant:
        _print(listing.closest_variants(closest, threshold))
        return
    file = workspace.dbt_project / "variants" / f"{metric}.csv"
    if file.is_file():  # a table of scores has none
        _print([listing.how_many(entries, len(read_variants(file)), problem)])
    if workspace.database.is_file():
        _print(listing.near_duplicates(groups, correlations, metric, len(entries), threshold))


@metrics.command(short_help="Count variants, and different rankings of the models.")
@click.option("--problem", help="Look at this problem only.")
@_JSON
def census(problem: str | None, as_json: bool) -> None:
    """Count what was built: variants, different rankings of the models, variants without value.

    All that is built counts, and the core of it for itself. Run `tokenmart dbt build` first.

    Variants that put the models in exactly the same order are one question asked several times;
    `tokenmart metrics show METRIC` finds near-duplicates too.

    \b
    tokenmart metrics census
    tokenmart metrics census --problem no4k --json
    """
    from warehouse.metrics import catalog, listing
    from warehouse.metrics.near_duplicates import take_census

    with catalog.open_catalog(find_workspace()) as connection:
        problems = [problem] if problem else catalog.problems(connection)
        found = [take_census(connection, name) for name in problems]
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found], indent=2))
        return
    for one in found:
        _print(listing.census(one))


@metrics.command()
@click.argument("name")
@click.option(
    "--numerator",
    required=True,
    help="SQL aggregate over a document's tokens, such as `sum(nll)`.",
)
@click.option(
    "--denominator",
    default="count(*)",
    show_default=True,
    help="SQL aggregate that the numerator is divided by.",
)
@click.option("--where", default="", help="Which tokens count, as SQL; without it all of them.")
@click.option(
    "--over",
    type=click.Choice(["tokens", "token_pairs"]),
    default="tokens",
    show_default=True,
    help="All tokens after the whole document, or those with a gain over a shorter context.",
)
@click.option(
    "--direction",
    type=click.Choice(["higher", "lower"]),
    default="lower",
    show_default=True,
    help="Which values are better.",
)
def new(name: str, numerator: str, denominator: str, where: str, over: str, direction: str) -> None:
    """Write a new metric: a numerator, a denominator and a filter in SQL.

    They go to variants/NAME.csv, whose rows are its variants; the view, its description with a unit
    test, and the list of metrics are written, too. It builds as it is. The columns are those of
    fct_tokens.

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
@click.option("--shards", type=click.IntRange(1), help="Build the models in so many shards.")
@click.option("--on", type=click.Choice(["ray"]), help="Run the shards on a Ray cluster.")
@click.option("--address", help="Use the cluster whose head has this address, HOST:PORT.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def dbt_command(
    shards: int | None, on: str | None, address: str | None, arguments: tuple[str, ...]
) -> None:
    """Run dbt in dbt_project/, with this checkout's data and database.

    All arguments are dbt's, but for three, which go with `run` and `build`. --shards divides the
    models among so many builds, each with a database and the memory limit of its own, in place of
    one build that is too large. With --on ray they run on a Ray cluster, the one at --address or a
    new one on this machine.

    The core variants are computed. The variable grids adds all others, of all metrics or of those
    named. `build` also runs the tests of data and SQL.

    \b
    tokenmart dbt run
    tokenmart dbt run --vars 'grids: true'
    tokenmart dbt run --vars 'grids: [longppl, context_gain]'
    tokenmart dbt run --select +perplexity+
    tokenmart dbt build --shards 4
    tokenmart dbt build --shards 32 --on ray --address head:6379

    `tokenmart dbt run --help` lists dbt's own.
    """
    if arguments in ((), ("--help",), ("-h",)):
        click.echo(click.get_current_context().get_help())
        return
    if "--grids" in arguments:
        named = arguments[arguments.index("--grids") + 1 :]
        wanted = f"[{', '.join(named)}]" if named and not named[0].startswith("-") else "true"
        click.echo(f"error: --grids: write --vars 'grids: {wanted}'", err=True)
        sys.exit(2)
    if shards is None and (on or address):
        raise TokenmartError("--on and --address go with --shards, as in `--shards 4 --on ray`")
    if address and not on:
        raise TokenmartError("--address goes with --on ray")
    workspace = find_workspace()
    if shards is None:
        from warehouse.metrics.dbt_process import run_dbt

        sys.exit(run_dbt(arguments, workspace))
    from warehouse.metrics.shards import build_sharded, run_here
    from warehouse.metrics.shards_on_ray import on_ray

    sys.exit(build_sharded(arguments, workspace, shards, on_ray(address) if on else run_here))


def _catalog(workspace: Workspace) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
    """What was built; before a build what the metrics' files say, which is told in one line."""
    from warehouse.metrics.catalog import open_catalog, unbuilt_catalog

    if workspace.database.is_file():
        return open_catalog(workspace)
    click.echo(
        f"{workspace.database}: no warehouse yet; this is what the metrics' files say, and values "
        "need `tokenmart dbt build`",
        err=True,
    )
    return unbuilt_catalog(workspace.dbt_project)


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(visible(line))
