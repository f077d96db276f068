"""`tokenmart sql`: rows of a query as a table, CSV, JSON or Parquet."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Iterator
from decimal import Decimal
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import click

from warehouse.errors import TokenmartError, first_line, visible
from warehouse.files import replacing
from warehouse.options import FILE, FORCE, JSON
from warehouse.paths import find_workspace
from warehouse.terminal import Column, print_columns, terminal_console

if TYPE_CHECKING:
    import pyarrow as pa

    from warehouse.sql.session import Rows, Value

Format = Literal["table", "csv", "json", "parquet"]
LONGEST_TEXT = 60
"""Characters of a text in a table, unless all are asked for."""
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
    help="Format of standard output; default: table.",
)
@JSON
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
    format_: Format | None,
    as_json: bool,
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
    from warehouse.sql.queries import find_query, parameters_of
    from warehouse.sql.session import Session

    if list_:
        _print_cookbook()
        return
    if query and name:
        raise click.UsageError("give a query or --name")
    if as_json and format_ not in (None, "json"):
        raise click.UsageError(f"give --json or --format {format_}")
    printed = "json" if as_json else format_ or "table"
    if targets and (out or printed != "table"):
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
                _write_rows(rows, _SUFFIXES[out.suffix], out)
                click.echo(f"written: {out}", err=True)
            elif printed == "table":
                _print_rows(rows, limit, wide)
            else:
                _write_rows(rows, printed, None)


def _print_cookbook() -> None:
    """Print the title and the parameters of each query in the cookbook."""
    from warehouse.sql.queries import list_queries

    for query in list_queries():
        click.echo(visible(f"{query.name}: {query.title}"))
        for parameter in query.parameters:
            default = "…" if parameter.default is None else parameter.default
            click.echo(visible(f"    --param {parameter.name}={default}  {parameter.meaning}"))


def _parameters(params: tuple[str, ...]) -> dict[str, Value]:
    from warehouse.sql.queries import parse_value

    values: dict[str, Value] = {}
    for param in params:
        key, equals, value = param.partition("=")
        if not equals or not key:
            raise click.UsageError(f"--param {param}: expected name=value")
        values[key] = parse_value(key, value)
    return values


def _print_rows(rows: Rows, limit: int, wide: bool) -> None:
    """Print rows as a table, at most `limit` of them (0 = all).

    Args:
        wide: whether texts are complete.
    """
    shown = list(islice(_tuples(rows), limit + 1 if limit else None))
    if rows.schema.names == ["explain_key", "explain_value"]:
        print(*(visible(text) for _, text in shown), sep="\n")
        return
    _print_table(rows.schema.names, shown[:limit] if limit else shown, wide)
    if limit and len(shown) > limit:
        print(f"only {limit} rows shown; --limit 0 shows all, --out saves all", file=sys.stderr)


def _print_table(names: list[str], rows: list[tuple[Any, ...]], wide: bool = False) -> None:
    """Print rows; numbers are aligned right, those with a fraction at six digits."""
    columns = []
    for place, name in enumerate(names):
        values = [row[place] for row in rows]
        cells = [_cell(value, None if wide else LONGEST_TEXT) for value in values]
        is_text = any(not isinstance(value, int | float | Decimal | None) for value in values)
        columns.append(Column(visible(name), cells, text=is_text))
    print_columns(terminal_console(), columns, wide=wide)
    if not rows:
        print("(no rows)")


def _tuples(rows: Rows) -> Iterator[tuple[Any, ...]]:
    for batch in rows.batches:
        yield from zip(*map(_values, batch.columns), strict=True)


def _values(column: pa.Array) -> list[Any]:
    """A column in Python; maps are objects, those with lists or structs as keys lists of pairs."""
    try:
        return list(column.to_pylist(maps_as_pydicts="lossy"))
    except TypeError:
        return list(column.to_pylist())


def _cell(value: Any, most: int | None) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return str(int(value))
    if isinstance(value, float | Decimal):
        return f"{float(value):.6g}"
    text = visible(str(value)).replace("\n", "\\n").replace("\t", "\\t")
    return text if most is None or len(text) <= most else text[: most - 1] + "…"


def _write_rows(rows: Rows, format_: Format, out: Path | None) -> None:
    """Write all rows to a file that appears when it is complete.

    Args:
        out: None for standard output.

    Raises:
        StorageError: the file can't be written.
    """
    write = {"csv": _csv, "json": _json, "parquet": _parquet}[format_]
    if out is None:
        write(rows, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    with replacing(out) as draft, draft.open("wb") as stream:
        write(rows, stream)


def _parquet(rows: Rows, stream: BinaryIO) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from warehouse.store.parquet_files import with_statistics

    statistics = with_statistics(rows.schema)
    try:
        with pq.ParquetWriter(
            stream, rows.schema, compression="zstd", write_statistics=statistics
        ) as sink:
            for batch in rows.batches:
                sink.write_batch(batch)
    except pa.ArrowNotImplementedError as error:  # an interval
        raise TokenmartError(
            f"sql: Parquet has no such type ({first_line(error)}); cast the column, as in "
            "`x::varchar`, or write .csv",
            code="sql-type",
        ) from error


def _csv(rows: Rows, stream: BinaryIO) -> None:
    text = TextIOWrapper(stream, encoding="utf-8", newline="")
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(rows.schema.names)
    for row in _tuples(rows):
        lines.writerow(str(x).lower() if isinstance(x, bool) else x for x in row)
    text.flush()
    text.detach()


def _json(rows: Rows, stream: BinaryIO) -> None:
    """A list of objects; NaN and infinities, which JSON doesn't have, are null.

    Raises:
        TokenmartError: two columns have one name (`sql-column-twice`).
    """
    from warehouse.sql.session import refuse_repeated_columns

    names = rows.schema.names
    refuse_repeated_columns(names)
    before = "["
    for row in _tuples(rows):
        named = _finite(dict(zip(names, row, strict=True)))
        text = json.dumps(named, ensure_ascii=False, default=str)
        stream.write(f"{before}\n{text}".encode())
        before = ","
    stream.write(b"\n]\n" if before == "," else b"[]\n")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
