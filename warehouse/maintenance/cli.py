"""`tokenmart init` and `doctor`, and of `tokenmart data`: check and gc."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from warehouse.errors import StorageError, TokenmartError, visible
from warehouse.files import storage_errors
from warehouse.options import ANY_PROBLEM, FILE, JSON, RECORDS
from warehouse.paths import find_workspace, shipped_folder
from warehouse.problem.cli import data as data
from warehouse.terminal import counted, print_records

if TYPE_CHECKING:
    from warehouse.paths import Workspace

CODE = Path(__file__).parents[1]
"""In an installed wheel; a checkout has the same folders at its root."""

_PARTS = (
    "dbt_project",
    "data/problems",
    "data/published",
    "data/preregistered",
)
_LEFT_OUT = shutil.ignore_patterns("target", "logs", "*.lock", ".user.yml")


@click.command()
@click.argument("folder", type=FILE)
def init(folder: Path) -> None:
    """Make a workspace in FOLDER: the dbt project, problem files and a place for data.

    For an installation without a checkout. Commands that are started in the folder, or below it,
    use it; $TOKENMART_HOME names it from elsewhere. Existing files are kept.

    \b
    tokenmart init study
    """
    for path in _make_workspace(folder):
        click.echo(f"wrote {folder / path}")
    click.echo("next:")
    click.echo(f"  cd {shlex.quote(str(folder))}")
    click.echo("  tokenmart doctor")


def _make_workspace(folder: Path) -> list[Path]:
    """Write a workspace; returns what was written, relative to the folder."""
    source = shipped_folder()
    if not (source / "dbt_project" / "dbt_project.yml").is_file():
        raise TokenmartError(
            f"{source}: no dbt_project in this installation; install the wheel again"
        )
    parts = {Path(part): source / part for part in _PARTS if (source / part).exists()}
    plugins = sorted((CODE.parent / "plugins").glob("*/dbt"))
    parts |= {path.relative_to(CODE.parent): path for path in plugins}
    for name in parts:
        if (folder / name).exists():
            raise TokenmartError(f"{folder / name}: there already; give a new folder")
    written = []
    with storage_errors(folder):
        for name, path in parts.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                shutil.copytree(path, target, ignore=_LEFT_OUT)
            else:
                shutil.copyfile(path, target)
            written.append(name)
        (folder / "warehouse").mkdir(exist_ok=True)  # for the database, which dbt opens by itself
        # where dbt looks when it is started one folder up
        shutil.copyfile(folder / "dbt_project" / "profiles.yml", folder / "profiles.yml")
    return written


@click.command()
@RECORDS
def doctor(as_json: bool) -> None:
    """Print versions, devices, memory and disk.

    Exits with 1 if something required is missing.

    \b
    tokenmart doctor
    tokenmart doctor --json
    """
    from warehouse.maintenance.doctor import examine

    checks = examine(find_workspace())
    if as_json:
        print_records(check._asdict() for check in checks)
    for check in () if as_json else checks:
        click.echo(f"{'missing' if check.is_missing else '':<7}  {check.name}: {check.finding}")
    if missing := [check.name for check in checks if check.is_missing]:
        raise TokenmartError(f"missing: {', '.join(missing)}", code="missing", where=missing[0])


@data.command(short_help="Check every file of the store, and every token against rules.")
@ANY_PROBLEM
@click.option("--repair", is_flag=True, help="Rename files that have a defect.")
@JSON
def check(problem_name: str | None, repair: bool, as_json: bool) -> None:
    """Check every file of the store, and every token against rules.

    Compares each file with its checksum and its place, and the rows of each unit with the ledger,
    the documents and rules such as `logprob <= 0`. --repair renames a file with a defect to
    `*.damaged`; the next `tokenmart extract` recomputes its units. Exits with 4 while a defect is
    left.

    \b
    tokenmart data check
    tokenmart data check --problem minilong --repair
    """
    from warehouse.maintenance.check import check_store
    from warehouse.progress import progress_bar
    from warehouse.store.token_files import set_aside

    workspace = find_workspace()
    count = sum(1 for store in workspace.token_stores for _ in store.tokens.rglob("*.parquet"))
    with progress_bar(count, "files") as progress:
        result = check_store(workspace, _name_of(problem_name, workspace), progress)
    defects = result.defects
    files = dict.fromkeys(defect.path for defect in defects)
    repaired = {str(file): str(set_aside(file)) for file in files if repair}
    if as_json:
        listed = [{"file": str(d.path), "what": d.what, "doc_id": d.doc_id} for d in defects]
        checked = {
            "files": result.files,
            "units": result.units,
            "rows": result.rows,
        }
        click.echo(json.dumps({"checked": checked, "defects": listed, "repaired": repaired}))
    else:
        for defect in defects:
            unit = "" if defect.doc_id is None else f"document {defect.doc_id}: "
            click.echo(visible(f"{defect.path}: {unit}{defect.what}"))
        for file, aside in repaired.items():
            click.echo(visible(f"{file}: renamed to {aside}"))
        click.echo(
            f"checked {counted(result.files, 'file')}, {counted(result.units, 'unit')}, "
            f"{result.rows:,} rows: {counted(len(defects), 'defect') if defects else 'no defects'}"
        )
    if defects and not repair:
        raise StorageError(
            f"{counted(len(defects), 'defect')}; run `tokenmart data check --repair`, then again "
            "the commands that wrote the files (`tokenmart status` names missing units)",
            code="defects",
            where=defects[0].path,
        )


def _name_of(problem_name: str | None, workspace: Workspace) -> str | None:
    from warehouse.problem.spec import load_problem

    return None if problem_name is None else load_problem(problem_name, workspace).name


@data.command()
@ANY_PROBLEM
@click.option("--yes", is_flag=True, help="Remove without asking.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="List and remove nothing; the default outside a terminal.",
)
def gc(problem_name: str | None, yes: bool, dry_run: bool) -> None:
    """Remove what no problem file needs, after confirmation.

    Removes units whose model, probe, parameters or document are not in the problem file, and files
    of other models; temporary files and claims of dead processes; damaged files renamed by `check
    --repair`. Nothing else.

    \b
    tokenmart data gc --problem minilong
    tokenmart data gc --yes
    """
    from warehouse.maintenance.garbage import find_garbage, remove_garbage

    workspace = find_workspace()
    garbage, notes = find_garbage(workspace, _name_of(problem_name, workspace))
    for note in notes:
        click.echo(note, err=True)
    for path, why, units in garbage:
        what = f"{counted(len(units), 'unit')}: " if units else ""
        click.echo(visible(f"{path.relative_to(workspace.store)}: {what}{why}"))
    if not garbage:
        click.echo("nothing to remove")
    elif dry_run or not (yes or sys.stdin.isatty()):
        click.echo(f"{len(garbage)} to remove; --yes removes them")
    else:
        if not yes:
            click.confirm(f"remove these {len(garbage)}?", abort=True)
        remove_garbage(workspace, garbage)
        click.echo(f"removed {len(garbage)}")
