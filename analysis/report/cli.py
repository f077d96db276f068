"""`tokenmart report` and `tokenmart show`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from analysis.options import PROBLEM, RESAMPLES, SEED
from warehouse.options import FILE, FORCE

if TYPE_CHECKING:
    from analysis.report.viewer import Measure

TERMINAL_CHARACTERS = 2000
FIGURES_OF_THE_PAGE = 7
OWN_PAGE = b'<meta name="generator" content="tokenmart">'
"""In the head of every page: one may replace another without --force."""


@click.command()
@PROBLEM
@click.option(
    "--out",
    default="report.html",
    show_default=True,
    type=FILE,
    help="Write the page to this file.",
)
@FORCE
@click.option("--figures", type=FILE, help="Also write each figure as PNG and SVG to this folder.")
@RESAMPLES
@SEED
def report(
    problem: str, out: Path, force: bool, figures: Path | None, resamples: int, seed: int
) -> None:
    """Write the report of a problem: one HTML file that needs no network.

    \b
    tokenmart report --problem minilong --out report.html
    tokenmart report --problem minilong --figures figures/
    """
    from analysis.ranking.metric_table import load_table
    from analysis.ranking.metrics_tested import record_tested
    from analysis.report.data import detailed_rows, gather
    from analysis.report.page import figure_files, report_page
    from analysis.report.svg import file_png, file_svg
    from warehouse.files import refuse_protected, write_whole
    from warehouse.paths import find_workspace
    from warehouse.problem.spec import load_ranked
    from warehouse.progress import progress_bar

    workspace = find_workspace()
    refuse_protected(out, workspace, force=force, own=OWN_PAGE)
    if figures is not None:
        refuse_protected(figures, workspace, "--figures")
    chosen = load_ranked(problem, workspace)
    table = load_table(chosen, workspace)
    record_tested(workspace, table)
    with progress_bar(detailed_rows(table) + FIGURES_OF_THE_PAGE, "steps") as progress:
        data = gather(chosen, table, workspace, seed, resamples, progress)
        page = report_page(data, progress)
    write_whole(out, page)
    click.echo(f"written {out} ({len(page.encode()) / 1e6:.1f} MB)")
    if figures is not None:
        charts = figure_files(data)
        with progress_bar(len(charts), "figures") as progress:
            for name, chart in charts.items():
                progress(f"files: {name}", 1)
                write_whole(figures / f"{name}.svg", file_svg(chart))
                write_whole(figures / f"{name}.png", file_png(chart))
        click.echo(f"written {figures} (PNG and SVG)")


@click.command()
@PROBLEM
@click.option("--document", required=True, help="Id or name of the document.")
@click.option("--models", required=True, help="One model, or two separated by a comma.")
@click.option(
    "--measure",
    default="logprob",
    show_default=True,
    type=click.Choice(["logprob", "gain", "rank"]),
    help="Quantity shown by the shading.",
)
@click.option(
    "--condition", help="Window condition that the gain is relative to; default: the first."
)
@click.option(
    "--keys-only", is_flag=True, help="Shade only LongPPL's key tokens (in the terminal)."
)
@click.option("--start", default=0, show_default=True, type=int, help="First character to show.")
@click.option(
    "--characters",
    type=click.IntRange(1),
    help="Number of characters to show; default: 2000 in the terminal, all on a page.",
)
@click.option("--out", type=FILE, help="Write an HTML page to this file instead of printing.")
@FORCE
def show(
    problem: str,
    document: str,
    models: str,
    measure: str,
    condition: str | None,
    keys_only: bool,
    start: int,
    characters: int | None,
    out: Path | None,
    force: bool,
) -> None:
    """Show a document with every token shaded, for one model or two.

    \b
    tokenmart show --problem minilong --document 0 --models smollm2-135m
    tokenmart show --problem minilong --document 0 --models smollm2-135m,gemma3-270m \\
        --measure gain --out tokens.html
    """
    from rich.console import Console

    from analysis.report.viewer import load_view
    from analysis.report.viewer_page import view_page
    from analysis.report.viewer_terminal import print_view
    from warehouse.errors import TokenmartError
    from warehouse.files import refuse_protected, write_whole
    from warehouse.paths import find_workspace
    from warehouse.problem.spec import load_problem

    names = [name.strip() for name in models.split(",") if name.strip()]
    if not 1 <= len(names) <= 2:
        raise TokenmartError(f"--models {models}: give one model, or two separated by a comma")
    workspace = find_workspace()
    if out is not None:
        refuse_protected(out, workspace, force=force, own=OWN_PAGE)
    chosen = load_problem(problem, workspace)
    length = characters or (TERMINAL_CHARACTERS if out is None else None)
    view = load_view(chosen, workspace, document, names, start, length, condition)
    shaded_by = cast("Measure", measure)
    if shaded_by == "gain" and all(reading.gain_condition is None for reading in view.readings):
        raise TokenmartError(
            f"{chosen.name}: no gain yet; extract a window condition and run `tokenmart dbt build`"
        )
    if out is None:
        print_view(Console(), view, shaded_by, keys_only)
        return
    page = view_page(view, shaded_by)
    write_whole(out, page)
    click.echo(f"written {out} ({len(page.encode()) / 1e6:.1f} MB)")
