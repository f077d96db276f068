"""`tokenmart extract --on ray` and `--on slurm`: what is asked for, and what is said at the end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from warehouse.errors import TokenmartError, UnitFailedError, visible
from warehouse.terminal import counted

if TYPE_CHECKING:
    from extract.failures import Failure
    from extract.planning.plan import Document, Selection
    from warehouse.paths import Workspace
    from warehouse.problem.spec import Problem


def check_options(on: str | None, address: str | None, slurm: tuple[str, ...]) -> None:
    """Refuse options that go with another way to run.

    Raises:
        TokenmartError: one does.
    """
    if address and on != "ray":
        raise TokenmartError(f"--address {address}: goes with --on ray")
    for asked in slurm:
        if on != "slurm":
            raise TokenmartError(f"--slurm {asked}: goes with --on slurm")
        if "=" not in asked:
            raise TokenmartError(f"--slurm {asked}: write KEY=VALUE, as in partition=gpu")


def run_elsewhere(
    context: click.Context,
    problem: Problem,
    selection: Selection,
    documents: list[Document],
    workspace: Workspace,
) -> None:
    """Run an extraction on Ray or Slurm as the command's options say, and tell how it went.

    Raises:
        TokenmartError: Ray or submitit isn't installed or can't be reached.
        UnitFailedError: some units failed; the others are kept.
        StorageError: nothing more can be stored.
    """
    from extract.planning.tables import count_finished

    options = context.params
    total = len(selection.models) * len(documents) * len(selection.conditions)
    before = count_finished(problem, selection, documents, workspace)
    failures: Iterable[Failure]
    if options["on"] == "ray":
        from extract.cluster.on_ray import extract_on_ray

        failures, notes = extract_on_ray(
            problem, selection, documents, workspace, options["address"], options["workers"]
        )
    else:
        from extract.cluster.on_slurm import extract_on_slurm

        failures, notes = extract_on_slurm(context, problem, selection, documents, workspace, total)
    done = count_finished(problem, selection, documents, workspace)
    click.echo(
        f"extracted {counted(done - before, 'unit')}; {before} of {total} were there already"
    )
    for note in notes:
        click.echo(visible(f"note: {note}"), err=True)
    from extract.failures import summary

    lines = summary(failures)
    for line in lines:
        click.echo(visible(f"error: {line}"), err=True)
    if done < total or lines:
        raise UnitFailedError(
            f"{total - done} of {total} units are missing; all else is kept: mend the cause and "
            "run the same command again"
        )
