"""`tokenmart extract`, `recall` and `status`."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import click

from extract.progress import no_progress, progress_bar
from warehouse.errors import TokenmartError, UnitFailedError
from warehouse.paths import Workspace, find_workspace
from warehouse.problem.spec import Problem, RecallTarget, load_problem

if TYPE_CHECKING:
    from extract.plan import Document, ModelPlan, Selection

# A plain `make extract` on a machine without a GPU must not start a job of weeks.
LONGEST_CPU_HOURS = 12.0

DTYPES = click.Choice(["auto", "float32", "bfloat16", "float16"])


def _problem_option(command: Any) -> Any:
    return click.option(
        "--problem", "problem_name", required=True, metavar="P", help="no4k, minilong or a file."
    )(command)


def _selection_options(command: Any) -> Any:
    for option in (
        click.option("--demo", is_flag=True, help="Only the problem's small demo part."),
        click.option("--model", "models", multiple=True, help="Only this model; repeatable."),
        click.option(
            "--device",
            default="auto",
            show_default=True,
            help="auto, cpu, cuda, cuda:1, or auto-map (one model over several GPUs).",
        ),
        click.option("--dtype", default="auto", type=DTYPES, show_default=True),
    ):  # fmt: skip
        command = option(command)
    return command


@click.command()
@click.pass_context
@_problem_option
@_selection_options
@click.option("--probe", "probes", multiple=True, help="Only this probe; repeatable.")
@click.option("--documents", type=click.IntRange(1), help="Only the first N documents.")
@click.option("--max-tokens", type=click.IntRange(2), help="Only the first N tokens of each.")
@click.option(
    "--attention",
    type=click.Choice(["sdpa", "eager", "flash_attention_2"]),
    help="Attention implementation; transformers chooses when not given.",
)
@click.option(
    "--compile",
    "compiled",
    is_flag=True,
    help="Fuse norms, feed-forward layers and the head's tiles (torch.compile); for GPUs.",
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Processes that share the work: one per GPU, or per part of the processor.",
)
@click.option("--as-worker", hidden=True, help="Of the run that started at this time.")
@click.option("--dry-run", is_flag=True, help="Print what would be computed and its cost.")
def extract(
    context: click.Context,
    problem_name: str,
    demo: bool,
    models: tuple[str, ...],
    device: str,
    dtype: str,
    probes: tuple[str, ...],
    documents: int | None,
    max_tokens: int | None,
    attention: str | None,
    compiled: bool,
    workers: int,
    as_worker: str | None,
    dry_run: bool,
) -> None:
    """Write the log-prob, entropy and rank of every token to Parquet.

    Work is done in units of (model, condition, document). A finished unit is never computed
    again; interrupt at any time and run the same command to go on.

    \b
    tokenmart extract --problem minilong --demo
    tokenmart extract --problem no4k --dry-run
    tokenmart extract --problem no4k --model Qwen/Qwen2-7B-Instruct --device cuda:1
    """
    from extract.plan import resolve_device, select

    workspace = find_workspace()
    problem = load_problem(problem_name, workspace)
    device = resolve_device(device) if not dry_run or device != "auto" else _likely_device()
    selection = select(
        problem,
        models=models,
        probes=probes,
        documents=documents,
        max_tokens=max_tokens,
        demo=demo,
        device=device,
        dtype=dtype,
        attention=attention,
        compiled=compiled,
    )
    hours = _print_plan(problem, selection, workspace, quiet=not dry_run)
    if dry_run:
        return
    if device == "cpu" and hours > LONGEST_CPU_HOURS:
        _print_plan(problem, selection, workspace, quiet=False)
        raise TokenmartError(
            f"no GPU here, and a processor would take about {hours:,.0f} hours: run this on a GPU "
            "machine, take a part with --model/--documents/--max-tokens, or try `make demo`"
        )
    chosen = _documents(problem, selection, workspace)
    since = as_worker
    if workers > 1:
        since = datetime.now(timezone.utc).isoformat(timespec="seconds")
        _run_workers(context, since, problem, selection, chosen, workspace)
    quiet = as_worker is not None
    _extract(problem, selection, chosen, workspace, since, quiet)


def _likely_device() -> str:
    """Device for an estimate; asks torch, which is slow to import, only when a driver is here."""
    from pathlib import Path

    if Path("/proc/driver/nvidia").exists():
        from extract.plan import resolve_device

        return resolve_device("auto")
    return "cpu"


def _documents(problem: Problem, selection: Selection, workspace: Workspace) -> list[Document]:
    from extract.plan import documents_of
    from warehouse.sources.fetch import ensure_documents

    return documents_of(ensure_documents(problem, workspace), selection.documents)


def _print_plan(problem: Problem, selection: Selection, workspace: Workspace, quiet: bool) -> float:
    """Show what is planned, model by model; returns the hours it would take."""
    from extract.estimate import plan_table

    table, hours, note = plan_table(problem, selection, workspace)
    if not quiet:
        from rich.console import Console

        console = Console(width=max(Console().width, 120))
        console.print(table)
        click.echo(note)
    return hours


def _extract(
    problem: Problem,
    selection: Selection,
    documents: list[Document],
    workspace: Workspace,
    since: str | None,
    quiet: bool,
) -> None:
    from extract.run import Extraction

    total = len(selection.models) * len(documents) * len(selection.conditions)
    started = time.monotonic()
    with nullcontext(no_progress) if quiet else progress_bar(total, "units") as progress:
        run = Extraction(problem, selection, documents, workspace, progress, since)
        outcome = run.run()
    seconds = time.monotonic() - started
    before = total - outcome.units - outcome.elsewhere
    click.echo(
        f"extracted {outcome.units} units ({outcome.tokens:,} tokens) in {seconds:.0f} s; "
        f"{max(0, before)} of {total} were there already or failed"
        + (f"; {outcome.elsewhere} are being done by another process" if outcome.elsewhere else "")
    )
    if outcome.failures:
        for failure in outcome.failures:
            click.echo(f"error: {failure}", err=True)
        raise UnitFailedError(
            f"{len(outcome.failures)} failed (listed above); all else is kept: mend the cause "
            "and run the same command again"
        )


def _run_workers(
    context: click.Context,
    since: str,
    problem: Problem,
    selection: Selection,
    documents: list[Document],
    workspace: Workspace,
) -> None:
    """Let workers do the selection, under one progress bar; what they leave is done afterwards."""
    from extract.estimate import count_finished, refuse_too_many
    from extract.workers import run_workers, worker_arguments, worker_environments

    refuse_too_many(context.params["workers"], problem, selection, workspace)
    arguments = [*worker_arguments(context.command, context.params), "--as-worker", since]
    environments = worker_environments(context.params["workers"], selection.device)
    total = len(selection.models) * len(documents) * len(selection.conditions)
    with progress_bar(total, "units") as progress:
        deaths = run_workers(
            arguments,
            environments,
            lambda: count_finished(problem, selection, documents, workspace),
            progress,
        )
    for death in deaths:
        click.echo(f"warning: {death}", err=True)


@click.command()
@_problem_option
@_selection_options
@click.option(
    "--contexts", type=click.IntRange(1), help="Contexts per model instead of the file's."
)
def recall(
    problem_name: str,
    demo: bool,
    models: tuple[str, ...],
    device: str,
    dtype: str,
    contexts: int | None,
) -> None:
    """Measure the key-value recall target of a problem on its models.

    Never touches the proxy documents. Models already measured are skipped.

    \b
    tokenmart recall --problem minilong --demo
    """
    from extract.plan import resolve_device, select

    workspace = find_workspace()
    problem = load_problem(problem_name, workspace)
    target = problem.target
    if not isinstance(target, RecallTarget):
        raise TokenmartError(
            f"problem {problem.name}: its target is a locked file, nothing to measure; "
            f"see `tokenmart data fetch --problem {problem.name} --only target`"
        )
    selection = select(
        problem, models=models, demo=demo, device=resolve_device(device), dtype=dtype
    )
    contexts = contexts or (problem.demo.contexts if demo and problem.demo else None)
    if contexts is not None:
        target = target.model_copy(update={"contexts": contexts})
    _measure(problem, target, selection, workspace)


def _measure(
    problem: Problem, target: RecallTarget, selection: Selection, workspace: Workspace
) -> None:
    from extract.plan import plan_model
    from extract.recall import (
        is_measured,
        items_path,
        make_contexts,
        store_items,
        target_fingerprint,
    )
    from warehouse.sources.fetch import ensure_filler

    made = make_contexts(target, ensure_filler(target, workspace))
    failures: list[str] = []
    measured = 0
    with progress_bar(len(selection.models), "models") as progress:
        for spec in selection.models:
            try:
                plan = plan_model(problem, selection, spec, [], workspace)
                wanted = target_fingerprint(problem, target, plan)
                path = items_path(problem, spec.model_id, workspace)
                if not is_measured(path, wanted):
                    progress(f"{spec.full_id}: recall", 0)
                    store_items(path, _answers(plan, target, made, selection), wanted)
                    measured += 1
            except TokenmartError as error:
                if error.exit_code == 4:
                    raise
                failures.append(error.format_message())
            progress(f"{spec.full_id}: recall", 1)
    click.echo(f"measured {measured} models; {len(selection.models) - measured} were done before")
    if failures:
        for failure in failures:
            click.echo(f"error: {failure}", err=True)
        raise UnitFailedError(f"{len(failures)} models failed (listed above); the others are kept")


def _answers(plan: ModelPlan, target: RecallTarget, made: Any, selection: Selection) -> Any:
    from extract.engine import Engine, NonFiniteLogits
    from extract.loading import context_limit, load_model
    from extract.recall import build_items, score_items

    limit = context_limit(plan.config, plan.spec)
    if limit is not None and target.lengths[-1] > limit:
        raise TokenmartError(
            f"{plan.spec.full_id}: target length {target.lengths[-1]} is beyond its context of "
            f"{limit} tokens; shorten target.lengths or set the model's `context`"
        )
    model = load_model(plan.checkpoint, plan.spec, device=selection.device, dtype=plan.dtype)
    items = build_items(target, made, plan.tokenizer)
    try:
        return score_items(Engine(model), items, target)
    except NonFiniteLogits as error:
        raise TokenmartError(f"{plan.spec.full_id}: recall: {error}") from error


@click.command()
@_problem_option
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def status(problem_name: str, as_json: bool) -> None:
    """Show, per model and condition, how many documents are done, failed or missing.

    Peak memory is the largest measured, or, before anything ran, predicted (with ~).
    """
    from extract.estimate import status_rows
    from extract.plan import select

    workspace = find_workspace()
    problem = load_problem(problem_name, workspace)
    selection = select(problem, device=_likely_device(), dtype="auto")
    rows = status_rows(problem, selection, workspace)
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{problem.name}: what has been extracted")
    for column, justify in (
        ("model", "left"), ("condition", "left"), ("done", "right"), ("failed", "right"),
        ("of", "right"), ("rows", "right"), ("tokens", "right"), ("seconds", "right"),
        ("MB", "right"), ("peak GiB", "right"),
    ):  # fmt: skip
        table.add_column(column, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(
            row["model_id"], row["condition"], str(row["done"]), str(row["failed"] or ""),
            str(row["documents"] or "?"), f"{row['rows']:,}", f"{row['tokens_processed']:,}",
            f"{row['seconds']:,.0f}", f"{row['bytes'] / 1e6:.1f}",
            f"{row['peak_bytes'] / 2**30:.1f}" if row["peak_bytes"]
            else f"~{row['predicted_peak_bytes'] / 2**30:.1f}",
        )  # fmt: skip
    console = Console(width=max(Console().width, 120))
    console.print(table)
    missing = [row for row in rows if row["documents"] is None or row["done"] < row["documents"]]
    if missing:
        click.echo(
            f"{len(missing)} of {len(rows)} incomplete; go on with "
            f"`tokenmart extract --problem {problem_name}`"
        )
