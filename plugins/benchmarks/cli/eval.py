"""Run benchmarks of lm-evaluation-harness on models, token by token."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from warehouse.errors import visible
from warehouse.options import DEVICE, DTYPE, FILE, MODELS, PROBLEM, RECORDS
from warehouse.terminal import counted, print_records

if TYPE_CHECKING:
    import pyarrow as pa

    from extract.failures import Failure
    from extract.planning.plan import ModelPlan
    from extract.planning.selection import Selection
    from plugins.benchmarks.harness.encoding import TooLong
    from plugins.benchmarks.harness.tasks import EvalTask
    from warehouse.paths import Workspace
    from warehouse.problem.models import ModelSpec
    from warehouse.problem.spec import Problem
    from warehouse.progress import Progress


@click.command("eval")
@PROBLEM
@click.option(
    "--tasks",
    "names",
    required=True,
    multiple=True,
    help="Run these tasks or groups of lm-evaluation-harness, or YAML files: separated by commas, "
    "or repeated; * matches several.",
)
@click.option(
    "--include-path",
    multiple=True,
    type=FILE,
    help="Search this folder for tasks too; repeatable.",
)
@MODELS
@click.option(
    "--num-fewshot",
    "shots",
    type=click.IntRange(0),
    help="Number of few-shot examples in a prompt, instead of the task's own number.",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    help="Use only the first N documents of each task; stored separately from complete runs.",
)
@click.option(
    "--apply-chat-template",
    "chat",
    is_flag=True,
    help="Apply each model's own chat template to prompts, as the harness does; each few-shot "
    "example is one turn.",
)
@click.option("--subject", help="Field of a document with its subject, for metrics by subject.")
@click.option(
    "--cluster",
    help="Field of a document with its cluster (such as a shared passage), for standard errors.",
)
@click.option(
    "--too-long",
    type=click.Choice(["cut", "harness"]),
    default="cut",
    show_default=True,
    help="Items longer than the model's context: cut the prompt and keep BOS (a rolling "
    "text is scored in windows, each after BOS), or cut like the harness, which drops BOS.",
)
@DEVICE
@DTYPE
@click.option("--dry-run", is_flag=True, help="Print the requests and units, and run nothing.")
@RECORDS
def eval_command(
    problem_name: str,
    names: tuple[str, ...],
    include_path: tuple[Path, ...],
    models: tuple[str, ...],
    shots: int | None,
    limit: int | None,
    chat: bool,
    subject: str | None,
    cluster: str | None,
    too_long: TooLong,
    device: str,
    dtype: str,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Run benchmarks of lm-evaluation-harness and store every scored token.

    Choices of an item share their prompt's KV cache, and prompts that begin with the same examples
    share these. A finished unit (32 documents of a task) is never computed again: interrupt at any
    time and run the same command to resume. `tokenmart dbt run --select tag:benchmarks` computes
    the metrics in the tables eval_metrics and eval_item_metrics.

    \b
    tokenmart eval --problem minilong --tasks arc_easy,hellaswag --limit 100
    tokenmart eval --problem minilong --tasks my_task --include-path tasks --dry-run
    tokenmart eval --problem minilong --tasks my_task --include-path tasks --apply-chat-template
    """
    from plugins.benchmarks.e2lm.harness_check import prompt_notes
    from plugins.benchmarks.harness.item_rows import item_rows
    from plugins.benchmarks.harness.tasks import load_tasks_and_groups
    from warehouse.progress import progress_bar

    workspace, problem, selection = selected(problem_name, models, device, dtype)
    wanted = [name for text in names for name in text.split(",") if name]
    with progress_bar(1, "steps") as progress:
        progress("loading the tasks", 0)
        tasks, groups = load_tasks_and_groups(wanted, include_path, shots=shots, limit=limit)
        items = {task.condition: item_rows(task, subject, cluster) for task in tasks}
    for task in tasks:
        for note in prompt_notes(task.task, task.shots, chat):
            click.echo(visible(f"note: {task.name}: {note}"), err=True)
    if dry_run:
        requests = {condition: rows.num_rows for condition, rows in items.items()}
        _print_plan(tasks, requests, len(selection.models), as_json)
        return

    benchmarks = _Benchmarks(tasks, groups, items, subject, cluster, chat, limit)
    started = time.monotonic()
    total = len(selection.models) * sum(len(task.units) for task in tasks)
    results = []
    with progress_bar(total, "units") as progress:
        for spec in selection.models:
            result = _run_model(spec, problem, selection, benchmarks, workspace, progress, too_long)
            for line in result.notes:
                click.echo(visible(f"note: {line}"), err=True)
            results.append(result)
    if as_json:
        print_records([result.record for result in results])
    else:
        _print_evaluated([result.record for result in results], total, time.monotonic() - started)
        if conditions := set().union(*(result.conditions for result in results)):
            click.echo(visible(_next_step(problem.name, conditions)))
    _raise_failures([failure for result in results for failure in result.failures])


def _raise_failures(failures: list[Failure]) -> None:
    """Print what failed, and stop; nothing without failures."""
    from extract.failures import summary
    from warehouse.errors import UnitFailedError

    if not failures:
        return
    for line in summary(failures):
        click.echo(visible(f"error: {line}"), err=True)
    raise UnitFailedError(
        f"{len(failures)} failed (listed above); everything else is kept: correct the cause "
        "and run the same command again"
    )


def _print_plan(
    tasks: list[EvalTask], requests: dict[str, int], models: int, as_json: bool
) -> None:
    """What a run would do; `requests`: number of each task's, by condition."""
    if as_json:
        print_records(
            {
                "condition": task.condition,
                "requests": requests[task.condition],
                "units": len(task.units),
            }
            for task in tasks
        )
        return
    for task in tasks:
        asked = counted(requests[task.condition], "request")
        click.echo(visible(f"{task.condition}: {asked} in {counted(len(task.units), 'unit')}"))
    click.echo(f"{counted(models, 'model')}; nothing was run")


def _print_evaluated(records: list[dict[str, Any]], total: int, seconds: float) -> None:
    """What a run did, of `total` units."""
    units, stored, tokens = (
        sum(record[name] for record in records) for name in ("units", "units_there", "tokens")
    )
    click.echo(
        f"evaluated {counted(units, 'unit')} ({tokens:,} tokens) in {seconds:.0f} s"
        + f"; {stored} of {total} were there already" * (stored > 0)
    )


def _next_step(problem: str, conditions: Collection[str]) -> str:
    """The commands that show the scores of these conditions."""
    names = ", ".join(f"'{name}'" for name in sorted(conditions))
    return (
        "next: tokenmart dbt run --select tag:benchmarks && "
        "tokenmart sql \"from eval_metrics where part = 'all' "
        f"and problem = '{problem}' and condition in ({names}) order by all\""
    )


@dataclass(frozen=True)
class _Benchmarks:
    """What all models are asked.

    tasks: without a chat template.
    items: condition → the rows of a task's requests.
    """

    tasks: list[EvalTask]
    groups: list[Any]
    items: dict[str, pa.Table]
    subject: str | None
    cluster: str | None
    chat: bool
    limit: int | None


@dataclass(frozen=True)
class _ModelResult:
    """What came of one model; `conditions`: those whose requests are stored."""

    record: dict[str, Any]
    failures: list[Failure]
    notes: list[str]
    conditions: set[str]


def _stored_tasks(
    benchmarks: _Benchmarks, plan: ModelPlan, problem: str, workspace: Workspace
) -> tuple[list[EvalTask], set[str], list[str]]:
    """The tasks as a model is asked, their requests stored; the conditions, and notes on them."""
    from plugins.benchmarks.harness.chat import chat_of
    from plugins.benchmarks.harness.groups import group_rows
    from plugins.benchmarks.harness.item_rows import item_rows
    from plugins.benchmarks.harness.stored_items import store_group, store_items
    from plugins.benchmarks.harness.tasks import in_chat

    tasks, notes = benchmarks.tasks, []
    if benchmarks.chat:
        chat = chat_of(plan.spec.full_id, plan.tokenizer.library)
        tasks = [in_chat(task, chat, benchmarks.limit) for task in tasks]
        notes = [f"{plan.spec.full_id}: {note}" for note in chat.notes]
    for task in tasks:
        rows = benchmarks.items.get(task.condition)
        if rows is None:
            rows = item_rows(task, benchmarks.subject, benchmarks.cluster)
        if changed := store_items(workspace, problem, task.condition, rows):
            notes.append(
                f"{task.condition}: {' and '.join(changed)} of its items replaced, for the "
                "metrics and standard errors of all models"
            )
    by_task = {task.name: task.condition for task in tasks}
    conditions = set(by_task.values())
    for group in benchmarks.groups:
        condition, members = group_rows(group, by_task)
        store_group(workspace, problem, condition, members)
        conditions.add(condition)
    return tasks, conditions, notes


def _run_model(
    spec: ModelSpec,
    problem: Problem,
    selection: Selection,
    benchmarks: _Benchmarks,
    workspace: Workspace,
    progress: Progress,
    too_long: TooLong,
) -> _ModelResult:
    """All tasks of one model; one that fails does not stop the others, nor the next model."""
    from extract.devices import free_unused
    from extract.failures import Failure, explain, raise_if_lost
    from extract.planning.plan import plan_model
    from plugins.benchmarks.harness.evaluation import EvalRun
    from warehouse.errors import StorageError

    run, reason = None, ""
    conditions: set[str] = set()
    notes: list[str] = []
    try:
        progress(f"{spec.full_id}: looking for its files", 0)
        plan = plan_model(selection, spec, [])
        run = EvalRun(problem, selection, plan, workspace, progress, too_long=too_long)
        tasks, conditions, notes = _stored_tasks(benchmarks, plan, problem.name, workspace)
        for task in tasks:
            run.run(task)
            notes += [f"{spec.full_id}, {task.name}: {why}" for why in run.store_answers(task)]
            if shortened := run.shortened(task):
                notes.append(
                    f"{spec.full_id}, {task.name}: longer than the {run.encoder.longest} "
                    f"tokens that the model reads: {shortened} (see --too-long)"
                )
    except StorageError:
        raise
    except Exception as error:  # the next model is run, whatever it was
        raise_if_lost(error)
        reason = explain(error, spec.full_id)
    failures = [
        *(run.failures if run else ()),
        *([Failure(spec.full_id, reason)] if reason else ()),
    ]
    record = {
        "model": spec.full_id,
        "model_id": spec.model_id,
        "units": run.units if run else 0,
        "units_there": run.stored if run else 0,
        "tokens": run.tokens if run else 0,
        "reasons": sorted({failure.reason for failure in failures}),
    }
    if run is not None:
        run.__dict__.pop("scorer", None)
    # after the handler, whose exception keeps the model in memory
    free_unused()
    return _ModelResult(record, failures, notes, conditions)


def selected(
    problem_name: str,
    models: tuple[str, ...],
    device: str,
    dtype: str,
) -> tuple[Workspace, Problem, Selection]:
    """The workspace, the problem, and its selected models on a device."""
    from extract.devices import resolve_device
    from extract.planning.selection import select
    from warehouse.paths import find_workspace
    from warehouse.problem.spec import load_problem

    workspace = find_workspace()
    problem = load_problem(problem_name, workspace)
    selection = select(
        problem,
        workspace,
        models=models,
        device=resolve_device(device),
        dtype=dtype,
    )
    return workspace, problem, replace(selection, conditions=())
