"""What `tokenmart show` does: load a view, then a page or the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import click
from rich.console import Console

from analysis.report.viewer import Measure, load_view
from warehouse.errors import StorageError, TokenmartError
from warehouse.paths import find_workspace
from warehouse.problem.spec import load_problem

TERMINAL_CHARACTERS = 2000


def run_show(
    problem_name: str,
    document: str,
    models: str,
    measure: str,
    condition: str | None,
    keys_only: bool,
    start: int,
    characters: int | None,
    out: Path | None,
) -> None:
    """Write the page to `out`, or print."""
    names = [name.strip() for name in models.split(",") if name.strip()]
    if not 1 <= len(names) <= 2:
        raise TokenmartError(f"--models {models}: give one model, or two separated by a comma")
    workspace = find_workspace()
    problem = load_problem(problem_name, workspace)
    length = characters or (TERMINAL_CHARACTERS if out is None else None)
    view = load_view(problem, workspace, document, names, start, length, condition)
    chosen = cast("Measure", measure)
    if chosen == "gain" and all(reading.gain_condition is None for reading in view.readings):
        raise TokenmartError(
            f"{problem.name}: no gain yet; extract a window condition and run `tokenmart dbt build`"
        )
    if out is None:
        from analysis.report.viewer_terminal import print_view

        print_view(Console(), view, chosen, keys_only)
        return
    from analysis.report.viewer_page import viewer_page

    page = viewer_page(view, chosen)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{out}: can't be written ({error.strerror}); choose another") from error
    click.echo(f"written {out} ({len(page.encode()) / 1e6:.1f} MB)")
