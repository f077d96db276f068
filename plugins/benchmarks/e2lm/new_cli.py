"""`tokenmart e2lm new`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

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
@click.option(
    "--num-fewshot",
    "shots",
    type=click.IntRange(0, 16),
    default=0,
    show_default=True,
    help="Put so many worked examples before each question.",
)
@click.option(
    "--sampler",
    type=click.Choice(["first_n", "random"]),
    default="first_n",
    show_default=True,
    help="Take always the first examples, or draw others for each question.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Draw with this seed which elements become examples; the task states it.",
)
def new(
    task: str,
    kind: Kind,
    folder: Path,
    shots: int,
    sampler: Literal["first_n", "random"],
    seed: int,
) -> None:
    """Write a task for lm-evaluation-harness that runs as it is.

    Its 118 items ask for chemical elements: replace them by your own, one JSON object a line. With
    worked examples, 18 of them lie in examples.jsonl instead.

    \b
    tokenmart e2lm new element_symbols --kind multiple-choice
    tokenmart e2lm new five_shots --num-fewshot 5 --sampler first_n
    """
    import shlex

    from plugins.benchmarks.e2lm.new_task import WorkedExamples, new_task

    examples = WorkedExamples(shots, sampler, seed)
    for path in new_task(task, kind, folder, examples):
        click.echo(f"written {path}")
    click.echo(
        f"try it: tokenmart eval --problem minilong --tasks {task} --limit 20 "
        f"--include-path {shlex.quote(str(folder / task))}"
    )
