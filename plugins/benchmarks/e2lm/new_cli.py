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
    help="Kind of task: likelihoods of choices, likelihood of one answer, or generated text.",
)
@click.option(
    "--folder",
    type=FILE,
    default=".",
    show_default=True,
    help="Create the task's folder in this folder.",
)
@click.option(
    "--num-fewshot",
    "shots",
    type=click.IntRange(0, 16),
    default=0,
    show_default=True,
    help="Number of few-shot examples before each question.",
)
@click.option(
    "--sampler",
    type=click.Choice(["first_n", "random"]),
    default="first_n",
    show_default=True,
    help="Use the same first few-shot examples for every question, or draw them for each question.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Random seed of the choice of examples; the task records it.",
)
def new(
    task: str,
    kind: Kind,
    folder: Path,
    shots: int,
    sampler: Literal["first_n", "random"],
    seed: int,
) -> None:
    """Write a task for the harness that runs without changes.

    Its 118 items ask for chemical elements. Replace them with your own, one JSON object per line.
    With few-shot examples, 18 of them are in examples.jsonl instead.

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
