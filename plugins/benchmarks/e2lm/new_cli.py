"""`tokenmart e2lm new`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from warehouse.options import FILE

if TYPE_CHECKING:
    from pathlib import Path

    from plugins.benchmarks.e2lm.new_task import Kind


@click.command()
@click.argument("task")
@click.option(
    "--kind",
    type=click.Choice(["multiple-choice", "cloze", "generation"]),
    default="multiple-choice",
    show_default=True,
    help="Kind of task: likelihoods of choices, likelihood of one answer, or generated text.",
)
@click.option(
    "--folder",
    type=FILE,
    default=".",
    show_default=True,
    help="Create the task's folder in this folder.",
)
def new(task: str, kind: Kind, folder: Path) -> None:
    """Write a task for the harness that runs without changes.

    Its 118 items ask for chemical elements. Replace them with your own, one JSON object per line.

    \b
    tokenmart e2lm new element_symbols --kind multiple-choice
    """
    import shlex

    from plugins.benchmarks.e2lm.new_task import new_task

    for path in new_task(task, kind, folder):
        click.echo(f"written {path}")
    click.echo(
        f"try it: tokenmart eval --problem minilong --tasks {task} --limit 20 "
        f"--include-path {shlex.quote(str(folder / task))}"
    )
