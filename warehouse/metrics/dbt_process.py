"""How dbt is started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec

import click

from warehouse.errors import TokenmartError
from warehouse.metrics import last_build
from warehouse.metrics.registry import find_families
from warehouse.metrics.variant_files import check_variants
from warehouse.paths import Workspace

# dbt makes millions of Python objects, and nearly all live until it ends. Looking for garbage
# among them takes a sixth of dbt's own time. The folder dbt runs in is nowhere to import from.
# dbt ends with the process that started it, however that one ends.
_CHILD = """
import gc, os, sys, threading, time
gc.disable()
def end_with_parent(parent=int(os.environ.get("TOKENMART_PARENT") or os.getppid())):
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)
threading.Thread(target=end_with_parent, daemon=True).start()
sys.path[:] = [folder for folder in sys.path if folder]
from dbt.cli.main import cli
sys.exit(cli(prog_name="dbt"))
"""


def command() -> list[str] | None:
    """The beginning of a command line for dbt: this environment's, else the one on the path."""
    if find_spec("dbt") and find_spec("dbt.cli"):
        return [sys.executable, "-c", _CHILD]
    program = shutil.which("dbt")
    return [program] if program else None


def run_dbt(arguments: Sequence[str], workspace: Workspace) -> int:
    """Run dbt in the project's folder, with the workspace's data and database.

    A build of everything is left out when nothing it reads has changed since the last one.

    Returns:
        dbt's exit status.

    Raises:
        TokenmartError: dbt isn't installed, or a variants file has a row that doesn't fit.
    """
    program = command()
    if program is None:
        raise TokenmartError("dbt: not installed in this environment; run `make setup`")
    check_variants(workspace.dbt_project, find_families(workspace.dbt_project))
    whole = program[0] == sys.executable and last_build.builds_all(arguments)
    reads = last_build.read_by_build(workspace) if whole else ""
    if whole and last_build.is_current(workspace, reads):
        click.echo(
            f"{workspace.database}: nothing new since the last build; to build it anyway: "
            "tokenmart dbt build --full-refresh"
        )
        return 0
    workspace.database.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [*program, *arguments],
        cwd=workspace.dbt_project,
        env={**os.environ, **workspace.environment(), "TOKENMART_PARENT": str(os.getpid())},
        check=False,
    )
    if whole and done.returncode == 0:
        last_build.remember(workspace, reads)
    return done.returncode
