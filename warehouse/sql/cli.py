"""`tokenmart sql`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from warehouse.errors import visible
from warehouse.files import read_text
from warehouse.options import FILE, FORCE
from warehouse.paths import find_workspace

if TYPE_CHECKING:
    from warehouse.sql.output import Format
    from warehouse.sql.session import Value


@click.command()
@click.argument("query", required=False)
@click.option(
    "--file", type=FILE, help="Read the SQL from this file, or from standard input with -."
)
@click.option("--list", "list_", is_flag=True, help="List the ready-made queries of the cookbook.")
@click.option("--name", help="Run this query of the cookbook.")
@click.option("--show", is_flag=True, help="Print the SQL instead of running it.")
@click.option(
    "--param",
    "params",
    multiple=True,
    metavar="K=V",
    help="Value V of the parameter $K in the SQL; repeatable.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["table", "csv", "json", "parquet", "arrow"]),
    help="Output format. Default: by the suffix of --out, else a table.",
)
@click.option("--out", type=FILE, help="Write the rows to this file.")
@FORCE
@click.option(
    "--limit",
    default=100,
    show_default=True,
    type=click.IntRange(0),
    help="Maximum number of rows in a table; 0 for all.",
)
@click.option(
    "--targets",
    is_flag=True,
    help="Also have the target scores (views downstream, downstream_scores, downstream_depths); "
    "rows are only printed as a table.",
)
@click.option(
    "--wide", is_flag=True, help="Show all columns and complete texts, wider than the terminal."
)
@click.option(
    "--timeout",
    default=600.0,
    show_default=True,
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="Time limit of a query; 0 for none.",
)
@click.option(
    "--memory",
    default="5GiB",
    show_default=True,
    help="Memory limit of a query; more rows are spilled to disk.",
)
def sql(
    query: str | None,
    file: Path | None,
    list_: bool,
    name: str | None,
    show: bool,
    params: tuple[str, ...],
    format_: Format | None,
    out: Path | None,
    force: bool,
    limit: int,
    targets: bool,
    wide: bool,
    timeout: float,
    memory: str,
) -> None:
    """Query token statistics and metrics, read-only. Without a query, start a shell.

    Views over the Parquet files: tokens, documents, models, units (the ledger). `tokenmart dbt
    build` adds its tables: metric_values, metric_catalog, coverage, … Statements are also read from
    standard input.

    \b
    tokenmart sql
    tokenmart sql "select model_id, avg(logprob) from tokens where condition = 'full' group by all"
    tokenmart sql --list
    tokenmart sql --name perplexity --param problem=minilong
    tokenmart sql --file question.sql --out answer.parquet
    """
    from warehouse.files import refuse_protected
    from warehouse.sql.output import format_of, print_rows, write_rows
    from warehouse.sql.queries import check_problem, find_query, list_queries, parameters_of
    from warehouse.sql.session import Limits, Session
    from warehouse.sql.shell import run_shell

    if list_:
        for recipe in list_queries():
            click.echo(visible(f"{recipe.name}: {recipe.title}"))
            for parameter in recipe.parameters:
                default = "…" if parameter.default is None else parameter.default
                click.echo(visible(f"    --param {parameter.name}={default}  {parameter.meaning}"))
        return
    if sum(value is not None for value in (query, file, name)) > 1:
        raise click.UsageError("give one of: a query, --file, --name, --list")
    if targets and (out or format_ not in (None, "table")):
        raise click.UsageError("--targets prints a table only")
    workspace = find_workspace()
    limits = Limits(timeout, memory)
    if (query, file, name) == (None, None, None):
        if show or params or format_ or out:
            raise click.UsageError("--show, --param, --format and --out go with a query")
        # Don't wait for a writer: queries that need no marts are answered immediately.
        with Session(workspace, limits, 0.0, targets=targets) as session:
            run_shell(session, limit, wide)
        return
    saved = find_query(name) if name else None
    text = saved.sql if saved else _read_sql(file) if file else query or ""
    if show:
        click.echo(text.rstrip())
        return
    values = _parameters(params)
    check_problem(values, workspace)
    format_ = format_ or (format_of(out) if out else "table")
    if format_ == ("table" if out else "parquet") or (out is None and format_ == "arrow"):
        raise click.UsageError(f"--format {format_} goes {'without' if out else 'with'} --out FILE")
    if out is not None:
        refuse_protected(out, workspace, force=force)
    with Session(workspace, limits, targets=targets) as session:
        if saved:
            values, note = parameters_of(saved, values, session)
            click.echo(visible(note), err=True, nl=bool(note))
        if format_ == "table":
            print_rows(session, text, values, limit, wide)
        elif write_rows(session, text, values, format_, out):
            click.echo(f"written: {out}" if out else "", err=True, nl=out is not None)
        else:
            click.echo("nothing written: the last statement has no rows", err=True)


def _read_sql(file: Path) -> str:
    if str(file) == "-":
        return sys.stdin.read()
    return read_text(file)


def _parameters(params: tuple[str, ...]) -> dict[str, Value]:
    from warehouse.sql.queries import parse_value

    values: dict[str, Value] = {}
    for param in params:
        key, equals, value = param.partition("=")
        if not equals or not key:
            raise click.UsageError(f"--param {param}: expected name=value")
        values[key] = parse_value(key, value)
    return values
