"""`tokenmart report` and `tokenmart show`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from analysis.options import SEED
from warehouse.options import FILE, FORCE_OTHER, LAST_PROBLEM
from warehouse.terminal import file_size

if TYPE_CHECKING:
    from analysis.report.shading import Measure

TERMINAL_CHARACTERS = 2000
CHARACTERS_BEFORE = 200
"""Shown before the first shaded token."""
EXAMPLE_CHARACTERS = 20_000
"""Of the document on the second page."""
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
@SEED
def report(problem: str, out: Path, force: bool, figures: Path | None, seed: int) -> None:
    """Write the report of a problem: an HTML page that needs no network.

    It has the conclusion, the best metric and the baseline against the target, the metrics, their
    values and the cost. A second page next to it, NAME-tokens.html, shows the first document with
    the tokens of two models shaded. Without a target scores of models are compared only.

    \b
    tokenmart report --problem minilong --out report.html
    tokenmart report --problem minilong --figures figures/
    """
    from analysis.ranking.loading import record_tested
    from analysis.report.data import gather
    from analysis.report.drawing import file_png, file_svg
    from analysis.report.page import report_charts, report_page
    from analysis.report.shading import view_page
    from analysis.report.viewer import example_view
    from warehouse.files import refuse_protected, write_whole
    from warehouse.paths import find_workspace
    from warehouse.problem.spec import load_ranked
    from warehouse.progress import progress_bar

    workspace = find_workspace()
    # a stream has no second page
    second = None if out.is_relative_to("/dev") else out.with_name(f"{out.stem}-tokens.html")
    for page in filter(None, (out, second)):
        refuse_protected(page, workspace, force=force, own=OWN_PAGE)
    if figures is not None:
        refuse_protected(figures, workspace, "--figures")
    chosen = load_ranked(problem, workspace)
    data = gather(chosen, workspace, seed)
    view = example_view(chosen, workspace, data.models, EXAMPLE_CHARACTERS) if second else None
    charts = report_charts(data)
    with progress_bar(len(charts), "figures") as progress:
        text = report_page(data, charts, second.name if second and view else "", progress)
        if data.ranking is not None:
            record_tested(data.ranking.table, workspace)
        write_whole(out, text)
        if second and view:
            write_whole(second, view_page(view, "logprob"))
        if figures is not None:
            for name, chart in charts.items():
                progress(f"files: {name}", 0)
                write_whole(figures / f"{name}.svg", file_svg(chart))
                write_whole(figures / f"{name}.png", file_png(chart))
    if data.ranking is None:
        click.echo(f"no target: {data.no_target}")
    click.echo(f"written {out} ({file_size(len(text.encode()))})")
    if view:
        click.echo(f"written {second}")
    if figures is not None:
        click.echo(f"written {figures} (PNG and SVG)")


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

    from analysis.report.shading import print_view, view_page
    from analysis.report.viewer import first_shaded, load_view
    from warehouse.errors import TokenmartError
    from warehouse.files import refuse_protected, write_whole
    from warehouse.paths import find_workspace
    from warehouse.problem.spec import load_problem
    from warehouse.terminal import terminal_console

    workspace = find_workspace()
    if out is not None:
        refuse_protected(out, workspace, force=force, own=OWN_PAGE)
    chosen = load_problem(problem, workspace)
    length = characters or (TERMINAL_CHARACTERS if out is None else None)
    if start is None and out is None and measure == "gain":
        whole = load_view(chosen, workspace, document, models, 0, None, condition)
        start = max(0, first_shaded(whole) - CHARACTERS_BEFORE)
    view = load_view(chosen, workspace, document, models, start or 0, length, condition)
    if measure == "gain" and not view.has_gain:
        raise TokenmartError(
            f"{view.title}: no token has a gain; extract a window condition whose context is "
            "shorter than the text that is read, and run `tokenmart dbt build`",
            code="no-gain",
            where="--measure",
        )
    if out is None:
        print_view(terminal_console(), view, measure)
        return
    page = view_page(view, measure)
    write_whole(out, page)
    click.echo(f"written {out} ({file_size(len(page.encode()))})")
