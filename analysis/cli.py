"""The analysis room's commands. Heavy imports happen inside, so that help is instant."""

from __future__ import annotations

from pathlib import Path

import click

FILE = click.Path(path_type=Path)
SEED = click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(0, 2**32 - 1),
    help="Of bootstrap, permutations and the MCD filter.",
)
PROBLEM = click.option(
    "--problem", default="minilong", show_default=True, help="Name or path of a problem file."
)


RESAMPLES = click.option(
    "--resamples",
    default=10_000,
    show_default=True,
    type=click.IntRange(100, 1_000_000),
    help="Bootstrap resamples of each interval.",
)


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
    from analysis.correlate_view import run_correlate

    run_correlate(problem, metrics, None if as_json else top, clustered, resamples, seed)


@click.command()
@click.option("--submission", required=True, type=FILE, help="JSON object or list of rows.")
@click.option("--metric-key", default="score", show_default=True, help="Score key of a row.")
@click.option("--problem", default="no4k", show_default=True, help="Whose models and target count.")
@click.option("--out", type=FILE, help="Where to save the result as JSON.")
@RESAMPLES
@SEED
@click.option("--json", "as_json", is_flag=True, help="Print the JSON document.")
def verify(
    submission: Path,
    metric_key: str,
    problem: str,
    out: Path | None,
    resamples: int,
    seed: int,
    as_json: bool,
) -> None:
    """Score a submission against the locked target of a problem.

    Exit code 0: computed; 2: bad submission; 3: a locked file is missing or changed.

    \b
    tokenmart verify --submission submission.json --out result.json
    """
    from analysis.verify import present, verify_problem
    from warehouse.paths import find_workspace

    workspace = find_workspace()
    result = verify_problem(workspace, problem, submission, metric_key, seed, resamples)
    present(result, workspace, submission, out, as_json)


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
    from analysis.select_view import run_select

    run_select(problem, metrics, top, splits, seed, unofficial, as_json)


@click.command()
@PROBLEM
@click.option("--metric", required=True, help="Metric to submit.")
@click.option("--variant", help="Its variant; needed when there are several.")
@click.option("--negate", is_flag=True, help="Submit the values with the sign changed.")
@click.option("--unofficial", is_flag=True, help="Allow a metric that needs a second model.")
@click.option("--out", required=True, type=FILE, help="New folder for submission and bundle.")
@RESAMPLES
@SEED
def submit(
    problem: str,
    metric: str,
    variant: str | None,
    negate: bool,
    unofficial: bool,
    out: Path,
    resamples: int,
    seed: int,
) -> None:
    """Write a submission, the verifier's output and the reproducibility bundle.

    Refuses when coverage is incomplete, when the metric isn't admissible, or when dbt's
    lineage shows downstream scores among the metric's ancestors.

    \b
    tokenmart submit --problem no4k --metric longppl --variant default --negate --out results/mine
    """
    from analysis.submit import Order
    from analysis.submit import submit as write_submission
    from analysis.verify import summary
    from warehouse.paths import find_workspace

    order = Order(problem, metric, variant, negate, unofficial, seed, resamples)
    result = write_submission(find_workspace(), order, out)
    click.echo(summary(result))
    click.echo(f"written            {out}")


@click.command()
@click.argument("folder", type=FILE)
@click.option("--problem", help="Path of the problem file, if it isn't one that ships.")
def reproduce(folder: Path, problem: str | None) -> None:
    """Rebuild a submission's scores from the warehouse and compare them with its bundle.

    Exit code 0 when scores, verifier output and files agree, else 1.

    \b
    tokenmart reproduce results/mine
    """
    from analysis.submit import reproduce as redo
    from warehouse.errors import TokenmartError
    from warehouse.paths import find_workspace

    checks = redo(find_workspace(), folder, problem)
    for check in checks:
        word = "same   " if check.holds else "DIFFERS" if check.decisive else "moved  "
        click.echo(f"{word}  {check.what}: {check.finding}")
    failed = [check.what for check in checks if check.decisive and not check.holds]
    if failed:
        raise TokenmartError(f"{folder}: not reproduced: {', '.join(failed)} differ")


@click.command()
@PROBLEM
@click.option(
    "--out", default="report.html", show_default=True, type=FILE, help="Where to write the page."
)
@click.option("--figures", type=FILE, help="Folder for PNG and SVG files of each figure.")
@RESAMPLES
@SEED
def report(problem: str, out: Path, figures: Path | None, resamples: int, seed: int) -> None:
    """Write the report of a problem: one HTML file that needs no network.

    \b
    tokenmart report --problem minilong --out report.html
    tokenmart report --problem minilong --figures figures/
    """
    from analysis.report import run_report

    run_report(problem, out, figures, resamples, seed)


@click.command()
@PROBLEM
@click.option("--document", required=True, help="Id or name of the document.")
@click.option("--models", required=True, help="One model, or two separated by a comma.")
@click.option(
    "--measure",
    default="logprob",
    show_default=True,
    type=click.Choice(["logprob", "gain", "rank"]),
    help="What the shade shows.",
)
@click.option("--probe", help="Window probe that gain is taken from; by default the first.")
@click.option("--keys-only", is_flag=True, help="Shade only LongPPL's key tokens (terminal).")
@click.option("--start", default=0, show_default=True, type=int, help="First character shown.")
@click.option("--characters", type=click.IntRange(1), help="How many; 2000 in the terminal.")
@click.option("--out", type=FILE, help="Write an HTML page instead of printing.")
def show(
    problem: str,
    document: str,
    models: str,
    measure: str,
    probe: str | None,
    keys_only: bool,
    start: int,
    characters: int | None,
    out: Path | None,
) -> None:
    """Show a document's text with every token shaded, one model or two side by side.

    \b
    tokenmart show --problem minilong --document 0 --models smollm2-135m
    tokenmart show --problem minilong --document 0 --models smollm2-135m,gemma3-270m \\
        --measure gain --out tokens.html
    """
    from analysis.show import run_show

    run_show(problem, document, models, measure, probe, keys_only, start, characters, out)
