"""Start of dbt: this environment's, in dbt_project/, on the workspace's data and database."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import IO

from warehouse.child_process import NOT_FROM_HERE, inherited
from warehouse.paths import Workspace

_KEPT = ("DBT_TARGET_PATH", "DBT_LOG_PATH")
"""Variables of dbt that reach it. All others may be those of another project: its profile, its
target, its flags."""

# dbt makes millions of Python objects, and nearly all live until it ends. Looking for garbage
# among them takes a sixth of dbt's own time. The folder dbt runs in is nowhere to import from.
_CHILD = f"""{NOT_FROM_HERE}import gc
gc.disable()
from dbt.cli.main import cli
cli(prog_name="dbt")
"""


def command() -> list[str]:
    """The beginning of a command line for dbt."""
    return [sys.executable, "-c", _CHILD]


def run_dbt(arguments: Sequence[str], workspace: Workspace, log: IO[bytes] | None = None) -> int:
    """Run dbt in the project's folder, with the workspace's data and database.

    DuckDB's file has one writer: while another dbt builds, its message names that process.

    Args:
        log: where its output goes; None for this process's own output.

    Returns:
        dbt's exit status.
    """
    workspace.database.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    return subprocess.run(
        [*command(), *arguments],
        cwd=workspace.dbt_project,
        env={**inherited("DBT_", _KEPT), **workspace.environment()},
        stdout=log,
        stderr=log,
        check=False,
    ).returncode
