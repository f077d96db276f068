"""`tokenmart sql`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from warehouse.errors import visible
from warehouse.options import FILE, FORCE
from warehouse.paths import find_workspace

if TYPE_CHECKING:
    from warehouse.sql.output import Format
    from warehouse.sql.session import Value

_SUFFIXES: dict[str, Format] = {".csv": "csv", ".json": "json", ".parquet": "parquet"}


@click.command()
@click.argument("query", required=False)
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
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    help="Format of standard output.",
)
@click.option("--out", type=FILE, help="Write the rows to this .csv, .json or .parquet file.")
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
@click.option("--wide", is_flag=True, help="Show complete texts.")
def sql(
    query: str | None,
    list_: bool,
    name: str | None,
    show: bool,
    params: tuple[str, ...],
    format_: Format,
    out: Path | None,
    force: bool,
    limit: int,
    targets: bool,
    wide: bool,
) -> None:
    """Query token statistics and metrics, read-only.

    Views over the Parquet files: tokens, documents, models, units (the ledger). `tokenmart dbt
    build` adds its tables: metric_values, metric_catalog, coverage, … Without a query, SQL is read
    from standard input. $TOKENMART_MEMORY limits the memory (5GiB).

    \b
    tokenmart sql "select model_id, avg(logprob) from tokens where condition = 'full' group by all"
    tokenmart sql --list
    tokenmart sql --name perplexity --param problem=minilong
    tokenmart sql "from metric_values" --out all_values.parquet
    """
    from warehouse.files import refuse_protected
    from warehouse.sql.output import print_rows, write_rows
    from warehouse.sql.queries import find_query, list_queries, parameters_of
    from warehouse.sql.session import Session

    if list_:
        for recipe in list_queries():
            click.echo(visible(f"{recipe.name}: {recipe.title}"))
            for parameter in recipe.parameters:
                default = "…" if parameter.default is None else parameter.default
                click.echo(visible(f"    --param {parameter.name}={default}  {parameter.meaning}"))
        return
    if query and name:
        raise click.UsageError("give a query or --name")
    if targets and (out or format_ != "table"):
        raise click.UsageError("--targets prints a table only")
    if out is not None and out.suffix not in _SUFFIXES:
        raise click.UsageError(f"--out {out}: end it in {', '.join(_SUFFIXES)}")
    if not (query or name) and (sys.stdin is None or sys.stdin.isatty()):
        raise click.UsageError("give a query, --name or --list")
    saved = find_query(name) if name else None
    text = saved.sql if saved else query or sys.stdin.read()
    if show:
        click.echo(text.rstrip())
        return
    values = _parameters(params)
    workspace = find_workspace()
    if out is not None:
        refuse_protected(out, workspace, force=force)
    with Session(workspace, targets=targets) as session:
        if saved:
            values, note = parameters_of(saved, values, session)
            click.echo(visible(note), err=True, nl=bool(note))
        with session.stream(text, values) as rows:
            if rows is None:
                click.echo("the last statement has no rows", err=True)
            elif out is not None:
                write_rows(rows, _SUFFIXES[out.suffix], out)
                click.echo(f"written: {out}", err=True)
            elif format_ == "table":
                print_rows(rows, limit, wide)
            else:
                write_rows(rows, format_, None)


def _parameters(params: tuple[str, ...]) -> dict[str, Value]:
    from warehouse.sql.queries import parse_value

    values: dict[str, Value] = {}
    for param in params:
        key, equals, value = param.partition("=")
        if not equals or not key:
            raise click.UsageError(f"--param {param}: expected name=value")
        values[key] = parse_value(key, value)
    return values
