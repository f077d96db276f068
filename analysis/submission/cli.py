"""`tokenmart verify`, `submit` and `reproduce`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from warehouse.options import (
    FILE,
    FORCE_OTHER,
    JSON,
    LAST_PROBLEM,
    PROBLEM_HELP,
    RECORDS,
    RESAMPLES,
    SEED,
)
from warehouse.terminal import print_records

_SCORING = (
    click.option(
        "--submission",
        required=True,
        type=FILE,
        help="JSON object {model: score}, or list of rows with 'model' and the metric key.",
    ),
    click.option(
        "--metric-key",
        default="score",
        show_default=True,
        help="Key of the score in a list of rows.",
    ),
    click.option("--out", type=FILE, help="Write the result as JSON to this file."),
    FORCE_OTHER,
    RESAMPLES,
    SEED,
)


def scoring_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that `verify` shares with the official script."""
    for option in reversed(_SCORING):
        command = option(command)
    return command


@click.command()
@scoring_options
@click.option("--problem", default="no4k", show_default=True, help=f"{PROBLEM_HELP}.")
@JSON
def verify(
    submission: Path,
    metric_key: str,
    problem: str,
    out: Path | None,
    force: bool,
    resamples: int,
    seed: int,
    as_json: bool,
) -> None:
    """Score a submission against the locked target of a problem.

    \b
    Exit code 0: computed, and saved if --out is given
              1: no such problem or no target, or --out names a file that the project keeps
              2: bad submission, or a wrong option
              3: a locked file is missing or changed
              4: --out can't be written, or names an input

    \b
    tokenmart verify --submission submission.json --out result.json
    """
    from analysis.submission.verifier import verify_problem
    from analysis.submission.verifier_text import show_result
    from warehouse.paths import find_workspace

    workspace = find_workspace()
    result = verify_problem(workspace, problem, submission, metric_key, seed, resamples)
    show_result(result, workspace, submission, out, as_json, force)


@click.command()
@LAST_PROBLEM
@click.option("--metric", required=True, help="METRIC/VARIANT to submit.")
@click.option("--unofficial", is_flag=True, help="Allow a metric that needs a second model.")
@click.option(
    "--out",
    required=True,
    type=FILE,
    help="Write submission and bundle to this new folder.",
)
@RESAMPLES
@SEED
@RECORDS
def submit(
    problem: str,
    metric: str,
    unofficial: bool,
    out: Path,
    resamples: int,
    seed: int,
    as_json: bool,
) -> None:
    """Write a submission, the verifier's output and the reproducibility bundle.

    A submitted score is read as higher is better: values of a metric where the catalogue expects
    lower ones are negated. Refuses if coverage is incomplete, if the metric is not admissible, or
    if dbt's lineage has a seed or a snapshot above the metric.

    \b
    tokenmart submit --problem minilong --metric perplexity/bits_per_byte --out results/mine
    """
    from analysis.submission.submit import SubmissionRequest, write_submission
    from analysis.submission.verifier_text import result_record, result_text
    from warehouse.paths import find_workspace

    request = SubmissionRequest(problem, metric, unofficial, seed, resamples)
    result = write_submission(find_workspace(), request, out)
    if as_json:
        print_records([{"folder": str(out), "metric": metric, **result_record(result)}])
        return
    click.echo(result_text(result))
    click.echo(f"written            {out}")


@click.command()
@click.argument("folder", type=FILE)
@click.option("--problem", help="Path of the problem file, if it is not in data/problems.")
def reproduce(folder: Path, problem: str | None) -> None:
    """Recompute a submission's scores from the warehouse and compare them with its bundle.

    Exits with 0 if scores, verifier output and files agree, else with 1.

    \b
    tokenmart reproduce results/mine
    """
    from analysis.submission.reproduce import compare_with_warehouse
    from warehouse.errors import TokenmartError
    from warehouse.paths import find_workspace

    comparisons = compare_with_warehouse(find_workspace(), folder, problem)
    for comparison in comparisons:
        word = "same   " if comparison.holds else "DIFFERS" if comparison.decisive else "moved  "
        click.echo(f"{word}  {comparison.what}: {comparison.finding}")
    failed = [found.what for found in comparisons if found.decisive and not found.holds]
    if failed:
        raise TokenmartError(f"{folder}: not reproduced: {', '.join(failed)} differ")
