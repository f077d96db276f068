"""How dbt is started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec

import click
from filelock import FileLock, Timeout

from warehouse.errors import TokenmartError
from warehouse.files import storage_errors
from warehouse.metrics import last_build
from warehouse.metrics.going_on import RESULTS, Overlay, broken_families, overlay_without
from warehouse.metrics.lineage import manifest_path
from warehouse.metrics.registry import find_families
from warehouse.metrics.tries import remember_built
from warehouse.metrics.variant_files import check_variants, take_grids
from warehouse.paths import Workspace

# dbt makes millions of Python objects, and nearly all live until it ends. Looking for garbage
# among them takes a sixth of dbt's own time. The folder dbt runs in is nowhere to import from.
# dbt ends with the process that started it, however that one ends.
_CHILD = """
import gc, os, sys, threading
gc.disable()
ended = threading.Event()
def end_with_parent(parent=int(os.environ.get("TOKENMART_PARENT") or os.getppid())):
    while os.getppid() == parent:
        if ended.wait(0.2):
            return
    os._exit(1)
watch = threading.Thread(target=end_with_parent, daemon=True)
watch.start()
sys.path[:] = [folder for folder in sys.path if folder]
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

    A build of everything is left out when nothing it reads has changed since the last one, and
    builds only what can differ when no more than some families' own files have. Unit tests, which
    test the SQL and no data, run again when the SQL has changed. A family that fails is named, and
    all others are built without it. What was built is remembered among the tries of its problem.

    Args:
        arguments: dbt's own, and `--grids [FAMILY…]`.
        workspace: the checkout.

    Returns:
        dbt's exit status; that of the first attempt where a family was left out.

    Raises:
        TokenmartError: dbt isn't installed, or a family or a variants file has a mistake.
        StorageError: the cache can't be written.
    """
    with one_at_a_time(workspace):
        return _run_alone(arguments, workspace)


@contextmanager
def one_at_a_time(workspace: Workspace) -> Iterator[None]:
    """Wait for another dbt that was started here: DuckDB's file has one writer."""
    path = workspace.cache / "locks" / "dbt.lock"
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            click.echo("another `tokenmart dbt` is running; waiting for its end", err=True)
            lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _run_alone(arguments: Sequence[str], workspace: Workspace) -> int:
    program = command()
    if program is None:
        raise TokenmartError("dbt: not installed in this environment; run `make setup`")
    families = find_families(workspace.dbt_project)
    check_variants(workspace.dbt_project, families)
    arguments, grids = take_grids(arguments, [family.metric for family in families])
    whole = program[0] == sys.executable and last_build.builds_all(arguments)
    words = [*program, *arguments, *grids]
    if whole:
        reads = last_build.read_by_build(workspace, grids)
        changed = last_build.changed_families(workspace, reads)
        if changed == []:
            click.echo(
                f"{workspace.database}: nothing new since the last build; to build it anyway: "
                "tokenmart dbt build --full-refresh"
            )
            return 0
        if changed and {family.metric for family in families}.issuperset(changed):
            click.echo(f"all that differs from the last build: {', '.join(changed)}")
            words += last_build.narrowed(changed)
        if last_build.tested(workspace, reads):
            words += ["--exclude-resource-type", "unit_test"]
    workspace.database.parent.mkdir(parents=True, exist_ok=True)
    builds = not {"run", "build"}.isdisjoint(arguments)
    target = manifest_path(workspace).parent
    if builds:
        (target / RESULTS).unlink(missing_ok=True)
    status, output = run_words(words, workspace)
    if builds and status:
        _go_on(words, workspace, broken_families(families, target, output))
    if builds:
        remember_built(workspace)
    if whole and status == 0:
        last_build.remember(workspace, reads)
    return status


def run_words(
    words: Sequence[str],
    workspace: Workspace,
    overlay: Overlay | None = None,
    settings: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """Run a command line for dbt in the project's folder.

    Args:
        words: from `command`, and dbt's own.
        workspace: whose data and database it uses.
        overlay: a copy of the project that takes its place.
        settings: further variables of its environment.

    Returns:
        dbt's exit status, and what it printed, which is shown as it comes.
    """
    environment = {
        **os.environ,
        **(settings or {}),
        **workspace.environment(),
        "TOKENMART_PARENT": str(os.getpid()),
        **(overlay.environment() if overlay else {}),
    }
    lines = []
    with subprocess.Popen(
        words,
        cwd=overlay.project if overlay else workspace.dbt_project,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            lines.append(line)
            click.echo(line, nl=False)
    return process.returncode, "".join(lines)


def _go_on(words: Sequence[str], workspace: Workspace, found: list[str]) -> None:
    """Build what doesn't depend on broken families, and name these last."""
    broken, status = build_without(words, workspace, found)
    if broken:
        rest = "everything else is built" if status == 0 else "more went wrong, see above"
        click.echo(
            f"\nerror: {', '.join(broken)}: failed, see above, and left out of metric_values; "
            f"{rest}; mend it and run the same command again",
            err=True,
        )


def build_without(
    words: Sequence[str],
    workspace: Workspace,
    found: list[str],
    settings: Mapping[str, str] | None = None,
) -> tuple[list[str], int]:
    """Build what doesn't depend on broken families, as long as that finds more of them.

    Args:
        words: of the command that failed.
        workspace: the checkout.
        found: families that broke in it; none: nothing is run.
        settings: see `run_words`.

    Returns:
        All broken families, and dbt's exit status without them.
    """
    families = find_families(workspace.dbt_project)
    broken: list[str] = []
    status = 1
    while found:
        broken += found
        click.echo(f"\ngoing on without {', '.join(broken)}\n")
        with overlay_without(workspace, broken) as overlay:
            status, output = run_words(words, workspace, overlay, settings)
            found = broken_families(families, overlay.target, output) if status else []
            found = [name for name in found if name not in broken]
    return broken, status
