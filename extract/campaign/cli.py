"""`tokenmart campaign`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from warehouse.errors import visible
from warehouse.terminal import counted

if TYPE_CHECKING:
    from extract.campaign.pieces import Piece
    from extract.campaign.run import Campaign, Done


@click.command()
@click.option(
    "--problem", "problem_name", required=True, help="Problem by name, or a path to its .yml."
)
@click.option(
    "--hours",
    type=click.FloatRange(min=0, min_open=True),
    help="Begin no piece that would not end within so many hours; without it, do everything.",
)
@click.option("--documents", type=click.IntRange(1), help="Take at most the first N documents.")
@click.option(
    "--skip-documents",
    default=0,
    type=click.IntRange(0),
    help="Leave out the first N documents, for instance those that are frozen already.",
)
@click.option(
    "--contexts", type=click.IntRange(1), help="Ask in N contexts per model instead of the file's."
)
@click.option(
    "--only",
    type=click.Choice(["documents", "target"]),
    help="Read documents alone, or measure the target alone; without it, both in turn.",
)
@click.option("--model", "models", multiple=True, help="Take only this model; repeatable.")
@click.option(
    "--document-step",
    default=2,
    show_default=True,
    type=click.IntRange(1),
    help="Bring all models so many documents further with each piece.",
)
@click.option(
    "--context-step",
    default=3,
    show_default=True,
    type=click.IntRange(1),
    help="Bring all models so many contexts of the target further with each piece.",
)
@click.option(
    "--device",
    default="auto",
    show_default=True,
    help="Compute on auto, cpu, cuda, cuda:1, or auto-map (one model over several GPUs).",
)
@click.option(
    "--dtype",
    default="auto",
    type=click.Choice(["auto", "float32", "bfloat16", "float16"]),
    show_default=True,
    help="Compute in this type; auto takes the model's, else float32 (a GPU: bfloat16).",
)
@click.option("--dry-run", is_flag=True, help="Print the pieces and what they take; run nothing.")
def campaign(
    problem_name: str,
    hours: float | None,
    documents: int | None,
    skip_documents: int,
    contexts: int | None,
    only: str | None,
    models: tuple[str, ...],
    document_step: int,
    context_step: int,
    device: str,
    dtype: str,
    dry_run: bool,
) -> None:
    """Read documents and measure the target, piece by piece, within a number of hours.

    A piece brings every model to the same documents, or to the same contexts of the target, so
    that models can be compared whenever it is stopped. The plan with its times comes first; times
    are reckoned until the first piece has been measured. Interrupt at any time and run the same
    command to go on: nothing that was finished is computed again.

    \b
    tokenmart campaign --problem minilong --hours 5 --dry-run
    tokenmart campaign --problem minilong --hours 5
    tokenmart campaign --problem minilong --hours 2 --only documents --skip-documents 4
    """
    from extract.campaign.run import Campaign, until
    from extract.failures import summary
    from extract.planning.devices import resolve_device
    from extract.planning.plan import select
    from extract.recall.measurement import recall_target
    from warehouse.errors import UnitFailedError
    from warehouse.paths import find_workspace
    from warehouse.problem.lineup import store_lineup, store_pairs
    from warehouse.problem.recall_target import RecallTarget
    from warehouse.problem.spec import load_problem
    from warehouse.progress import progress_bar, without_library_bars

    workspace = find_workspace()
    problem = load_problem(problem_name, workspace)
    target = None
    if only == "target" or (only is None and isinstance(problem.target, RecallTarget)):
        target = recall_target(problem, contexts, demo=False)
    work = Campaign(
        problem,
        target,
        select(problem, models=models, device=resolve_device(device), dtype=dtype),
        workspace,
        documents=0 if only == "target" else documents,
        skip=skip_documents,
        document_step=document_step,
        context_step=context_step,
    )
    budget = None if hours is None else hours * 3600
    _show_plan(work, budget)
    if dry_run:
        return
    store_pairs(problem, workspace)
    store_lineup(problem, workspace)

    def run_piece(piece: Piece) -> Done:
        click.echo(f"{piece.name}: about {_words(piece.seconds)}")
        with without_library_bars(), progress_bar(work.units(piece), "steps") as progress:
            return work.run(piece, progress)

    started = time.monotonic()
    done = until(work, budget, run_piece)
    _show_state(work, time.monotonic() - started, len(done))
    if work.failures:
        for line in summary(work.failures):
            click.echo(visible(f"error: {line}"), err=True)
        raise UnitFailedError(
            f"{len(work.failures)} failed (listed above); all else is kept: mend the cause and "
            "run the same command again"
        )


def _show_plan(work: Campaign, budget: float | None) -> None:
    from extract.campaign.pieces import fitting

    pieces = [piece for piece in work.pieces() if piece.left > 0]
    if not pieces:
        click.echo("everything is there already")
        return
    within = fitting(pieces, budget)
    click.echo(
        f"{counted(len(work.selection.models), 'model')}, {counted(len(pieces), 'piece')} to do:"
    )
    total = 0.0
    for place, piece in enumerate(pieces):
        total += piece.seconds
        beyond = "" if place < within else "   (beyond the budget)"
        left = "" if piece.left == 1 else f"   ({piece.left:.0%} of it left)"
        click.echo(
            f"  {piece.name:<28} {_words(piece.seconds):>12}   in all {_words(total):>12}"
            f"{left}{beyond}"
        )
    for kind in dict.fromkeys(piece.kind for piece in pieces):
        one = "a document" if kind == "documents" else "a context"
        rate = work.rate(kind)
        click.echo(f"{one} of all models: {_words(rate.seconds)} ({rate.source})")


def _show_state(work: Campaign, seconds: float, pieces: int) -> None:
    upto = {"documents": 0, "recall": 0}
    left = [piece for piece in work.pieces() if piece.left > 0]
    for piece in work.pieces():
        if piece.left == 0:
            upto[piece.kind] = piece.upto
    read = counted(max(upto["documents"] - work.skip, 0), "document")
    if work.skip:
        read += f" after the first {work.skip}"
    there = [read] * (work.documents > 0)
    there += [f"{counted(upto['recall'], 'context')} of the target"] * (work.target is not None)
    click.echo(
        f"ran {counted(pieces, 'piece')} in {_words(seconds)}; "
        f"all models have {' and '.join(there)}"
    )
    if left:
        rest = sum(piece.seconds for piece in left)
        click.echo(
            f"left: {counted(len(left), 'piece')}, about {_words(rest)}; "
            "run the same command to go on"
        )


def _words(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 1:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min"
