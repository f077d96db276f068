"""Start of dbt: this environment's, in dbt_project/, on the workspace's data and database."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import IO

from warehouse.child_process import NOT_FROM_HERE, inherited
from warehouse.errors import TokenmartError
from warehouse.files import locked
from warehouse.paths import Workspace

_KEPT = ("DBT_TARGET_PATH", "DBT_LOG_PATH")
"""Variables of dbt that reach it. All others may be those of another project: its profile, its
target, its flags."""

# dbt makes millions of Python objects, and nearly all live until it ends. Looking for garbage
# among them takes a sixth of dbt's own time. The folder dbt runs in is nowhere to import from.
# dbt ends with the process that started it, however that one ends.
_CHILD = f"""{NOT_FROM_HERE}import gc, os, threading
gc.disable()
ended = threading.Event()
def end_with_parent(parent=int(os.environ.get("TOKENMART_PARENT") or os.getppid())):
    while os.getppid() == parent:
        if ended.wait(0.2):
            return
    os._exit(1)
watch = threading.Thread(target=end_with_parent, daemon=True)
watch.start()
from dbt.cli.main import cli
try:
    cli(prog_name="dbt")
finally:
    # with a thread still there, DuckDB's bindings list all they hold as leaked
    ended.set()
    watch.join()
"""


def command() -> list[str] | None:
    """The beginning of a command line for dbt: this environment's, else the one on the path."""
    if find_spec("dbt") and find_spec("dbt.cli"):
        return [sys.executable, "-c", _CHILD]
    program = shutil.which("dbt")
    return [program] if program else None


def run_dbt(arguments: Sequence[str], workspace: Workspace) -> int:
    """Run dbt in the project's folder, with the workspace's data and database, one at a time.

    Returns:
        dbt's exit status.

    Raises:
        TokenmartError: dbt isn't installed.
        StorageError: the cache can't be written.
    """
    with one_at_a_time(workspace):
        return start_dbt(arguments, workspace)


def start_dbt(
    arguments: Sequence[str],
    workspace: Workspace,
    log: IO[bytes] | None = None,
) -> int:
    """Run dbt, whatever else is running.

    Args:
        log: where its output goes; None for this process's own output.

    Returns:
        dbt's exit status.

    Raises:
        TokenmartError: dbt isn't installed.
    """
    program = command()
    if program is None:
        raise TokenmartError("dbt: not installed in this environment; run `make setup`")
    workspace.database.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    return subprocess.run(
        [*program, *arguments],
        cwd=workspace.dbt_project,
        env={
            **inherited("DBT_", _KEPT),
            **workspace.environment(),
            "TOKENMART_PARENT": str(os.getpid()),
        },
        stdout=log,
        stderr=log,
        check=False,
    ).returncode


def one_at_a_time(workspace: Workspace) -> AbstractContextManager[None]:
    """Wait for another dbt that was started here: DuckDB's file has one writer."""
    path = workspace.cache / "locks" / "dbt.lock"
    return locked(path, waiting="another `tokenmart dbt` is running; waiting for its end")
