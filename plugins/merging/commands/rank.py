"""Rank entries by geometric means of mean win rates, with intervals."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from warehouse.errors import TokenmartError, visible
from warehouse.options import FILE, FORCE, FORCE_OTHER, JSON, SEED
from warehouse.terminal import file_size

if TYPE_CHECKING:
    from plugins.merging.competition.standings import Standings
    from plugins.merging.problem import MergeProblem

STORED = click.option("--problem", "name", help="Name of a ranking that `tokenmart dbt` built.")
RESULTS = click.option(
    "--results",
    type=FILE,
    help="File of results, instead of --problem, in the format of `tokenmart rank import`.",
)
ROUND = click.option(
    "--round",
    "round_name",
    help="Show only this round, and nothing that depends on another one; `overall`: with the "
    "notes on its rounds.",
)

DRAWS = click.option(
    "--draws",
    default=50_000,
    show_default=True,
    type=click.IntRange(1000, 10_000_000),
    help="Add draws of items, up to this number, while the verdict on a pair depends on them, or "
    "whether an interval of --relative excludes 0.",
)


@click.group()
def rank() -> None:
    """Rank entries by geometric means of mean win rates, with intervals."""


@rank.command("import", short_help="Import results of a competition.")
@click.option("--problem", "name", required=True, help="Name of the ranking, such as challenge.")
@FORCE
@click.argument("file", type=FILE)
def import_(name: str, force: bool, file: Path) -> None:
    """Import results of a competition into the warehouse.

    A row is one result of one entry: CSV, TSV, JSON lines or Parquet with entry, task and value,
    and optionally round, round_weight, task_group, metric, direction (higher, lower), item and
    cluster. An item is a whole number of at least 0; in a round, all rows have an item or none
    has. Items with the same cluster share a context and are resampled together. An empty value is a
    failed run. Without a direction, lower is better for metrics named like a loss or a latency,
    else higher; what was assumed is printed. Values of the metric mean_win_rate are used as given.

    \b
    tokenmart rank import --problem challenge results.csv
    """
    from plugins.merging.competition.ranking_table import read_ranking, store_ranking
    from plugins.merging.competition.standings import BUILD
    from warehouse.paths import find_workspace, list_problems

    workspace = find_workspace()
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,99}", name) or name in list_problems(workspace):
        raise TokenmartError(
            f"--problem {name}: a name has a-z, 0-9, _ and - only, 100 at most, and isn't that of "
            "a problem file",
            code="bad-name",
            where="--problem",
        )
    table = read_ranking(file)
    if (workspace.store / "ranking_results" / f"problem={name}").exists() and not force:
        raise TokenmartError(
            f"--problem {name}: results of this name are here; replace them with --force",
            code="stored-already",
            where="--problem",
        )
    for line in table.notes:
        click.echo(visible(line), err=True)
    store_ranking(table, workspace, name)
    entries = len(table.results["entry"].unique())
    click.echo(f"{name}: {table.results.num_rows:,} results of {entries} entries; next: {BUILD}")


@rank.command(short_help="Show a ranking and the pairs that are not distinguishable.")
@STORED
@RESULTS
@ROUND
@click.option(
    "--explain",
    is_flag=True,
    help="Print every round with all notes, scores of tasks, costs and definitions.",
)
@click.option(
    "--relative",
    metavar="PROBLEM",
    help="Instead of the ranking, show each merged entry relative to its base and to the best of "
    "its experts, by the recipes of this merge problem.",
)
@DRAWS
@SEED
@JSON
def show(
    name: str | None,
    results: Path | None,
    round_name: str | None,
    explain: bool,
    relative: str | None,
    draws: int,
    seed: int,
    as_json: bool,
) -> None:
    """Show a ranking: scores, rank intervals, and pairs that are not distinguishable.

    The win rate is HELM's. A round's score is the geometric mean of the mean win rates; the overall
    score is the weighted mean of the rounds. Intervals resample items, or groups of tasks if
    results have no items. Prints the overall ranking, or the first round.

    \b
    tokenmart rank show --results results.csv
    tokenmart rank show --problem challenge --json
    tokenmart rank show --results results.csv --relative minimerge
    """
    from plugins.merging.competition.standings_view import print_relative, print_standings
    from plugins.merging.problem import load_merge_problem
    from warehouse.paths import find_workspace

    recipes = None if relative is None else load_merge_problem(relative, find_workspace())
    standings = _standings(name, results, round_name, recipes, draws, seed)
    if as_json:
        click.echo(
            json.dumps({"name": standings.name, **standings.marts}, indent=2, allow_nan=False)
        )
    elif relative is not None:
        print_relative(standings)
    else:
        print_standings(standings, explain)


@rank.command(short_help="Write the leaderboard as an HTML page.")
@STORED
@RESULTS
@ROUND
@click.option(
    "--out",
    type=FILE,
    default="standings.html",
    show_default=True,
    help="Write the page to this file.",
)
@DRAWS
@SEED
@FORCE_OTHER
def report(
    name: str | None,
    results: Path | None,
    round_name: str | None,
    out: Path,
    draws: int,
    seed: int,
    force: bool,
) -> None:
    """Write the leaderboard as an HTML page: what `tokenmart rank show --explain` prints.

    The page is one file that needs no network. It contains no items and no results of items, so
    organisers can publish it; with --round open, before the hidden round is over.

    \b
    tokenmart rank report --results results.csv --out standings.html
    """
    from plugins.merging.competition.standings_view import OWN_PAGE, standings_page
    from warehouse.files import refuse_protected, write_whole
    from warehouse.paths import find_workspace

    page = standings_page(_standings(name, results, round_name, None, draws, seed))
    refuse_protected(out, find_workspace(), force=force, expected=OWN_PAGE)
    write_whole(out, page)
    click.echo(f"written {out} ({file_size(len(page.encode()))})")


def _standings(
    name: str | None,
    results: Path | None,
    round_name: str | None,
    recipes: MergeProblem | None,
    draws: int,
    seed: int,
) -> Standings:
    from plugins.merging.competition.standings import rank_file, stored_standings
    from warehouse.paths import find_workspace

    if results is not None and name is None:
        standings = rank_file(
            results,
            find_workspace(),
            round_name=round_name,
            recipes=recipes,
            most_draws=draws,
            seed=seed,
        )
    elif name is not None and results is None:
        standings = stored_standings(name, find_workspace(), recipes, draws, seed)
    else:
        raise click.UsageError("give either --problem or --results")
    for line in standings.notes:
        click.echo(visible(line), err=True)
    return standings if round_name is None else standings.only(round_name)
