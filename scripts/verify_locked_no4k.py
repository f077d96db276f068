"""Official scorer of the locked problem: `python scripts/verify_locked_no4k.py --help`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--submission",
    required=True,
    type=click.Path(path_type=Path),
    help="JSON object {model: score}, or list of rows with 'model' and the metric key.",
)
@click.option(
    "--metric-key",
    default="score",
    show_default=True,
    help="Key of the score in a row; an object needs none.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Where to save the result as JSON.")
@click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(0, 2**32 - 1),
    help="Seed of the bootstrap and the MCD filter.",
)
@click.option(
    "--resamples",
    default=10_000,
    show_default=True,
    type=click.IntRange(100, 1_000_000),
    help="Number of bootstrap resamples behind each interval.",
)
def main(submission: Path, metric_key: str, out: Path | None, seed: int, resamples: int) -> None:
    """Correlate a submission of the 17 locked models with the locked downstream target.

    Exit code 0: computed; 2: bad submission; 3: the locked target is missing or changed.
    """
    from analysis.submission import show_result, verify_locked
    from warehouse.paths import find_workspace

    workspace = find_workspace(ROOT)
    result = verify_locked(workspace, submission, metric_key, seed, resamples)
    show_result(result, workspace, submission, out, as_json=False)


if __name__ == "__main__":
    main()
