"""`tokenmart recall`."""

from __future__ import annotations

import click

from extract.cli import selection_options
from warehouse.errors import visible
from warehouse.options import PROBLEM
from warehouse.terminal import counted


@click.command()
@PROBLEM
@selection_options
@click.option(
    "--contexts",
    type=click.IntRange(1),
    help="Number of contexts per model, instead of the problem file's.",
)
def recall(
    problem_name: str,
    demo: bool,
    models: tuple[str, ...],
    device: str,
    dtype: str,
    backend: str,
    contexts: int | None,
) -> None:
    """Measure the recall target of a problem with tasks modelled on RULER.

    It does not read the problem's documents. Answers are stored context by context: interrupt at
    any time and run the same command to resume.

    \b
    tokenmart recall --problem minilong --demo
    """
    from extract.failures import summary
    from extract.planning.devices import resolve_device
    from extract.planning.plan import select
    from extract.recall.measurement import measure_recall, recall_target
    from extract.recall.store import standard_error_note
    from warehouse.errors import UnitFailedError
    from warehouse.paths import find_workspace
    from warehouse.problem.spec import load_problem
    from warehouse.progress import progress_bar

    workspace = find_workspace()
    problem = load_problem(problem_name, workspace)
    target = recall_target(problem, contexts, demo)
    selection = select(
        problem,
        models=models,
        demo=demo,
        device=resolve_device(device),
        dtype=dtype,
        backend=backend,
    )
    with progress_bar(len(selection.models), "models") as progress:
        outcome = measure_recall(problem, target, selection, workspace, progress)
    done = len(selection.models) - outcome.measured - len(outcome.failures)
    click.echo(f"measured {counted(outcome.measured, 'model')}; {done} were done before")
    if note := standard_error_note(target.contexts):
        click.echo(f"note: {note}")
    for line in outcome.messages.lines():
        click.echo(visible(f"note: {line}"), err=True)
    if outcome.failures:
        for line in summary(outcome.failures):
            click.echo(visible(f"error: {line}"), err=True)
        raise UnitFailedError(
            f"{counted(len(outcome.failures), 'model')} failed (listed above); the others are "
            "kept: correct the cause and run the same command again"
        )
