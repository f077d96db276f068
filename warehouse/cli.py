"""Commands of the ground floor: data, sql, doctor, dbt, warehouse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from warehouse.errors import TokenmartError
from warehouse.paths import find_workspace
from warehouse.upkeep import check, gc

if TYPE_CHECKING:
    from collections.abc import Callable

    from warehouse.adhoc import Format
    from warehouse.paths import Workspace
    from warehouse.problem import ModelSpec, Problem
    from warehouse.queries import Query, Value

_PROBLEM = click.option(
    "--problem", "problem_name", required=True, help="Problem by name, or a path to its .yml."
)


@click.group()
def data() -> None:
    """Fetch and check documents, models and targets."""


@data.command()
@_PROBLEM
@click.option("--only", type=click.Choice(["documents", "models", "target"]), help="One kind.")
@click.option("--model", "models", multiple=True, help="Weights of this model only; repeatable.")
@click.option("--offline", is_flag=True, help="Check what is here; download nothing.")
@click.option("--dry-run", is_flag=True, help="Say what is here and what would be fetched.")
def fetch(
    problem_name: str, only: str | None, models: tuple[str, ...], offline: bool, dry_run: bool
) -> None:
    """Bring what a problem needs, checked by hash; what is here already is kept.

    Files placed by hand are accepted when their hash is right. Checkpoints of the hub are
    large: they are fetched with --only models or --model, or when `tokenmart extract` needs
    them.

    \b
    tokenmart data fetch --problem minilong
    tokenmart data fetch --problem no4k --only models --model Qwen/Qwen2-0.5B-Instruct
    """
    from warehouse.problem import load_problem

    workspace = find_workspace()
    problem = load_problem(problem_name, workspace)
    chosen = [problem.model(name) for name in models]
    kind = only or ("models" if models else None)
    if models and only not in (None, "models"):
        raise click.UsageError(f"--model goes with --only models, not --only {only}")
    if dry_run:
        _show_needs(problem, workspace, kind, chosen)
        return
    steps: dict[str, Callable[[], None]] = {
        "documents": lambda: _fetch_documents(problem, workspace, offline),
        "target": lambda: _fetch_target(problem, workspace, offline),
        "models": lambda: _fetch_models(problem, workspace, chosen, kind == "models", offline),
    }
    failures: list[TokenmartError] = []
    for name, step in steps.items():
        if kind in (None, name):
            try:
                step()
            except TokenmartError as error:
                failures.append(error)
    failures.sort(key=lambda failure: failure.exit_code)
    for failure in failures[:-1]:
        failure.show()
    if failures:
        raise failures[-1]


def _show_needs(
    problem: Problem, workspace: Workspace, kind: str | None, chosen: list[ModelSpec]
) -> None:
    from warehouse.inventory import problem_needs

    for need in problem_needs(problem, workspace, chosen or None):
        if kind in (None, need.kind):
            state = "here   " if need.present else "missing"
            where = need.path if need.present else f"from {need.source}"
            click.echo(f"{state}  {need.kind:<9}  {need.name}  ({where})")


def _fetch_documents(problem: Problem, workspace: Workspace, offline: bool) -> None:
    from warehouse.fetch import ensure_documents

    table = ensure_documents(problem, workspace, offline=offline)
    characters = sum(table["characters"].to_pylist())
    licence = getattr(problem.documents, "licence", "unknown")
    click.echo(f"documents: {table.num_rows} ({characters:,} characters; licence: {licence})")


def _fetch_target(problem: Problem, workspace: Workspace, offline: bool) -> None:
    from warehouse.fetch import ensure_filler, ensure_target_file
    from warehouse.problem import RecallTarget

    if isinstance(problem.target, RecallTarget):
        texts = ensure_filler(problem.target, workspace, offline=offline)
        click.echo(f"target: {len(texts)} filler texts for the recall task")
    else:
        path = ensure_target_file(problem, workspace, offline=offline)
        click.echo(f"target: {path}")


def _fetch_models(
    problem: Problem, workspace: Workspace, chosen: list[ModelSpec], with_hub: bool, offline: bool
) -> None:
    from warehouse.fetch import ensure_hub_model, ensure_weights
    from warehouse.problem import HubSource

    done: set[object] = set()
    later = 0
    for spec in chosen or problem.models:
        if isinstance(spec.source, HubSource):
            if with_hub:
                _, commit = ensure_hub_model(spec, workspace, problem.name, offline=offline)
                click.echo(f"model: {spec.full_id} at commit {commit} (licence: {spec.licence})")
            else:
                later += 1
        elif spec.source not in done:
            done.add(spec.source)
            path = ensure_weights(spec, workspace, offline=offline)
            click.echo(f"model: {spec.full_id} at {path} (licence: {spec.licence})")
    if later:
        click.echo(f"models: {later} on the hub, fetched when needed (now: --only models)")


@click.command()
@click.argument("query", required=False)
@click.option(
    "--file", "file", type=click.Path(path_type=Path), help="SQL from a file, - for stdin."
)
@click.option("--list", "list_", is_flag=True, help="List the cookbook's queries.")
@click.option("--name", help="Run a query of the cookbook.")
@click.option("--show", is_flag=True, help="Print the SQL instead of running it.")
@click.option("--param", "params", multiple=True, metavar="K=V", help="Value of $K; repeatable.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["table", "csv", "json", "parquet", "arrow"]),
    help="Output format; taken from --out's ending, else table.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Write the rows to this file.")
@click.option("--limit", default=100, show_default=True, help="Rows a table shows; 0 for all.")
def sql(
    query: str | None,
    file: Path | None,
    list_: bool,
    name: str | None,
    show: bool,
    params: tuple[str, ...],
    format_: Format | None,
    out: Path | None,
    limit: int,
) -> None:
    """Query token statistics and metrics, read-only. Without a query: an interactive shell.

    Views over the Parquet files: tokens, documents, models, units (the ledger), downstream.
    After `tokenmart dbt build`, its tables too: metric_values, metric_catalog, coverage, …
    Statements may also come from standard input.

    \b
    tokenmart sql
    tokenmart sql "select model_id, avg(logprob) from tokens where probe = 'full' group by all"
    tokenmart sql --list
    tokenmart sql --name perplexity --param problem=minilong
    tokenmart sql --file question.sql --out answer.parquet
    """
    if list_:
        _list_queries()
        return
    given = sum(value is not None for value in (query, file, name))
    if given > 1:
        raise click.UsageError("give one of: a query, --file, --name, --list")
    if given == 0:
        if show or params or format_ or out:
            raise click.UsageError("--show, --param, --format and --out go with a query")
        from warehouse.shell import run_shell

        run_shell(find_workspace(), limit)
        return
    from warehouse.queries import find_query

    recipe = find_query(name) if name else None
    text = recipe.sql if recipe else query if query is not None else _read_sql(file)
    values = _parameters(params, recipe)
    if show:
        click.echo(text.rstrip())
        return
    from warehouse.adhoc import format_of, write_rows
    from warehouse.session import Session

    format_ = format_ or format_of(out)
    with Session(find_workspace()) as session, session.ask(text, values) as result:
        left_out = write_rows(result, format_, out, limit)
    if left_out:
        click.echo(f"only {limit} rows shown; --limit 0 shows all, --out saves all", err=True)


def _list_queries() -> None:
    from warehouse.queries import list_queries

    for recipe in list_queries():
        click.echo(f"{recipe.name}: {recipe.title}")
        for parameter in recipe.parameters:
            click.echo(f"    --param {parameter.name}={parameter.default}  {parameter.meaning}")


def _read_sql(file: Path | None) -> str:
    if file is None or str(file) == "-":
        return sys.stdin.read()
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TokenmartError(f"--file {file}: can't be read ({error})") from error


def _parameters(params: tuple[str, ...], recipe: Query | None) -> dict[str, Value]:
    from warehouse.queries import parse_value

    values = {p.name: p.default for p in recipe.parameters} if recipe else {}
    for param in params:
        key, equals, value = param.partition("=")
        if not equals or not key:
            raise click.UsageError(f"--param {param}: expected name=value")
        values[key] = parse_value(value)
    return values


@click.command()
@click.option("--problem", "problem_name", help="Also say what this problem still lacks.")
@click.option("--json", "as_json", is_flag=True, help="Findings as JSON.")
def doctor(problem_name: str | None, as_json: bool) -> None:
    """Check the environment; say what is missing and the remedy.

    Exits with 1 when something needed is missing.
    """
    from warehouse.doctor import examine, fail_when_missing

    checks = examine(find_workspace(), problem_name)
    if as_json:
        click.echo(json.dumps([asdict(check) for check in checks], indent=2, ensure_ascii=False))
    else:
        for check in checks:
            remedy = f"\n{'':9}→ {check.remedy}" if check.remedy else ""
            click.echo(f"{check.level:<7}  {check.name}: {check.finding}{remedy}")
    fail_when_missing(checks)


@click.command(
    name="dbt",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def dbt_command(arguments: tuple[str, ...]) -> None:
    """Run dbt in dbt_project/, with this checkout's data and database.

    \b
    tokenmart dbt build
    tokenmart dbt run --select perplexity
    """
    from warehouse import dbt_process
    from warehouse.store import ensure_tables
    from warehouse.variant_files import refuse_uneven_rows

    workspace = find_workspace()
    command = dbt_process.command()
    if command is None:
        raise TokenmartError("dbt: not installed in this environment; run `make setup`")
    refuse_uneven_rows(workspace)
    ensure_tables(workspace)
    workspace.database.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [*command, *arguments],
        cwd=workspace.dbt_project,
        env={**os.environ, **workspace.environment()},
        check=False,
    )
    sys.exit(done.returncode)


@click.group()
def warehouse() -> None:
    """Look after the Parquet files of the warehouse."""


@warehouse.command()
@click.option("--problem", "problem_name", help="Only this problem.")
def publish(problem_name: str | None) -> None:
    """Merge finished units into the published files; extract does it by itself."""
    from warehouse.problem import load_problem
    from warehouse.store import ensure_tables, publish_all

    workspace = find_workspace()
    name = load_problem(problem_name, workspace).name if problem_name else None
    ensure_tables(workspace)
    click.echo(f"published {publish_all(workspace, name)} units")


warehouse.add_command(check)
warehouse.add_command(gc)
