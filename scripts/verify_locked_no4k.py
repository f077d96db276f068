"""Official scorer of the locked problem: `python scripts/verify_locked_no4k.py --help`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from analysis.submission.cli import scoring_options  # noqa: E402


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@scoring_options
def main(
    submission: Path, metric_key: str, out: Path | None, force: bool, seed: int, resamples: int
) -> None:
    """Correlate a submission of the 17 locked models with the locked downstream target.

    Exit code 0: computed; 2: bad submission; 3: the locked target is missing or changed.
    """
    from analysis.submission import show_result, verify_problem
    from warehouse.paths import find_workspace

    workspace = find_workspace(ROOT)
    result = verify_problem(workspace, "no4k", submission, metric_key, seed, resamples)
    show_result(result, workspace, submission, out, as_json=False, force=force)


if __name__ == "__main__":
    main()
