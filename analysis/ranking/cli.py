"""`tokenmart correlate` and `tokenmart select`."""

from __future__ import annotations

import json

import click

from analysis.options import PROBLEM, RESAMPLES, SEED

METRIC = click.option(
    "--metric", "metrics", multiple=True, help="Take only this metric; may be repeated."
)
TOP = click.option(
    "--top",
    default=20,
    show_default=True,
    type=click.IntRange(1),
    help="Show this many rows of the table.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print all rows as JSON.")


@click.command()
@PROBLEM
@METRIC
@TOP
@click.option("--clustered", is_flag=True, help="Resample model families instead of models.")
@RESAMPLES
@SEED
@JSON
def correlate(
    problem: str,
    metrics: tuple[str, ...],
    top: int,
    clustered: bool,
    resamples: int,
    seed: int,
    as_json: bool,
) -> None:
    """Rank the metrics of a problem by correlation with its target.

    Metrics where lower is better are negated first: a positive correlation means that the
    metric behaves as its catalogue entry expects. Intervals are 95% percentile bootstrap.

    \b
    tokenmart correlate --problem minilong
    tokenmart correlate --problem minilong --metric longppl --resamples 10000
    tokenmart correlate --problem minilong --json > correlations.json
    """
    from analysis.ranking.leaderboard import leaderboard_record, print_leaderboard, rank_metrics
    from analysis.ranking.metric_table import load_table
    from warehouse.paths import find_workspace
    from warehouse.problem.table_problem import load_ranked
    from warehouse.progress import progress_bar

    workspace = find_workspace()
    table = load_table(load_ranked(problem, workspace), workspace, metrics)
    detailed = len(table.columns) if as_json else min(top, len(table.columns))
    with progress_bar(detailed, "variants") as progress:
        board = rank_metrics(table, seed, resamples, detailed, clustered, progress=progress)
    if as_json:
        click.echo(json.dumps(leaderboard_record(board), indent=2, allow_nan=False))
    else:
        print_leaderboard(board, top)


@click.command()
@PROBLEM
@METRIC
@TOP
@click.option(
    "--splits",
    default=500,
    show_default=True,
    type=click.IntRange(10, 100_000),
    help="Number of random splits into training and test models.",
)
@click.option("--unofficial", is_flag=True, help="Let metrics compete that need a second model.")
@SEED
@JSON
def select(
    problem: str,
    metrics: tuple[str, ...],
    top: int,
    splits: int,
    seed: int,
    unofficial: bool,
    as_json: bool,
) -> None:
    """Choose a metric by held-out correlation, and say when there is no winner.

    The choice is made on the training models only and scored on the others. A winner needs an
    adjusted p below 0.05, a positive held-out correlation and a stable choice.

    \b
    tokenmart select --problem minilong
    tokenmart select --problem minilong --json > selection.json
    """
    from analysis.ranking.metric_selection import select_metric
    from analysis.ranking.metric_table import load_table
    from analysis.ranking.selection_view import print_selection, selection_record
    from warehouse.paths import find_workspace
    from warehouse.problem.table_problem import load_ranked

    workspace = find_workspace()
    table = load_table(load_ranked(problem, workspace), workspace, metrics)
    selection = select_metric(table, seed, splits, unofficial)
    if as_json:
        click.echo(json.dumps(selection_record(selection), indent=2, allow_nan=False))
    else:
        print_selection(selection, top)
