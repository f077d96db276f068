"""`tokenmart verify`, `submit` and `reproduce`."""

from __future__ import annotations

from pathlib import Path

import click

from analysis.options import FILE, PROBLEM, RESAMPLES, SEED


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
    from analysis.submission.verifier import present, verify_problem
    from warehouse.paths import find_workspace

    workspace = find_workspace()
    result = verify_problem(workspace, problem, submission, metric_key, seed, resamples)
    present(result, workspace, submission, out, as_json)


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
    from analysis.submission.submit import Order
    from analysis.submission.submit import submit as write_submission
    from analysis.submission.verifier import summary
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
    from analysis.submission.submit import reproduce as redo
    from warehouse.errors import TokenmartError
    from warehouse.paths import find_workspace

    checks = redo(find_workspace(), folder, problem)
    for check in checks:
        word = "same   " if check.holds else "DIFFERS" if check.decisive else "moved  "
        click.echo(f"{word}  {check.what}: {check.finding}")
    failed = [check.what for check in checks if check.decisive and not check.holds]
    if failed:
        raise TokenmartError(f"{folder}: not reproduced: {', '.join(failed)} differ")
