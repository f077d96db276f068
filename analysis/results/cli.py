"""`tokenmart results`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from analysis.options import PROBLEM, SEED
from warehouse.options import FILE
from warehouse.terminal import counted

FIGURES = "figures.json"


@click.group()
def results() -> None:
    """Freeze what was found into small tables, and tell it again from them alone."""


@results.command(short_help="Write what was found as small tables.")
@PROBLEM
@click.option("--out", type=FILE, help="Write the tables there instead of results/PROBLEM.")
@click.option(
    "--add",
    is_flag=True,
    help="Keep the target and documents that are frozen there, and add those read here.",
)
def freeze(problem: str, out: Path | None, add: bool) -> None:
    """Write metric values per document, target scores and what they cost as small tables.

    No token and no text is among them. A manifest has the hash of each file, the code's commit,
    and what the run took; commit the folder.

    A long run can be spread over machines and days: with --add the documents that were read here
    join those frozen before, and the target stays as it was measured then. Models, documents and
    definitions must be the same. What was read on both sides is compared, and refused where the two
    readings differ by more than a tenth of the spread between models; so let one model or two read
    a document again.

    \b
    tokenmart results freeze --problem minilong
    tokenmart results freeze --problem minilong --add
    """
    from analysis.results.tables import folder_of
    from analysis.results.tables import freeze as write
    from warehouse.files import refuse_protected
    from warehouse.paths import find_workspace
    from warehouse.problem.spec import load_ranked

    workspace = find_workspace()
    chosen = load_ranked(problem, workspace)
    folder = out or folder_of(workspace, chosen.name)
    refuse_protected(folder, workspace, force=True)
    found = write(chosen, workspace, folder, add=add)
    size = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
    rows = sum(found.manifest["rows"].values())
    click.echo(f"written {folder} ({rows:,} rows, {size / 1e6:.2f} MB)")
    if add:
        _tell_added(found.manifest["parts"][-1])
    fewest, most = found.manifest["documents"]
    if fewest != most:
        click.echo(
            f"note: models have read {fewest} to {most} documents; their values are compared all "
            "the same. Finish the extraction, build and freeze again",
            err=True,
        )
    if found.manifest["dirty"]:
        click.echo("note: the code differs from its commit; commit it and freeze again", err=True)


@results.command(short_help="Redo the analysis from committed tables, and write the page.")
@PROBLEM
@click.option("--tables", type=FILE, help="Read the tables there instead of in results/PROBLEM.")
@click.option("--out", type=FILE, help="Write the page there instead of docs/findings.md.")
@click.option("--check", is_flag=True, help="Write nothing; fail if what is committed differs.")
@SEED
def tell(problem: str, tables: Path | None, out: Path | None, check: bool, seed: int) -> None:
    """Redo the analysis from committed tables: write the figures, docs/findings.md and pictures.

    Nothing is extracted and no warehouse is needed. What was not run yet is called that. The
    README's pictures go to `images` beside the page; --check leaves them out, since fonts differ
    between machines.

    \b
    tokenmart results tell
    tokenmart results tell --check
    """
    from analysis.results.findings import PAGE, findings_page, readings_of
    from analysis.results.pictures import decisions_picture, recall_picture
    from analysis.results.study import study
    from analysis.results.tables import folder_of, frozen
    from warehouse.errors import TokenmartError
    from warehouse.files import refuse_protected, write_whole
    from warehouse.paths import find_workspace
    from warehouse.problem.spec import load_ranked

    workspace = find_workspace()
    name = load_ranked(problem, workspace).name
    folder = tables or folder_of(workspace, name)
    found = frozen(folder)
    figures = None if found is None else study(found, workspace, seed)
    page = out or workspace.root / PAGE
    refuse_protected(page, workspace, force=True, tracked=True)
    made = {page: findings_page(workspace, figures)}
    if figures is not None:
        made[folder / FIGURES] = json.dumps(figures, indent=1) + "\n"
    if figures is None:
        click.echo(f"{folder}: no tables; {name} is told as not run yet")
    if check:
        differ = [path for path, text in made.items() if not _is(path, text)]
        if differ:
            names = ", ".join(str(path) for path in differ)
            raise TokenmartError(f"{names}: not what the tables say; run `make results`")
        click.echo("everything is as the tables say")
        return
    pictures = page.parent / "images"
    made[pictures / "decisions.svg"] = decisions_picture(readings_of(workspace))
    if figures is not None:
        made[pictures / "recall.svg"] = recall_picture(figures)
    for path, text in made.items():
        write_whole(path, text)
        click.echo(f"written {path}")


def _tell_added(part: dict[str, Any]) -> None:
    """What was joined, and how well it fits."""
    click.echo(f"added: documents {', '.join(map(str, part['documents']))}")
    overlap = part["overlap"]
    if overlap is None:
        click.echo(
            "note: no document was read on both sides, so nothing shows that both compute the same",
            err=True,
        )
    else:
        told = (
            f"of {overlap['values']} values the one furthest apart, of {overlap['variant']}, "
            f"differs by {overlap['largest']:.2g} standard deviations between models"
            if overlap["largest"]
            else f"all {overlap['values']} values are the same to the last digit"
        )
        click.echo(
            f"read twice: {counted(overlap['documents'], 'document')} by "
            f"{counted(overlap['models'], 'model')}; {told}"
        )
    if part["left_out"]:
        names = ", ".join(part["left_out"])
        click.echo(f"note: left out, not defined alike on both sides: {names}", err=True)


def _is(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text("utf-8") == text
