"""Rows of the warehouse in Python, in one line; `tokenmart` has these functions by the same names.

import tokenmart as tm

tm.tokens("minilong", "gemma3-270m", into="pandas")
tm.metric_values("minilong", into="polars")
tm.query("select model_id, ppl(logprob) from tokens where condition = $c group by all", c="full")
tm.cookbook("top_gain_tokens", "pandas", model="gemma3-270m")
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal, get_args

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from warehouse.errors import TokenmartError
from warehouse.paths import find_workspace
from warehouse.sql.queries import (
    Query,
    check_problem,
    check_values,
    find_query,
    parameters_of,
)
from warehouse.sql.session import Limits, Session, Value

Kind = Literal["arrow", "pandas", "polars", "relation"]


def query(
    sql: str, /, into: Kind = "arrow", limits: Limits | None = None, **parameters: Value
) -> Any:
    """Run SQL on the warehouse of this checkout, read-only, and return the rows.

    Args:
        sql: statements over `tokens`, `documents`, `models` and `units`, and the tables built by
            dbt (no target scores); the rows are those of the last statement.
        into: `arrow` (a table), `pandas`, `polars` (data frames, if installed) or `relation`
            (for more SQL: `query(…, "relation").filter("nll > 5")`).
        limits: time and memory of the query; see `Limits`.
        **parameters: values of `$name` in the SQL; `$into` and `$limits` can't be given.

    Returns:
        All rows, in memory. The database is closed again, so dbt can write.

    Raises:
        TokenmartError: a mistake in the SQL, a statement that would write, an unknown `into`
            or `problem`.
        OverTimeError: it took longer than it may.
        StorageError: a file is damaged, or another program writes a table that was asked for.
    """
    check_problem(parameters, find_workspace())
    return _rows(sql, into, parameters, limits)


def cookbook(
    name: str, /, into: Kind = "arrow", limits: Limits | None = None, **parameters: Value
) -> Any:
    """Run a query of the cookbook; `parameters` replace its defaults and choices. See `query`.

    Raises:
        TokenmartError: no such query or problem, or a parameter it doesn't have.
    """
    return _rows(find_query(name), into, parameters, limits)


def tokens(
    problem: str,
    model: str | None = None,
    *,
    condition: str | None = "full",
    into: Kind = "arrow",
    limits: Limits | None = None,
) -> Any:
    """Statistics of every token of a problem, in text order.

    Args:
        problem: its name.
        model: its id; None for all models.
        condition: the context condition, such as `full` or `window_512`; None for all conditions.
        into: see `query`.
        limits: see `query`.

    Returns:
        The columns of the view `tokens`: a row per model, condition, document and position, with
        log-probability, nll and entropy in nats.

    Raises:
        TokenmartError: no such problem, model or condition.
        OverTimeError, StorageError: see `query`.
    """
    given = {"problem": problem, "model": model, "condition": condition}
    sql = """
        from tokens
        where problem = $problem
            and ($model is null or model_id = $model)
            and ($condition is null or condition = $condition)
        order by model_id, condition, doc_id, position
    """
    return _checked_rows(sql, into, given, limits)


def metric_values(
    problem: str,
    metric: str | None = None,
    variant: str | None = None,
    *,
    into: Kind = "arrow",
    limits: Limits | None = None,
) -> Any:
    """Values of the metrics, as `tokenmart dbt build` computed them.

    Args:
        problem: its name.
        metric: a family such as `perplexity`; None for all.
        variant: one of the family's; None for all.
        into: see `query`.
        limits: see `query`.

    Returns:
        A row per metric, variant and model: `value`, in the unit that `metric_catalog` names, and
        the numbers of tokens and documents it is made from.

    Raises:
        TokenmartError: no such problem or metric, or nothing was built yet.
        OverTimeError, StorageError: see `query`.
    """
    given = {"problem": problem, "metric": metric, "variant": variant}
    sql = """
        from metric_values
        where problem = $problem
            and ($metric is null or metric = $metric)
            and ($variant is null or variant = $variant)
        order by metric, variant, model_id
    """
    return _checked_rows(sql, into, given, limits)


def _checked_rows(sql: str, into: Kind, given: Mapping[str, Value], limits: Limits | None) -> Any:
    check_problem(given, find_workspace())
    check_values(given, find_workspace())
    return _rows(sql, into, given, limits)


def _rows(
    query: str | Query, into: Kind, values: Mapping[str, Value], limits: Limits | None
) -> Any:
    check_kind(into)
    with Session(find_workspace(), limits) as session:
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


def check_kind(into: Kind) -> None:
    """Check that rows can be returned as this kind, before they are computed.

    Raises:
        TokenmartError: an unknown kind.
        ImportError: its package isn't installed.
    """
    if into not in get_args(Kind):
        raise TokenmartError(
            f"into {into!r}: unknown; use {', '.join(get_args(Kind))}",
            code="unknown-kind",
            where="into",
        )
    if into in ("pandas", "polars"):
        importlib.import_module(into)


def converted(table: pa.Table, into: Kind) -> Any:
    """An Arrow table as the given kind; see `query`."""
    if into == "pandas":
        return _pandas(table)
    if into == "polars":
        return importlib.import_module("polars").from_arrow(table)
    return table if into == "arrow" else duckdb.from_arrow(table)


def _pandas(table: pa.Table) -> Any:
    """A data frame; whole numbers beyond 2⁵³ in a column with nulls are nullable, not rounded."""
    frame = table.to_pandas()
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_integer(column.type) and column.null_count:
            ends = pc.min_max(column).as_py().values()
            if any(abs(end or 0) > 2**53 for end in ends):
                kind = "UInt64" if pa.types.is_unsigned_integer(column.type) else "Int64"
                dtype = importlib.import_module("pandas").api.types.pandas_dtype(kind)
                frame[name] = column.to_pandas(types_mapper={column.type: dtype}.get)
    return frame


def _plain_integers(table: pa.Table) -> pa.Table:
    """Sums of integers as int64 where they fit: DuckDB's 128 bits arrive as decimals."""
    for place, field in enumerate(table.schema):
        if field.type == pa.decimal128(38, 0):
            with suppress(pa.ArrowInvalid):
                table = table.set_column(place, field.name, table[place].cast(pa.int64()))
    return table
