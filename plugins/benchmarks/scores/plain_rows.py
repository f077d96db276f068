"""Tables of scores and items that users bring: base of their rows, and checks across rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeVar

import duckdb
import pyarrow as pa
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from plugins.benchmarks.refusal import refused
from warehouse.errors import TokenmartError
from warehouse.table_file import load_rows, parse_row, quoted


class PlainRow(BaseModel):
    """One row; other columns than its fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)


Row = TypeVar("Row", bound=PlainRow)
Name = Annotated[str, Field(min_length=1)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
Architecture = Annotated[str | None, Field(validation_alias=AliasChoices("architecture", "arch"))]
"""The competition's tables call the column `arch`; a table has one of the two."""


def refused_row(path: Path, row: object, what: str, code: str) -> TokenmartError:
    """An error at a row of a table, or at several."""
    return refused(f"{path}: row {row}", what, code)


def rows_of(path: Path, kind: type[Row]) -> list[Row]:
    """The rows of a file (CSV, TSV, JSON lines or Parquet), in order; at least one.

    Raises:
        TokenmartError: the file can't be read or has no row, or a row is wrong.
    """
    with duckdb.connect() as connection:
        names = load_rows(connection, path, "given")
        types = {name: kind for name, kind, *_ in connection.execute("describe given").fetchall()}
        # a float32 of 0.1 is 0.1, as in a text file, and not 0.10000000149011612
        columns = [
            f"cast({quoted(name)} as varchar)" if types[name] == "FLOAT" else quoted(name)
            for name in names
        ]
        rows = connection.execute(
            f"select {', '.join(columns)} from given order by row_number"
        ).fetchall()
    if not rows:
        raise refused(path, "contains no row", "no-row")
    return [
        parse_row(dict(zip(names, values, strict=True)), kind, f"{path}: row {number}")
        for number, values in enumerate(rows, start=1)
    ]


def as_table(rows: list[Row], schema: pa.Schema) -> pa.Table:
    """Rows as a table with `row`, from 1, and the fields of a schema."""
    numbered = [{"row": number, **row.model_dump()} for number, row in enumerate(rows, start=1)]
    return pa.Table.from_pylist(numbered, schema.insert(0, pa.field("row", pa.int64())))


def refuse_repeated(
    connection: duckdb.DuckDBPyConnection, path: Path, table: str, keys: tuple[str, ...]
) -> None:
    """Stop at two rows of a table with equal keys.

    Raises:
        TokenmartError: there are some.
    """
    found = connection.execute(
        f"select min(row), max(row), {', '.join(keys)} from {table} group by {', '.join(keys)}"
        " having count(*) > 1 order by 1 limit 1"
    ).fetchone()
    if found:
        first, last, *values = found
        named = ", ".join(map(str, filter(None, values)))
        raise refused_row(path, last, f"{named} is in row {first} too", "repeated")


def refuse_two_orders(connection: duckdb.DuckDBPyConnection, path: Path, table: str) -> None:
    """Stop at checkpoints of a model that `tokens` and `step` put into different orders.

    Raises:
        TokenmartError: more steps have fewer tokens.
    """
    found = connection.execute(
        f"""
        select row_before, row
        from (
            select
                row,
                tokens,
                lag(row) over by_step as row_before,
                lag(tokens) over by_step as tokens_before
            from (select model, step, tokens, min(row) as row from {table} group by all)
            where step is not null and tokens is not null
            window by_step as (partition by model order by step, tokens)
        )
        where tokens < tokens_before
        order by row
        limit 1
        """
    ).fetchone()
    if found:
        raise refused_row(
            path, found[1], f"more steps and fewer tokens than row {found[0]}", "order"
        )
