"""`tokenmart correlate` and `tokenmart select`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from analysis.options import RESAMPLES, SEED
from warehouse.options import FILE, JSON, LAST_PROBLEM, WIDE

if TYPE_CHECKING:
    from analysis.ranking.metric_table import Direction

METRIC = click.option(
    "--metric",
    "metrics",
    multiple=True,
    help="Show only this METRIC or METRIC/VARIANT; repeatable. p-values stay adjusted for all "
    "metrics tested.",
)
ROWS = 20
TOP = click.option(
    "--top",
    type=click.IntRange(1),
    help=f"Number of rows to show (default: {ROWS}); with `correlate --json`, of rows that get "
    "bootstrap intervals (default: all).",
)


@click.command()
@LAST_PROBLEM
@METRIC
@TOP
@WIDE
@click.option(
    "--sql",
    metavar="TEXT",
    help="Correlate the rows of this read-only SQL (columns model_id and value; $problem "
    "is the problem).",
)
@click.option(
    "--values",
    type=FILE,
    help="Correlate the numbers of this CSV file (columns model_id and value).",
)
@click.option(
    "--name",
    default="idea",
    show_default=True,
    help="Name of the metric given by --sql or --values.",
)
@click.option(
    "--better",
    default="higher",
    show_default=True,
    type=click.Choice(["higher", "lower"]),
    help="Which values of the metric given by --sql or --values are better.",
)
@click.option("--clustered", is_flag=True, help="Resample model families instead of models.")
@RESAMPLES
@SEED
@JSON
def correlate(
    problem: str,
    metrics: tuple[str, ...],
    top: int | None,
    wide: bool,
    sql: str | None,
    values: Path | None,
    name: str,
    better: Direction,
    clustered: bool,
    resamples: int,
    seed: int,
    as_json: bool,
) -> None:
    """Rank the metrics of a problem by correlation with its target.

    Metrics where lower is better are negated first: a positive correlation means that the metric
    has the direction of its catalogue entry. --sql and --values add a metric of your own; a column
    `variant` separates several. p-values are adjusted for every metric ever tested for the problem,
    whatever is shown.

    \b
    tokenmart correlate --problem minilong
    tokenmart correlate --problem minilong --metric longppl --resamples 10000
    tokenmart correlate --problem minilong --json --top 20 > correlations.json
    tokenmart correlate --problem minilong --top 5 --better lower --sql "
        select model_id, avg(nll) as value from tokens
        where problem = 'minilong' and condition = 'full' and position > 1000 group by model_id"
    """
    from analysis.ranking.ideas import idea_from_file, idea_from_sql
    from analysis.ranking.leaderboard import leaderboard_record, rank_metrics
    from analysis.ranking.leaderboard_view import print_leaderboard
    from analysis.ranking.loading import load_table, parts_reader
    from warehouse.paths import find_workspace
    from warehouse.problem.spec import load_ranked
    from warehouse.progress import progress_bar

    if sql is not None and values is not None:
        raise click.UsageError("give one of: --sql, --values")
    workspace = find_workspace()
    chosen = load_ranked(problem, workspace)
    ideas = []
    if sql is not None:
        ideas = idea_from_sql(sql, chosen, name)
    elif values is not None:
        ideas = idea_from_file(values, chosen, name)
    table = load_table(chosen, workspace, ideas, better, record=True)
    ranked = len(ideas) + sum(c.kind == "variant" for c in table.named(metrics))
    most = top or (ranked if as_json else ROWS)
    detailed = min(most + len(ideas) + 1, ranked)
    with progress_bar(detailed, "variants", detailed) as progress:
        board = rank_metrics(
            table,
            seed,
            resamples,
            detailed,
            clustered,
            progress=progress,
            shown=metrics,
            parts_of=parts_reader(workspace, table),
        )
    if not as_json:
        print_leaderboard(board, most, wide)
        return
    bootstrapped = sum(row.coefficients is not None for row in board.rows)
    with progress_bar(bootstrapped, "variants", bootstrapped) as progress:
        record = leaderboard_record(board, progress)
    click.echo(json.dumps(record, indent=2, allow_nan=False))


@click.command()
@LAST_PROBLEM
@METRIC
@TOP
@WIDE
@click.option(
    "--splits",
    default=500,
    show_default=True,
    type=click.IntRange(10, 100_000),
    help="Number of random splits into training and test models.",
)
@click.option("--unofficial", is_flag=True, help="Include metrics that need a second model.")
@SEED
@JSON
def select(
    problem: str,
    metrics: tuple[str, ...],
    top: int | None,
    wide: bool,
    splits: int,
    seed: int,
    unofficial: bool,
    as_json: bool,
) -> None:
    """List the metrics that track the target, and those not distinguishable from the best.

    Preregistered metrics come first and are tested separately. Of all others, a metric tracks the
    target when its 95% CI, simultaneous for all metrics tested, excludes 0 over all models or
    within families. A second list has the metrics that are not distinguishable from the best.
    --metric and --top only filter the display; selection uses all metrics.

    \b
    tokenmart select --problem minilong
    tokenmart select --problem minilong --json > selection.json
    """
    from analysis.ranking.loading import load_table, parts_reader
    from analysis.ranking.metric_selection import select_metric
    from analysis.ranking.selection_view import print_selection, selection_record
    from warehouse.paths import find_workspace
    from warehouse.problem.spec import load_ranked

    workspace = find_workspace()
    ranked = load_ranked(problem, workspace)
    if metrics:
        load_table(ranked, workspace).named(metrics)  # a wrong name is refused before the record
    table = load_table(ranked, workspace, record=True)
    parts_of = parts_reader(workspace, table)
    selection = select_metric(table, seed, splits, unofficial, parts_of=parts_of)
    if as_json:
        click.echo(json.dumps(selection_record(selection, metrics), indent=2, allow_nan=False))
    else:
        print_selection(selection, top or ROWS, metrics, wide)
