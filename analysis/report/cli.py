"""`tokenmart report` and `tokenmart show`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from warehouse.options import FILE, FORCE_OTHER, LAST_PROBLEM, SEED
from warehouse.terminal import file_size

if TYPE_CHECKING:
    from analysis.report.shading import Measure

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
@SEED
def report(problem: str, out: Path, force: bool, seed: int) -> None:
    """Write the report of a problem: an HTML page that needs no network.

    It has the conclusion, the best metric and the baseline against the target, the metrics and
    their values. A second page next to it, NAME-tokens.html, shows the first document with the
    tokens of two models shaded. Without a target scores of models are compared only.

    \b
    tokenmart report --problem minilong --out report.html
    """
    from analysis.ranking.loading import record_tested
    from analysis.report.page import gather, report_page
    from analysis.report.shading import view_page
    from analysis.report.viewer import example_view
    from warehouse.files import refuse_protected, write_whole
    from warehouse.paths import find_workspace
    from warehouse.problem.spec import load_ranked

    workspace = find_workspace()
    # a stream has no second page
    second = None if out.is_relative_to("/dev") else out.with_name(f"{out.stem}-tokens.html")
    for page in filter(None, (out, second)):
        refuse_protected(page, workspace, force=force, expected=OWN_PAGE)
    chosen = load_ranked(problem, workspace)
    data = gather(chosen, workspace, seed)
    view = example_view(chosen, workspace, data.models, EXAMPLE_CHARACTERS) if second else None
    text = report_page(data, second.name if second and view else "")
    if data.ranking is not None:
        record_tested(data.ranking.table, workspace)
    write_whole(out, text)
    if data.ranking is None:
        click.echo(f"no target: {data.no_target}")
    click.echo(f"written {out} ({file_size(len(text.encode()))})")
    if second and view:
        write_whole(second, view_page(view, "logprob"))
        click.echo(f"written {second}")


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
    help="Quantity that is shown first by the shading.",
)
@click.option(
    "--condition", help="Window condition that the gain is relative to; default: the first."
)
@click.option("--start", type=int, default=0, show_default=True, help="First character to show.")
@click.option(
    "--characters", type=click.IntRange(1), help="Number of characters to show; default: all."
)
@click.option(
    "--out",
    default="tokens.html",
    show_default=True,
    type=FILE,
    help="Write the page to this file.",
)
@FORCE_OTHER
def show(
    problem: str,
    document: str,
    models: tuple[str, ...],
    measure: Measure,
    condition: str | None,
    start: int,
    characters: int | None,
    out: Path,
    force: bool,
) -> None:
    """Write a page with a document whose tokens are shaded, for one model or two.

    \b
    tokenmart show --problem minilong --document 0 --model smollm2-135m
    tokenmart show --problem minilong --document 0 --model smollm2-135m --model gemma3-270m \\
        --measure gain --out tokens.html
    """

    from analysis.report.shading import view_page
    from analysis.report.viewer import load_view
    from warehouse.files import refuse_protected, write_whole
    from warehouse.paths import find_workspace
    from warehouse.problem.spec import load_problem

    workspace = find_workspace()
    refuse_protected(out, workspace, force=force, expected=OWN_PAGE)
    chosen = load_problem(problem, workspace)
    view = load_view(chosen, workspace, document, models, start, characters, condition)
    page = view_page(view, measure)
    write_whole(out, page)
    click.echo(f"written {out} ({file_size(len(page.encode()))})")
