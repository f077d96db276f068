"""`tokenmart report` and `tokenmart show`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from analysis.options import RESAMPLES, SEED
from warehouse.errors import visible
from warehouse.options import FILE, FORCE_OTHER, LAST_PROBLEM
from warehouse.terminal import file_size

if TYPE_CHECKING:
    from analysis.report.viewer import Measure

TERMINAL_CHARACTERS = 2000
CHARACTERS_BEFORE = 200
"""Shown before the first shaded token."""
FIGURES_OF_THE_PAGE = 7
FEWEST_SCORED = 3
"""Models with a target score; fewer have no correlation, and the report shows models alone."""
OWN_PAGE = b'<meta name="generator" content="tokenmart">'
"""In the head of every page: one may replace another without --force."""


@click.command()
@LAST_PROBLEM
@click.option(
    "--out",
    default="report.html",
    show_default=True,
    type=FILE,
    help="Write the page to this file.",
)
@FORCE_OTHER
@click.option("--figures", type=FILE, help="Also write each figure as PNG and SVG to this folder.")
@RESAMPLES
@SEED
def report(
    problem: str, out: Path, force: bool, figures: Path | None, resamples: int, seed: int
) -> None:
    """Write the report of a problem: one HTML file that needs no network.

    The page begins with a table of models and metrics. Without a target it compares models only.

    \b
    tokenmart report --problem minilong --out report.html
    tokenmart report --problem minilong --figures figures/
    """
    from analysis.ranking.loading import load_table, load_target, record_tested
    from analysis.report.data import detailed_rows, gather
    from analysis.report.drawing import file_png, file_svg
    from analysis.report.overview import overview
    from analysis.report.page import figure_files, report_page
    from warehouse.files import refuse_protected, write_whole
    from warehouse.paths import find_workspace
    from warehouse.problem.spec import load_ranked
    from warehouse.progress import progress_bar

    workspace = find_workspace()
    refuse_protected(out, workspace, force=force, own=OWN_PAGE)
    if figures is not None:
        refuse_protected(figures, workspace, "--figures")
    chosen = load_ranked(problem, workspace)
    scored = len(load_target(chosen, workspace)[0]) if chosen.target is not None else 0
    enough = scored >= FEWEST_SCORED
    table = load_table(chosen, workspace) if enough else None
    steps = FIGURES_OF_THE_PAGE + (detailed_rows(table) if table else 0)
    with progress_bar(steps, "steps") as progress:
        data = gather(table, workspace, seed, resamples, progress) if table else None
        settings = {"seed": seed, "resamples": resamples}
        found = overview(chosen, workspace, table, settings, scored)
        page = report_page(found, data, progress)
    if table is not None:
        record_tested(table, workspace)
    write_whole(out, page)
    click.echo(f"written {out} ({file_size(len(page.encode()))})")
    if data is None:
        click.echo(f"no target: {found.run.why_no_target}; models and metrics only")
    if figures is not None:
        charts = figure_files(found, data)
        with progress_bar(len(charts), "figures") as progress:
            for name, chart in charts.items():
                progress(f"files: {name}", 1)
                write_whole(figures / f"{name}.svg", file_svg(chart))
                write_whole(figures / f"{name}.png", file_png(chart))
        click.echo(f"written {figures} (PNG and SVG)")
    if found.run.viewer:
        click.echo(visible(f"next: {found.run.viewer}"))


@click.command()
@LAST_PROBLEM
@click.option("--document", required=True, help="Id or name of the document.")
@click.option(
    "--model",
    "models",
    multiple=True,
    required=True,
    help="Model to show; given twice, two models side by side.",
)
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
@click.option(
    "--start",
    type=int,
    help="First character to show; default: 0, or in the terminal with --measure gain "
    "the first token with a gain.",
)
@click.option(
    "--characters",
    type=click.IntRange(1),
    help="Number of characters to show; default: 2000 in the terminal, all on a page.",
)
@click.option("--out", type=FILE, help="Write an HTML page to this file instead of printing.")
@FORCE_OTHER
def show(
    problem: str,
    document: str,
    models: tuple[str, ...],
    measure: Measure,
    condition: str | None,
    keys_only: bool,
    start: int | None,
    characters: int | None,
    out: Path | None,
    force: bool,
) -> None:
    """Show a document with every token shaded, for one model or two.

    \b
    tokenmart show --problem minilong --document 0 --model smollm2-135m
    tokenmart show --problem minilong --document 0 --model smollm2-135m --model gemma3-270m \\
        --measure gain --out tokens.html
    """

    from analysis.report.terminal_viewer import print_view
    from analysis.report.viewer import (
        first_shaded,
        load_view,
        view_page,
        why_no_gain,
    )
    from warehouse.errors import TokenmartError
    from warehouse.files import refuse_protected, write_whole
    from warehouse.paths import find_workspace
    from warehouse.problem.spec import load_problem
    from warehouse.terminal import terminal_console

    if len(models) > 2:
        raise TokenmartError(f"--model {models[2]}: give one model or two, not {len(models)}")
    workspace = find_workspace()
    if out is not None:
        refuse_protected(out, workspace, force=force, own=OWN_PAGE)
    chosen = load_problem(problem, workspace)
    length = characters or (TERMINAL_CHARACTERS if out is None else None)
    if start is None and out is None and measure == "gain":
        whole = load_view(chosen, workspace, document, models, 0, None, condition)
        start = max(0, first_shaded(whole) - CHARACTERS_BEFORE)
    view = load_view(chosen, workspace, document, models, start or 0, length, condition)
    if measure == "gain" and all(reading.gain_condition is None for reading in view.readings):
        raise TokenmartError(f"{chosen.name}: {why_no_gain(view, workspace)}")
    if out is None:
        print_view(terminal_console(), view, measure, keys_only)
        return
    page = view_page(view, measure)
    write_whole(out, page)
    click.echo(f"written {out} ({file_size(len(page.encode()))})")
