"""`tokenmart correlate` and `tokenmart select`."""

from __future__ import annotations

import click

from analysis.options import PROBLEM, RESAMPLES, SEED


@click.command()
@PROBLEM
@click.option("--metric", "metrics", multiple=True, help="Only this metric; may be repeated.")
@click.option("--top", default=20, show_default=True, type=click.IntRange(1), help="Rows shown.")
@click.option("--clustered", is_flag=True, help="Resample model families instead of models.")
@RESAMPLES
@SEED
@click.option("--json", "as_json", is_flag=True, help="All rows as JSON.")
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
    from analysis.ranking.correlate import run_correlate

    run_correlate(problem, metrics, None if as_json else top, clustered, resamples, seed)


@click.command()
@PROBLEM
@click.option("--metric", "metrics", multiple=True, help="Only this metric; may be repeated.")
@click.option("--top", default=20, show_default=True, type=click.IntRange(1), help="Rows shown.")
@click.option(
    "--splits",
    default=500,
    show_default=True,
    type=click.IntRange(10, 100_000),
    help="Random train/test splits.",
)
@click.option("--unofficial", is_flag=True, help="Let metrics compete that need a second model.")
@SEED
@click.option("--json", "as_json", is_flag=True, help="All rows as JSON.")
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
    from analysis.ranking.select import run_select

    run_select(problem, metrics, top, splits, seed, unofficial, as_json)
