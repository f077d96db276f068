"""`tokenmart report` and `tokenmart show`."""

from __future__ import annotations

from pathlib import Path

import click

from analysis.options import FILE, PROBLEM, RESAMPLES, SEED


@click.command()
@PROBLEM
@click.option(
    "--out", default="report.html", show_default=True, type=FILE, help="Where to write the page."
)
@click.option("--figures", type=FILE, help="Folder for PNG and SVG files of each figure.")
@RESAMPLES
@SEED
def report(problem: str, out: Path, figures: Path | None, resamples: int, seed: int) -> None:
    """Write the report of a problem: one HTML file that needs no network.

    \b
    tokenmart report --problem minilong --out report.html
    tokenmart report --problem minilong --figures figures/
    """
    from analysis.report.command import run_report

    run_report(problem, out, figures, resamples, seed)


@click.command()
@PROBLEM
@click.option("--document", required=True, help="Id or name of the document.")
@click.option("--models", required=True, help="One model, or two separated by a comma.")
@click.option(
    "--measure",
    default="logprob",
    show_default=True,
    type=click.Choice(["logprob", "gain", "rank"]),
    help="What the shade shows.",
)
@click.option("--condition", help="Window condition that gain is taken from; by default the first.")
@click.option("--keys-only", is_flag=True, help="Shade only LongPPL's key tokens (terminal).")
@click.option("--start", default=0, show_default=True, type=int, help="First character shown.")
@click.option("--characters", type=click.IntRange(1), help="How many; 2000 in the terminal.")
@click.option("--out", type=FILE, help="Write an HTML page instead of printing.")
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
) -> None:
    """Show a document's text with every token shaded, one model or two side by side.

    \b
    tokenmart show --problem minilong --document 0 --models smollm2-135m
    tokenmart show --problem minilong --document 0 --models smollm2-135m,gemma3-270m \\
        --measure gain --out tokens.html
    """
    from analysis.report.show import run_show

    run_show(problem, document, models, measure, condition, keys_only, start, characters, out)
