"""`tokenmart data audit`: the group of `data` commands with the one that runs models."""

from __future__ import annotations

from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any

import click

from warehouse.errors import StorageError, TokenmartError, UnitFailedError
from warehouse.maintenance.cli import data as data
from warehouse.options import DEVICE, MODELS, PROBLEM, RECORDS
from warehouse.terminal import Column, counted, print_columns, print_records, terminal_console

if TYPE_CHECKING:
    from extract.planning.selection import Selection
    from warehouse.problem.models import ModelSpec
    from warehouse.progress import Progress

LEAST = 2
"""Rows that are sampled of each condition at least."""

_STATES = """
    select states.*, forwards, read
    from audit_states as states
    inner join (
        select model_id, condition, count(*) as forwards, sum(tokens)::bigint as read
        from (
            select model_id, condition, max(context_tokens) + 1 as tokens from tokens
            where problem = $problem group by model_id, condition, doc_id, segment
        ) group by all
    ) using (model_id, condition)
    where states.problem = $problem order by model_id, condition
"""
_COLUMNS = (
    "model", "condition", "state", "rows", "sampled", "differing", "largest_logprob",
    "mean_logprob", "largest_entropy", "mean_entropy", "other_ranks", "tolerance", "share_found",
    "cause", "planned", "tokens", "seconds",
)  # fmt: skip
"""Of the table; JSON has model_id and seed, too."""


@data.command(short_help="Recompute a random sample of stored rows, and bound the wrong ones.")
@PROBLEM
@MODELS
@DEVICE
@click.option("--tokens", default=2000, show_default=True, type=click.IntRange(1),
              help="Rows to sample, of all models; fewer where their inputs are long.")  # fmt: skip
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**32 - 1),
              help="Random seed of the sample.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Print the cost, and compute nothing.")
@RECORDS
def audit(
    problem_name: str, models: tuple[str, ...], device: str, tokens: int, seed: int,
    dry_run: bool, as_json: bool,
) -> None:  # fmt: skip
    """Recompute a random sample of stored rows, and bound the share of wrong ones.

    The model's own forward pass in float32 recomputes them from text and condition alone, without
    the engine of `tokenmart extract`. Where rows differ by more than rounding explains, the likely
    cause is named, and the command exits with 4. Models that were audited with the same seed are
    kept while their units are unchanged: interrupt at any time and run the same command to resume.

    \b
    tokenmart data audit --problem demo
    tokenmart data audit --problem no4k --model Qwen/Qwen2-7B-Instruct --device cuda:1
    """
    from extract.devices import planned_device, resolve_device
    from extract.failures import print_lines, why_failed
    from extract.planning.selection import select
    from warehouse.paths import find_workspace
    from warehouse.problem.needed import refresh_needed
    from warehouse.problem.spec import load_problem
    from warehouse.progress import progress_bar, without_library_bars

    workspace = find_workspace()
    problem = load_problem(problem_name, workspace)
    where = planned_device(device)[0] if dry_run else resolve_device(device)
    selection = select(problem, workspace, models=models, device=where, dtype="auto")
    refresh_needed(problem, workspace)
    rows = _states(selection, tokens, seed)
    left, seconds = (sum(row[name] for row in rows) for name in ("tokens", "seconds"))
    cost = f"seed {seed}; up to {left:,} tokens to read, about {seconds:,.0f} s on {where}"
    click.echo(cost, err=True)
    failures = []
    if not dry_run:
        with without_library_bars(), progress_bar(left, "tokens") as progress:
            for spec in selection.models:
                todo = [r for r in rows if r["model_id"] == spec.model_id and r["tokens"]]
                job = partial(_audit, selection, spec, todo, seed, progress)
                if todo and (reason := why_failed(spec.full_id, job)):
                    failures.append(f"{spec.full_id}: {reason}")
        rows = _states(selection, tokens, seed)
    _print(rows, as_json)
    if failures:
        print_lines("error", failures)
        what = f"{counted(len(failures), 'model')} could not be audited (listed above)"
        raise UnitFailedError(what)
    wrong = [f"{row['model']}: {row['condition']}" for row in rows if row["state"] == "differs"]
    if wrong:
        what = f"rows differ by more than rounding in {counted(len(wrong), 'condition')}"
        raise StorageError(f"{wrong[0]}: {what}", code="rows-differ", where=wrong[0])


def _states(selection: Selection, tokens: int, seed: int) -> list[dict[str, Any]]:
    """What is known of the models' conditions, and what an audit of the others would read at most.

    A condition's share of the sample follows its rows, and is smaller where they cost more.

    Raises:
        TokenmartError: none has rows (`no-rows`).
    """
    from extract.audit.rows import share_found
    from extract.planning.cost import Work, estimate, model_size
    from warehouse.sql.connection import connect_to_parquet

    problem, workspace = selection.problem, selection.workspace
    specs = {spec.model_id: spec for spec in selection.models}
    names = {condition.name for condition in selection.conditions}
    with connect_to_parquet(workspace) as connection:
        table = connection.sql(_STATES, params={"problem": problem.name}).to_arrow_table()
    states = [s for s in table.to_pylist() if s["model_id"] in specs and s["condition"] in names]
    if not states:
        what = f"nothing to audit: run `tokenmart extract --problem {problem.argument}` first"
        raise TokenmartError(what, code="no-rows", where=problem.argument)
    weights = [state["rows"] ** 2 / state["read"] for state in states]
    for state, weight in zip(states, weights, strict=True):
        spec, length = specs[state["model_id"]], state["read"] / state["forwards"]
        share = max(LEAST, ceil(tokens * weight / sum(weights)))
        state["planned"] = planned = min(share, state["rows"])
        is_known = state["state"] in ("agrees", "differs") and state["seed"] == seed
        left = 0 if is_known and state["sampled"] >= planned else planned
        state["tokens"] = read = int(length * min(left, state["forwards"]))
        size = model_size(spec, workspace, problem=problem.name)
        work = Work(read, left, read * length / 2)
        cost = estimate(work, size, dtype="float32", device=selection.device)
        state |= {"model": spec.full_id, "seconds": cost.seconds or 0.0}
        state["share_found"] = share_found(state["sampled"] or planned)
    return states


def _audit(
    selection: Selection, spec: ModelSpec, todo: list[Any], seed: int, progress: Progress
) -> None:
    """Audit conditions of one model and store what was found."""
    from extract.audit.audit import audit_samples, store_audits, stored_samples
    from extract.planning.plan import plan_model

    progress(f"{spec.full_id}: looking for its files", 0)
    plan = plan_model(selection, spec, ())
    store_audits(plan, audit_samples(plan, stored_samples(plan, todo, seed), seed, progress))


def _print(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        names = ("model_id", *_COLUMNS, "seed")
        print_records({name: row[name] for name in names} for row in rows)
        return
    columns = []
    for name in _COLUMNS:
        cells = [_cell(row[name]) for row in rows]
        if any(cells):
            is_text = name in ("model", "condition", "state", "cause")
            columns.append(Column(name.replace("_", "\n"), cells, text=is_text))
    print_columns(terminal_console(), columns)
    click.echo(
        "If a share x of a condition's rows were wrong by more than the tolerance, its k sampled "
        "rows would all agree with probability (1 - x)^k: below 5% for x >= `share found`."
    )


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else f"{value:,.2g}" if isinstance(value, float) else f"{value:,}"
