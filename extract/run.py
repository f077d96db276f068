"""An extraction as the command line runs it: prepare the documents, score, print the outcome."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import click

from extract.extraction import Extraction
from extract.failures import print_lines, summary
from extract.planning.documents import PlannedDocument, documents_of
from extract.planning.selection import Selection
from extract.planning.status import (
    count_finished,
    cut_lines,
    fallbacks,
    next_steps,
    status_rows,
    unscored_lines,
)
from extract.tokenization import refuse_other_vocabularies
from extract.workers import sigterm_interrupts
from warehouse.errors import UnitFailedError
from warehouse.problem.needed import store_needed
from warehouse.problem.tables import ensure_documents
from warehouse.progress import Progress, no_progress, progress_bar, without_library_bars
from warehouse.terminal import counted

RUN_AGAIN = "everything else is kept: correct the cause and run the same command again"


def prepared_documents(selection: Selection) -> list[PlannedDocument]:
    """Write the problem's tables, and return the documents that a run scores.

    Raises:
        TokenmartError: a document can't be read, or a model can't be compared with its reference.
        StorageError: the folder can't be written.
    """
    problem, workspace = selection.problem, selection.workspace
    refuse_other_vocabularies(selection, fetch=True)
    corpus = ensure_documents(problem, workspace, force=selection.force)
    documents = documents_of(corpus, selection.documents, selection.conditions)
    store_needed(problem, workspace)
    return documents


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
        shown = progress_bar(total, "units", count_finished(selection, documents, since))
    stopped = sigterm_interrupts() if as_worker else nullcontext()
    with stopped, without_library_bars(), shown as progress:
        outcome = Extraction(selection, documents, progress, since, as_worker).run()
    left = total - outcome.units - outcome.finished_before - outcome.elsewhere
    before = outcome.finished_before
    click.echo(
        f"extracted {counted(outcome.units, 'unit')} ({outcome.tokens:,} tokens processed) in "
        f"{time.monotonic() - started:.0f} s; {before} of {total} were there already"
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
