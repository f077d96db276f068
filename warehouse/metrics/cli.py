"""`tokenmart metrics` and `tokenmart dbt`: options and words."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from warehouse.errors import visible
from warehouse.paths import Workspace, find_workspace

if TYPE_CHECKING:
    import duckdb

_JSON = click.option("--json", "as_json", is_flag=True, help="Write JSON instead of lines.")


@click.group()
def metrics() -> None:
    """List the metrics with their variants and formulas, and start a metric of your own."""


@metrics.command("list", short_help="List all metrics with their formula and direction.")
@click.option("--metric", help="Show the variants of this metric, with their settings.")
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

    With --metric, list the variants of one metric and their settings. What is listed is what was
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
        from warehouse.metrics.unbuilt import unbuilt_catalog
        from warehouse.problem.spec import load_problem

        loaded = load_problem(problem, workspace)
        with unbuilt_catalog(workspace.dbt_project) as connection:
            rows = catalog.variants(connection, metric, family, admissible)
        rows = catalog.in_problem(rows, loaded)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    elif problem is not None:
        _print(listing.list_names(rows))
    else:
        _print(listing.list_variants(rows) if metric else listing.list_metrics(rows))


@metrics.command(short_help="Show a metric's formula, traps, values and near copies.")
@click.argument("metric")
@click.argument("variant", required=False)
@click.option("--problem", help="Show the values of this problem only.")
@click.option("--values", "all_values", is_flag=True, help="Show every model's value.")
@click.option(
    "--threshold",
    default=0.99,
    show_default=True,
    type=click.FloatRange(0, 1),
    help="Variants with at least this absolute rank correlation are near copies of each other.",
)
@click.option(
    "--neighbours", default=5, show_default=True, help="Show so many of the closest variants."
)
@_JSON
def show(
    metric: str,
    variant: str | None,
    problem: str | None,
    all_values: bool,
    threshold: float,
    neighbours: int,
    as_json: bool,
) -> None:
    """Show what a metric measures, its formula and traps, its values and near copies.

    Near copies rank the models alike. Rank correlations are taken over the models that both
    variants have a value for. A group holds the variants that are as close as --threshold to its
    first one; near copies in other metrics are named too. Values and near copies need
    `tokenmart dbt build`; formulas don't.

    \b
    tokenmart metrics show longppl
    tokenmart metrics show longppl --threshold 0.95 --values
    tokenmart metrics show longppl alpha_2_beta_-2@window_4096 --problem no4k
    """
    from warehouse.metrics import catalog, listing
    from warehouse.metrics.near_copies import correlate_variants, group_near_copies, ranked
    from warehouse.metrics.variant_files import read_variants

    workspace = find_workspace()
    with _catalog(workspace) as connection:
        entries = catalog.entries(connection, metric, variant)
        values = catalog.values(connection, metric, variant, problem)
        correlations = correlate_variants(connection, metric, variant, problem)
    groups = [] if variant else group_near_copies(correlations, metric, threshold)
    closest = [pair for place, pair in ranked(correlations) if place <= neighbours]
    if as_json:
        content = {
            "catalog": entries,
            "values": values,
            "near_copies": [asdict(group) for group in groups],
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
        _print(listing.near_copies(groups, correlations, metric, len(entries), threshold))


@metrics.command(short_help="Count variants, and different rankings of the models.")
@click.option("--problem", help="Look at this problem only.")
@_JSON
def census(problem: str | None, as_json: bool) -> None:
    """Count what was built: variants, different rankings of the models, variants without value.

    All that is built counts, and the core of it for itself. Run `tokenmart dbt build` first.

    Variants that put the models in exactly the same order are one question asked several times;
    `tokenmart metrics show METRIC` finds near copies too.

    \b
    tokenmart metrics census
    tokenmart metrics census --problem no4k --json
    """
    from warehouse.metrics import catalog, listing
    from warehouse.metrics.near_copies import take_census

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
    "--context",
    type=click.Choice(["full", "window"]),
    default="full",
    show_default=True,
    help="Use the tokens after the whole document, or those scored in both contexts.",
)
@click.option(
    "--direction",
    type=click.Choice(["higher", "lower"]),
    default="lower",
    show_default=True,
    help="Say which values are better.",
)
@click.option(
    "--features",
    is_flag=True,
    help="Let the SQL ask for a token's word, how common it is and when it last occurred.",
)
def new(name: str, context: str, direction: str, features: bool) -> None:
    """Write the files of a new metric family.

    They are its SQL, its YAML with a unit test, and its variants; they build as they are.

    \b
    tokenmart metrics new late_nll
    tokenmart metrics new far_gain --context window --direction higher
    tokenmart metrics new far_word_gain --context window --direction higher --features
    """
    from warehouse.metrics.new_family import write_family

    workspace = find_workspace()
    for path in write_family(workspace.dbt_project, name, context, direction, features):
        click.echo(f"wrote {path.relative_to(workspace.root)}")
    _refresh(workspace)
    click.echo("next: edit the SQL and the test, then run `tokenmart dbt build`")


@metrics.command(short_help="Write the list of metric families anew.")
def refresh() -> None:
    """Write the list of metric families anew (dbt_project/macros/listed_families.sql).

    A family is a model in models/marts/metrics or models/marts/custom whose YAML declares
    `meta: metric:`. Every way of starting dbt does this by itself.

    \b
    tokenmart metrics refresh
    """
    if not _refresh(find_workspace()):
        click.echo("listed_families.sql lists every family already")


@click.command(
    name="dbt",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def dbt_command(arguments: tuple[str, ...]) -> None:
    """Run dbt in dbt_project/, with this checkout's data and database.

    The core variants are built; --grids builds all variants of all families, or of those named. A
    family that fails is left out and named at the end, and the others are built. --shards divides
    the models among so many builds, each with a database and the memory limit of its own, in
    place of one build that is too large. With --on ray they run on a Ray cluster, the one at
    --address or a new one on this machine.

    \b
    tokenmart dbt build
    tokenmart dbt build --grids longppl context_gain
    tokenmart dbt run --select +perplexity+
    tokenmart dbt build --shards 4
    tokenmart dbt build --shards 32 --on ray --address head:6379

    --grids, --shards, --on and --address are Tokenmart's, for `build`. `tokenmart dbt build --help`
    lists dbt's own.
    """
    if arguments in ((), ("--help",), ("-h",)):
        click.echo(click.get_current_context().get_help())
        return
    from warehouse.metrics.dbt_process import run_dbt
    from warehouse.metrics.sharded.options import take_sharding

    workspace = find_workspace()
    _refresh(workspace)
    words, sharding = take_sharding(arguments)
    if sharding is None:
        sys.exit(run_dbt(words, workspace))
    from warehouse.metrics.sharded.local import run_here
    from warehouse.metrics.sharded.on_ray import on_ray
    from warehouse.metrics.sharded.run import build_sharded

    runner = on_ray(sharding.address) if sharding.on == "ray" else run_here
    sys.exit(build_sharded(words, workspace, sharding.shards, runner))


def _catalog(workspace: Workspace) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
    """What was built; before a build what the metrics' files say, which is told in one line."""
    from warehouse.metrics.catalog import open_catalog
    from warehouse.metrics.unbuilt import unbuilt_catalog

    if workspace.database.is_file():
        return open_catalog(workspace)
    click.echo(
        f"{workspace.database}: no warehouse yet; this is what the metrics' files say, and values "
        "need `tokenmart dbt build`",
        err=True,
    )
    return unbuilt_catalog(workspace.dbt_project)


def _refresh(workspace: Workspace) -> bool:
    """Bring the list of families up to date; say in one line what changed, on standard error."""
    from warehouse.metrics.registry import refresh_list

    changed = refresh_list(workspace.dbt_project)
    if changed is None:
        return False
    click.echo(f"listed_families.sql: {changed}", err=True)
    return True


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(visible(line))
