"""`tokenmart extract --on NAME`: the interface of schedulers, which plugins implement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import click

from extract.failures import Failure, summary
from extract.planning.plan import Document, Selection
from extract.planning.status import count_finished
from warehouse.errors import TokenmartError, UnitFailedError, did_you_mean, visible
from warehouse.paths import Workspace
from warehouse.plugins import kinds
from warehouse.problem.spec import Problem
from warehouse.terminal import counted


class Scheduler(ABC):
    """Runs an extraction on other machines; `kind` is what `--on` names.

    `options` are the options of `tokenmart extract` that belong to it.
    """

    kind: ClassVar[str]
    options: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def extract(
        self,
        context: click.Context,
        problem: Problem,
        selection: Selection,
        documents: Sequence[Document],
        workspace: Workspace,
    ) -> tuple[Iterable[Failure], list[str]]:
        """Extract what is missing.

        Args:
            context: of the command, with its options.
            problem, selection, documents, workspace: as for `Extraction`.

        Returns:
            What failed, and notes for the user.

        Raises:
            TokenmartError: the scheduler isn't installed or can't be reached.
            StorageError: nothing more can be stored.
        """


def chosen_scheduler(on: str | None, given: Mapping[str, Any]) -> Scheduler | None:
    """The scheduler that `--on` names; None without `--on`.

    Args:
        on: the value of `--on`.
        given: options that belong to schedulers, by name.

    Raises:
        TokenmartError: no such scheduler, or an option belongs to another one.
    """
    used = {option: value for option, value in given.items() if value}
    if on is None and not used:
        return None
    known = kinds(Scheduler, "schedulers")  # type: ignore[type-abstract]
    if on is not None and on not in known:
        listed = ", ".join(known) or "none"
        raise TokenmartError(
            f"--on {on}: no such scheduler; {did_you_mean(on, known)}schedulers here: {listed} "
            "(plugins/cluster adds ray and slurm)"
        )
    for option, value in used.items():
        if on is None or option not in known[on].options:
            owners = [name for name, each in known.items() if option in each.options]
            shown = value if isinstance(value, str) else value[0]
            raise TokenmartError(f"--{option} {shown}: goes with --on {' or '.join(owners)}")
    return None if on is None else known[on]()


def extract_elsewhere(
    scheduler: Scheduler,
    context: click.Context,
    problem: Problem,
    selection: Selection,
    documents: list[Document],
    workspace: Workspace,
) -> None:
    """Run an extraction on a scheduler and print what it did.

    Raises:
        TokenmartError: see `Scheduler.extract`.
        UnitFailedError: some units failed; the others are kept.
        StorageError: nothing more can be stored.
    """
    total = len(selection.models) * len(documents) * len(selection.conditions)
    before = count_finished(problem, selection, documents, workspace)
    failures, notes = scheduler.extract(context, problem, selection, documents, workspace)
    done = count_finished(problem, selection, documents, workspace)
    click.echo(
        f"extracted {counted(done - before, 'unit')}; {before} of {total} were there already"
    )
    for note in notes:
        click.echo(visible(f"note: {note}"), err=True)
    lines = summary(failures)
    for line in lines:
        click.echo(visible(f"error: {line}"), err=True)
    if done < total or lines:
        raise UnitFailedError(
            f"{total - done} of {total} units are missing; everything else is kept: correct the "
            "cause and run the same command again"
        )
