"""Rows of the warehouse in Python, in one line; `tokenmart` has these functions by the same names.

import tokenmart as tm

tm.query("select model_id, ppl(logprob) from tokens where condition = $c group by all", c="full")
tm.cookbook("top_gain_tokens", "pandas", model="gemma3-270m")
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

import duckdb
import pyarrow as pa

from warehouse.errors import TokenmartError
from warehouse.paths import find_workspace
from warehouse.sql.queries import Query, find_query, parameters_of
from warehouse.sql.session import Session, Value

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

Kind = Literal["arrow", "pandas", "polars", "relation"]


@overload
def query(sql: str, /, into: Literal["arrow"] = "arrow", **parameters: Value) -> pa.Table: ...
@overload
def query(sql: str, /, into: Literal["pandas"], **parameters: Value) -> pd.DataFrame: ...
@overload
def query(sql: str, /, into: Literal["polars"], **parameters: Value) -> pl.DataFrame: ...
@overload
def query(
    sql: str, /, into: Literal["relation"], **parameters: Value
) -> duckdb.DuckDBPyRelation: ...
def query(sql: str, /, into: Kind = "arrow", **parameters: Value) -> Any:
    """Run SQL on the warehouse of this checkout, read-only, and return the rows.

    Args:
        sql: statements over `tokens`, `documents`, `models` and `units`, and the tables built by
            dbt (no target scores); the rows are those of the last statement.
        into: `arrow` (a table), `pandas`, `polars` (data frames, if installed) or `relation`
            (for more SQL: `query(…, "relation").filter("nll > 5")`).
        **parameters: values of `$name` in the SQL.

    Returns:
        All rows, in memory. The database is closed again, so dbt can write.

    Raises:
        TokenmartError: a mistake in the SQL, a statement that would write, an unknown `into`.
        StorageError: a file is damaged, or another program writes a table that was asked for.
    """
    return _rows(sql, into, parameters)


@overload
def cookbook(name: str, /, into: Literal["arrow"] = "arrow", **parameters: Value) -> pa.Table: ...
@overload
def cookbook(name: str, /, into: Literal["pandas"], **parameters: Value) -> pd.DataFrame: ...
@overload
def cookbook(name: str, /, into: Literal["polars"], **parameters: Value) -> pl.DataFrame: ...
@overload
def cookbook(
    name: str, /, into: Literal["relation"], **parameters: Value
) -> duckdb.DuckDBPyRelation: ...
def cookbook(name: str, /, into: Kind = "arrow", **parameters: Value) -> Any:
    """Run a query of the cookbook; `parameters` replace its defaults and choices. See `query`.

    Raises:
        TokenmartError: no such query, or a parameter it doesn't have.
    """
    return _rows(find_query(name), into, parameters)


def _rows(query: str | Query, into: Kind, values: Mapping[str, Value]) -> Any:
    with Session(find_workspace()) as session:
        if isinstance(query, Query):
            values, note = parameters_of(query, values, session)
            if note:
                warnings.warn(note, stacklevel=3)
            query = query.sql
        with session.stream(query, values) as rows:
            if rows is None:
                raise TokenmartError(
                    "query: the last statement returns no rows; end with a select",
                    code="sql-no-rows",
                )
            table = _plain_integers(pa.Table.from_batches(rows.batches, rows.schema))
    return converted(table, into)


def converted(table: pa.Table, into: Kind) -> Any:
    """An Arrow table as the given kind; see `query`.

    Raises:
        TokenmartError: an unknown kind.
    """
    if into == "pandas":
        return table.to_pandas()
    if into == "polars":
        return importlib.import_module("polars").from_arrow(table)
    if into == "relation":
        return duckdb.from_arrow(table)
    if into != "arrow":
        raise TokenmartError(
            f"into {into!r}: use {', '.join(get_args(Kind))}", code="unknown-kind", where="into"
        )
    return table


def _plain_integers(table: pa.Table) -> pa.Table:
    """Sums of integers as int64 where they fit: DuckDB's 128 bits arrive as decimals."""
    for place, field in enumerate(table.schema):
        if field.type == pa.decimal128(38, 0):
            with suppress(pa.ArrowInvalid):
                table = table.set_column(place, field.name, table[place].cast(pa.int64()))
    return table
