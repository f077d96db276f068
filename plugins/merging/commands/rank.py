"""Rank entries by geometric means of mean win rates, with intervals."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from warehouse.errors import TokenmartError, visible
from warehouse.options import FILE, FORCE, FORCE_OTHER, JSON
from warehouse.terminal import counted, file_size

if TYPE_CHECKING:
    from plugins.merging.competition.standings import Standings
    from plugins.merging.problem import MergeProblem

OWN_STANDINGS = b'"ranking_pairs"'
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")
_SHOWN = (
    click.option("--problem", "name", help="Name of a ranking that `tokenmart dbt` built."),
    click.option(
        "--results",
        type=FILE,
        help="File of results, instead of --problem, in the format of `tokenmart rank import`.",
    ),
    click.option(
        "--round",
        "round_name",
        help="Show only this round, and nothing that depends on another one; `overall`: with the "
        "notes on its rounds.",
    ),
    click.option(
        "--draws",
        default=1000,
        show_default=True,
        type=click.IntRange(0, 100_000),
        help="Number of bootstrap draws of each interval of --results.",
    ),
    click.option(
        "--seed",
        default=0,
        show_default=True,
        type=click.IntRange(0, 2**32 - 1),
        help="Random seed of the draws of --results.",
    ),
)


def _shown(command: Callable[..., None]) -> Callable[..., None]:
    """Options that say which ranking is shown."""
    for option in reversed(_SHOWN):
        command = option(command)
    return command


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
    and optionally round, round_weight, task_group, metric, direction (higher, lower, none), item
    and cluster. An item is a whole number of at least 0; in a round, all rows have an item or none
    has. Items with the same cluster share a context and are resampled together. An empty value is a
    failed run. Without a direction, lower is better for metrics named like a loss or a latency,
    else higher; what was assumed is printed. Columns of direction none are left out. Values of the
    metric mean_win_rate are used as given.

    \b
    tokenmart rank import --problem challenge results.csv
    """
    from plugins.merging.competition.ranking_table import read_ranking, store_ranking
    from plugins.merging.competition.standings import BUILD, check_results
    from plugins.merging.competition.standings_view import missing_notes, scale_notes
    from warehouse.paths import find_workspace, list_problems

    workspace = find_workspace()
    if not _NAME.fullmatch(name):
        raise TokenmartError(
            f"--problem {name}: a name has a-z, 0-9, _ and - only, 100 at most; choose another"
        )
    if name in list_problems(workspace):
        raise TokenmartError(f"--problem {name}: a problem file has this name; choose another")
    table = read_ranking(file)
    if (workspace.store / "ranking_results" / f"problem={name}").exists() and not force:
        raise TokenmartError(
            f"--problem {name}: results of this name are here; replace them with --force"
        )
    for line in table.notes:
        click.echo(visible(line), err=True)
    checks = check_results(table, name, workspace)
    for line in scale_notes(checks["mixed_scales"]) + missing_notes(checks["ranking_missing"]):
        click.echo(visible(line), err=True)
    store_ranking(table, workspace, name)
    entries = len(table.results["entry"].unique())
    columns = len(table.columns.group_by(["task", "metric"]).aggregate([]))
    rounds = len(table.columns["round"].unique())
    click.echo(
        f"{name}: {table.results.num_rows:,} results of {entries} entries in "
        f"{counted(columns, 'column')} (a task and a metric each) and {counted(rounds, 'round')}; "
        f"next: {BUILD}"
    )


@rank.command(short_help="Show a ranking and the pairs that are not distinguishable.")
@_shown
@click.option(
    "--explain", is_flag=True, help="Print every round with all columns, notes and definitions."
)
@click.option(
    "--relative",
    metavar="PROBLEM",
    help="Instead of the ranking, show each merged entry relative to its base and to the best of "
    "its experts, by the recipes of this merge problem.",
)
@JSON
@click.option("--out", type=FILE, help="Also write JSON to this file.")
@FORCE_OTHER
def show(
    name: str | None,
    results: Path | None,
    round_name: str | None,
    draws: int,
    seed: int,
    explain: bool,
    relative: str | None,
    as_json: bool,
    out: Path | None,
    force: bool,
) -> None:
    """Show a ranking: scores, rank intervals, and pairs that are not distinguishable.

    The win rate is HELM's. A round's score is the geometric mean of the mean win rates; the overall
    score is the weighted mean of the rounds. The product of the mean win rates is reported as well.
    Intervals resample items, or groups of tasks if results have no items. Prints the overall
    ranking, or the first round; --explain prints all rounds and notes.

    \b
    tokenmart rank show --results results.csv
    tokenmart rank show --problem challenge --out standings.json
    tokenmart rank show --results results.csv --relative minimerge
    """
    from plugins.merging.competition.standings_view import print_relative, print_standings
    from plugins.merging.problem import load_merge_problem
    from warehouse.files import refuse_protected, write_whole
    from warehouse.paths import find_workspace

    _refuse_no_results(results)
    if out is not None:
        refuse_protected(out, find_workspace(), force=force, own=OWN_STANDINGS)
    recipes = None if relative is None else load_merge_problem(relative, find_workspace())
    found = _standings(name, results, draws, seed, round_name, recipes)
    text = json.dumps({"name": found.name, **found.marts}, indent=2, allow_nan=False)
    if as_json:
        click.echo(text)
    elif relative is not None:
        print_relative(found)
    else:
        print_standings(found, explain)
    if out is not None:
        write_whole(out, text + "\n")
        click.echo(f"written {out}", err=as_json)


@rank.command(short_help="Write the leaderboard as an HTML page.")
@_shown
@click.option(
    "--out",
    type=FILE,
    default="standings.html",
    show_default=True,
    help="Write the page to this file.",
)
@FORCE_OTHER
def report(
    name: str | None,
    results: Path | None,
    round_name: str | None,
    draws: int,
    seed: int,
    out: Path,
    force: bool,
) -> None:
    """Write the leaderboard as an HTML page: scores, rank intervals, win rates, costs.

    The page is one file that needs no network. It contains no items and no results of items, so
    organisers can publish it; with --round open, before the hidden round is over.

    \b
    tokenmart rank report --results results.csv --out standings.html
    """
    from plugins.merging.competition.standings_page import OWN_PAGE, standings_page
    from warehouse.files import refuse_protected, write_whole
    from warehouse.paths import find_workspace

    _refuse_no_results(results)
    refuse_protected(out, find_workspace(), force=force, own=OWN_PAGE)
    found = _standings(name, results, draws, seed, round_name)
    page = standings_page(found)
    write_whole(out, page)
    click.echo(f"written {out} ({file_size(len(page.encode()))})")


def _refuse_no_results(results: Path | None) -> None:
    """Refuse a missing file of results before --out asks for --force."""
    from warehouse.files import refuse_no_file

    if results is not None:
        refuse_no_file(results)


def _standings(
    name: str | None,
    results: Path | None,
    draws: int,
    seed: int,
    round_name: str | None,
    recipes: MergeProblem | None = None,
) -> Standings:
    from plugins.merging.competition.standings import rank_file, stored_standings
    from warehouse.paths import find_workspace

    if results is not None and name is None:
        found = rank_file(results, find_workspace(), draws, seed, round_name, recipes)
    elif name is None or results is not None:
        raise TokenmartError("give either --problem or --results")
    else:
        found = stored_standings(name, find_workspace(), recipes)
    for line in found.notes:
        click.echo(visible(line), err=True)
    return found if round_name is None else found.only(round_name)
