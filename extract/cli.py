"""`tokenmart extract`, `status` and `recall`."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import click

from warehouse.errors import TokenmartError
from warehouse.options import (
    DEVICE,
    DTYPE,
    LAST_PROBLEM,
    MODELS,
    PROBLEM,
    RECORDS,
    WIDE,
)
from warehouse.terminal import (
    counted,
    left_out_notes,
    print_columns,
    print_notes,
    print_records,
    terminal_console,
)

if TYPE_CHECKING:
    from extract.planning.tables import Plan

LONGEST_CPU_HOURS = 12.0
"""A plain `make extract` on a machine without a GPU must not start a job of weeks."""


@click.command()
@PROBLEM
@MODELS
@DEVICE
@DTYPE
@click.option("--probe", "probes", multiple=True, help="Use only this probe; repeatable.")
@click.option("--documents", type=click.IntRange(1), help="Use only the first N documents.")
@click.option(
    "--max-tokens", type=click.IntRange(2), help="Use only the first N tokens of each document."
)
@click.option(
    "--attention",
    type=click.Choice(["sdpa", "eager", "flash_attention_2", "flash_attention_3"]),
    help="Attention implementation; by default transformers chooses.",
)
@click.option(
    "--no-fused",
    "fused",
    is_flag=True,
    flag_value=False,
    default=True,
    help="Use the model's own layers on a GPU, not the fused ones of liger-kernel.",
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    help="Number of processes, each on one GPU or on a part of the CPU cores. Default: "
    "one per GPU if models fit on one GPU, else one; larger ones follow, over all GPUs.",
)
@click.option(
    "--top-k",
    type=click.IntRange(1, 1000),
    help="Store the K most likely tokens at every position too (table top_tokens); units "
    "without them are recomputed.",
)
@click.option(
    "--force", is_flag=True, help="Replace finished units that have more than this run computes."
)
@click.option("--as-worker", hidden=True, help="Be a worker of the run that started at this time.")
@click.option("--dry-run", is_flag=True, help="Print the plan and its cost, and compute nothing.")
@RECORDS
def extract(
    problem_name: str,
    device: str,
    workers: int | None,
    as_worker: str | None,
    dry_run: bool,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Write the log-probability, entropy and rank of every token to Parquet.

    Work is done in units of (model, condition, document). A finished unit is never computed again:
    interrupt at any time and run the same command to resume.

    \b
    tokenmart extract --problem demo
    tokenmart extract --problem no4k --dry-run
    tokenmart extract --problem no4k --model Qwen/Qwen2-7B-Instruct --device cuda:1
    """
    from extract.devices import planned_device, resolve_device
    from extract.planning.selection import select
    from extract.planning.tables import make_plan
    from extract.tokenization import refuse_other_vocabularies
    from warehouse.paths import find_workspace
    from warehouse.problem.spec import load_problem

    if as_json and not dry_run:
        raise click.UsageError("--json prints a plan: add --dry-run")
    workspace = find_workspace()
    problem = load_problem(problem_name, workspace)
    where, here = planned_device(device) if dry_run else (resolve_device(device), True)
    selection = select(problem, workspace, device=where, **chosen)
    if dry_run:
        refuse_other_vocabularies(selection, fetch=False)
    plan = make_plan(selection, here)
    if where.startswith(("cuda", "auto-map")):
        from extract.workers import fitting_models, gpu_workers

        if as_worker is not None:
            selection = replace(selection, models=fitting_models(plan, where))
        workers = workers or (gpu_workers(plan, where) if device == "auto" else 1)
        plan = replace(plan, workers=workers)
    if dry_run:
        _print_plan(plan, as_json)
        return
    from extract.run import extract_here, prepared_documents
    from extract.workers import share_work

    if where == "cpu" and device != "cpu" and as_worker is None:
        _guard_processor(plan)
    documents = prepared_documents(selection)
    since = as_worker
    if as_worker is None and (workers or 1) > 1:
        since = datetime.now(timezone.utc).isoformat(timespec="seconds")
        share_work(since, selection, workers or 1, documents)
    extract_here(selection, documents, since, as_worker is not None)


def _guard_processor(plan: Plan) -> None:
    """Refuse what takes a processor long, unless the user chose it with --device.

    Raises:
        TokenmartError: the run would take too long, or a time that is unknown (code `no-gpu`).
    """
    if plan.hours <= LONGEST_CPU_HOURS and not plan.unknown:
        return
    takes = f"about {plan.hours:,.0f} hours"
    if plan.unknown:
        takes += f", and an unknown time for {', '.join(plan.unknown)}"
    _print_plan(plan)
    raise TokenmartError(
        f"no GPU here, and a processor would take {takes}: run this on a GPU machine, take a part "
        "with --model/--documents/--max-tokens, or insist with --device cpu",
        code="no-gpu",
        where="--device",
    )


def _print_plan(plan: Plan, as_json: bool = False) -> None:
    from extract.failures import print_lines
    from extract.planning.tables import plan_columns, plan_records

    if as_json:
        print_records(plan_records(plan))
        print_lines("note", plan.notes)
        return
    console = terminal_console()
    left_out = print_columns(console, plan_columns(plan), plan.title, last_is_total=True)
    print_notes(console, left_out_notes(left_out, "in a wider terminal"), "dim")
    print_notes(console, plan.notes)


@click.command()
@LAST_PROBLEM
@WIDE
@RECORDS
def status(problem: str, wide: bool, as_json: bool) -> None:
    """Show how many units of each model are done, failed or missing.

    A unit is one document in one condition. Peak memory is the largest measured or, before any run,
    the predicted value (with ~). Files missing from the ledger and damaged files are listed. --json
    has a row for each condition of a model.

    \b
    tokenmart status --problem minilong
    """
    from extract.devices import likely_device
    from extract.failures import print_lines
    from extract.planning.selection import select
    from extract.planning.status import (
        fallbacks,
        status_columns,
        status_notes,
        status_rows,
    )
    from warehouse.paths import find_workspace
    from warehouse.problem.spec import load_problem
    from warehouse.store.stored_files import find_faults

    workspace = find_workspace()
    loaded = load_problem(problem, workspace)
    of_problem = f"problem={loaded.name}"
    faults = [fault for fault in find_faults(workspace) if of_problem in fault.path.parts]
    print_lines("warning", [f"{fault.path}: {fault.what}" for fault in faults])
    selection = select(loaded, workspace, device=likely_device(), dtype="auto")
    rows = status_rows(selection)
    if as_json:
        print_records(rows)
        return
    console = terminal_console()
    title = f"{loaded.name}: what has been extracted"
    left_out = print_columns(console, status_columns(rows), title, wide)
    print_notes(console, left_out_notes(left_out), "dim")
    print_lines("warning", fallbacks(rows), err=False)
    print_notes(console, status_notes(selection, rows))
    wanted = [row for row in rows if not row["on_request"]]
    missing = sum(r["documents"] is None or r["done"] < r["documents"] for r in wanted)
    if missing:
        click.echo(
            f"{missing} of {len(wanted)} conditions incomplete; go on with "
            f"`tokenmart extract --problem {loaded.argument}`"
        )


@click.command()
@PROBLEM
@MODELS
@DEVICE
@DTYPE
@click.option(
    "--contexts",
    type=click.IntRange(1),
    help="Number of contexts per model, instead of the problem file's.",
)
@click.option("--force", is_flag=True, help="Replace answers to more questions than this run asks.")
@RECORDS
def recall(
    problem_name: str, device: str, contexts: int | None, as_json: bool, **chosen: Any
) -> None:
    """Measure the recall target of a problem with tasks modelled on RULER.

    It does not read the problem's documents. Answers are stored context by context: interrupt at
    any time and run the same command to resume.

    \b
    tokenmart recall --problem minilong --contexts 3
    """
    from extract.devices import resolve_device
    from extract.failures import print_lines, summary
    from extract.planning.selection import select
    from extract.recall.measurement import measure_recall, recall_target
    from warehouse.errors import UnitFailedError
    from warehouse.paths import find_workspace
    from warehouse.problem.spec import load_problem
    from warehouse.progress import progress_bar

    workspace = find_workspace()
    problem = load_problem(problem_name, workspace)
    target = recall_target(problem, contexts)
    selection = select(problem, workspace, device=resolve_device(device), **chosen)
    with progress_bar(len(selection.models), "models") as progress:
        outcome = measure_recall(target, selection, progress)
    done = len(selection.models) - outcome.units - len(outcome.failures)
    if as_json:
        reasons = {failure.model: failure.reason for failure in outcome.failures}
        print_records(
            {"model": spec.full_id, "model_id": spec.model_id, "is_measured": not reason}
            | {"reason": reason}
            for spec in selection.models
            for reason in [reasons.get(spec.full_id, "")]
        )
    else:
        click.echo(f"measured {counted(outcome.units, 'model')}; {done} were done before")
    if outcome.failures:
        print_lines("error", summary(outcome.failures))
        raise UnitFailedError(
            f"{counted(len(outcome.failures), 'model')} failed (listed above); the others are "
            "kept: correct the cause and run the same command again"
        )
