"""An extraction of the command line: in this process, within a time budget, or on a scheduler."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import click

from extract.extraction import Extraction
from extract.failures import Failure, print_lines, summary
from extract.planning.plan import PlannedDocument
from extract.planning.selection import Selection
from extract.planning.status import (
    count_finished,
    cut_lines,
    fallbacks,
    next_steps,
    status_rows,
    unscored_lines,
)
from extract.workers import sigterm_interrupts
from warehouse.errors import TokenmartError, UnitFailedError, did_you_mean
from warehouse.plugins import kinds
from warehouse.progress import Progress, no_progress, progress_bar, without_library_bars
from warehouse.terminal import counted

RUN_AGAIN = "everything else is kept: correct the cause and run the same command again"


class Scheduler(ABC):
    """Runs an extraction on other machines; `kind` is what `--on` names.

    `options` are the options of `tokenmart extract` that belong to it.
    """

    kind: ClassVar[str]
    options: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def extract(
        self, context: click.Context, selection: Selection, documents: Sequence[PlannedDocument]
    ) -> tuple[Iterable[Failure], list[str]]:
        """Extract what is missing; `context` is the command's, with its options.

        Returns:
            What failed, and notes for the user.

        Raises:
            TokenmartError: the scheduler isn't installed or can't be reached.
            StorageError: nothing more can be stored.
        """


def chosen_scheduler(on: str | None, given: Mapping[str, Any]) -> Scheduler | None:
    """The scheduler that `--on` names; None without `--on`.

    `given` are the options that belong to schedulers, by name.

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
            "(plugins/cluster adds ray)"
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
    selection: Selection,
    documents: list[PlannedDocument],
) -> None:
    """Run an extraction on a scheduler and print what it did.

    Raises:
        TokenmartError, StorageError: see `Scheduler.extract`.
        UnitFailedError: some units failed; the others are kept.
    """
    total = len(selection.models) * len(documents) * len(selection.conditions)
    before = count_finished(selection, documents)
    failures, notes = scheduler.extract(context, selection, documents)
    done = count_finished(selection, documents)
    click.echo(
        f"extracted {counted(done - before, 'unit')}; {before} of {total} were there already"
    )
    print_lines("note", notes)
    lines = summary(failures)
    print_lines("error", lines)
    if done < total or lines:
        raise UnitFailedError(f"{total - done} of {total} units are missing; {RUN_AGAIN}")


def extract_here(
    selection: Selection, documents: Sequence[PlannedDocument], since: str | None, as_worker: bool
) -> None:
    """Run an extraction in this process and print what it did.

    Args:
        selection, documents, since: see `Extraction`.
        as_worker: whether a parent process shows progress, from the ledger, and what comes next.

    Raises:
        StorageError, DeviceLostError: see `Extraction.run`.
        UnitFailedError: some units failed; the others are kept.
    """
    started = time.monotonic()
    total = len(documents) * len(selection.models) * len(selection.conditions)
    shown: AbstractContextManager[Progress] = nullcontext(no_progress)
    if not as_worker:
        shown = progress_bar(total, "units", count_finished(selection, documents))
    stopped = sigterm_interrupts() if as_worker else nullcontext()
    with stopped, without_library_bars(), shown as progress:
        outcome = Extraction(selection, documents, progress, since).run()
    left = total - outcome.units - outcome.there - outcome.elsewhere
    click.echo(
        f"extracted {counted(outcome.units, 'unit')} ({outcome.tokens:,} tokens processed) in "
        f"{time.monotonic() - started:.0f} s; {outcome.there} of {total} were there already"
        + (f"; {outcome.elsewhere} are being done by another process" if outcome.elsewhere else "")
        + (f"; {left} failed" if left > 0 else "")
    )
    if not as_worker:
        # from the ledger, which includes what workers did
        rows = status_rows(selection)
        print_lines("warning", fallbacks(rows))
        print_lines("warning", unscored_lines(selection, rows))
        print_lines("cut", cut_lines(rows), err=False)
        if not outcome.failures:
            print_lines("", next_steps(selection), err=False)
    if outcome.failures:
        lines = summary(outcome.failures)
        print_lines("error", lines)
        models = len({failure.model for failure in outcome.failures})
        raise UnitFailedError(
            f"{len(lines)} failed (listed above), of {models} of "
            f"{counted(len(selection.models), 'model')}; {RUN_AGAIN}"
        )
