"""Official scorer of the locked problem: `python scripts/verify_locked_no4k.py --help`.

It always reads the locked files of its own repository. (`tokenmart verify` uses the paths in
environment variables, and is not official.)
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from analysis.submission.cli import scoring_options  # noqa: E402
from warehouse.errors import run  # noqa: E402
from warehouse.paths import workspace_of  # noqa: E402


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@scoring_options
def main(
    submission: Path, metric_key: str, out: Path | None, force: bool, seed: int, resamples: int
) -> None:
    """Correlate a submission of the 17 locked models with the locked downstream target.

    \b
    Exit code 0: computed, and saved if --out is given
              1: --out names a protected file, such as one tracked by git
              2: the submission or an option is invalid
              3: the locked target is missing or changed
              4: --out can't be written, or is one of the inputs
    """
    from analysis.submission.verifier import verify_problem
    from analysis.submission.verifier_text import show_result

    workspace = workspace_of(ROOT)
    result = verify_problem(workspace, "no4k", submission, metric_key, seed, resamples)
    show_result(result, workspace, submission, out, as_json=False, force=force)


if __name__ == "__main__":
    run(main, Path(__file__).name)
