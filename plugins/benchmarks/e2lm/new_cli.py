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
    help="What a model is asked for: likelihoods of choices, of one answer, or a text.",
)
@click.option(
    "--folder",
    type=FILE,
    default=".",
    show_default=True,
    help="Where the task's own folder is made.",
)
def new(task: str, kind: Kind, folder: Path) -> None:
    """Write a task for lm-evaluation-harness that runs as it is.

    Its 118 items ask for chemical elements: replace them by your own, one JSON object a line.

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
