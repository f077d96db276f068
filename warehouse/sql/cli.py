"""`tokenmart sql`: the ad-hoc SQL door."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from warehouse.errors import TokenmartError
from warehouse.paths import find_workspace

if TYPE_CHECKING:
    from warehouse.sql.execution import Format
    from warehouse.sql.queries import Query, Value


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
    tokenmart sql "select model_id, avg(logprob) from tokens where condition = 'full' group by all"
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
        from warehouse.sql.shell import run_shell

        run_shell(find_workspace(), limit)
        return
    from warehouse.sql.queries import find_query

    recipe = find_query(name) if name else None
    text = recipe.sql if recipe else query if query is not None else _read_sql(file)
    values = _parameters(params, recipe)
    if show:
        click.echo(text.rstrip())
        return
    from warehouse.sql.execution import format_of, write_rows
    from warehouse.sql.session import Session

    format_ = format_ or format_of(out)
    with Session(find_workspace()) as session, session.ask(text, values) as result:
        left_out = write_rows(result, format_, out, limit)
    if left_out:
        click.echo(f"only {limit} rows shown; --limit 0 shows all, --out saves all", err=True)


def _list_queries() -> None:
    from warehouse.sql.queries import list_queries

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
    from warehouse.sql.queries import parse_value

    values = {p.name: p.default for p in recipe.parameters} if recipe else {}
    for param in params:
        key, equals, value = param.partition("=")
        if not equals or not key:
            raise click.UsageError(f"--param {param}: expected name=value")
        values[key] = parse_value(value)
    return values
