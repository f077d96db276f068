"""An idea: a number per model that no metric family computes, from SQL, a table file or Python.

`correlate` is the function of `import tokenmart as tm`:

tm.correlate({"gemma3-270m": 0.61, "smollm2-135m": 0.48, …}, "minilong", into="pandas")
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, overload

import pyarrow as pa
from pydantic import BaseModel, BeforeValidator, FiniteFloat

from analysis.ranking.loading import load_table, record_tested
from analysis.ranking.metric_table import Direction
from analysis.ranking.record import row_record
from analysis.ranking.results import rank_metrics
from analysis.ranking.signature import signature
from analysis.ranking.view import warn_outdated
from analysis.statistics.correlations import MINIMUM_POINTS, number
from warehouse.errors import TokenmartError, did_you_mean
from warehouse.metrics.tested_metrics import Kind, MetricRecord
from warehouse.options import problem_or_newest
from warehouse.paths import find_workspace
from warehouse.problem.spec import load_ranked
from warehouse.sql.dataframes import Kind as TableKind
from warehouse.sql.dataframes import converted, query
from warehouse.sql.session import named_parameters, refuse_repeated_columns
from warehouse.table_file import parse_row, read_rows

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb
    import pandas as pd
    import polars as pl

    from warehouse.problem.problem_files import Ranked

_MEASURES = (
    "spearman", "ci95_low", "ci95_high", "p_adjusted",
    "spearman_within_families", "p_adjusted_within_families",
)  # fmt: skip
SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("metric", "variant", "kind", "direction", "verdict")),
        ("admissible", pa.bool_()),
        ("n", pa.int64()),
        *((name, pa.float64()) for name in _MEASURES),
        *((name, pa.bool_()) for name in ("tracks_target", "baseline")),
        ("signature", pa.string()),
    ]
)


def _no_flag(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("a number is needed, not a truth value")
    return value


class IdeaRow(BaseModel, extra="forbid", str_strip_whitespace=True):
    """A value of an idea for one model; `variant` names one of several ideas."""

    model_id: str
    value: Annotated[FiniteFloat | None, BeforeValidator(_no_flag)] = None
    variant: Annotated[str, BeforeValidator(str)] = ""


def idea_from_sql(sql: str, problem: Ranked, name: str) -> list[MetricRecord]:
    """Query the warehouse, read-only, for model_id and value (and variant, for several ideas).

    Args:
        sql: one or more statements; `$problem` in them is the problem's name.
        problem: whose models the rows must name.
        name: of the idea, in tables and in the record of metrics tested.

    Raises:
        TokenmartError: a mistake in the SQL, its rows aren't one number per model, or the problem's
            target is in a table that SQL reads.
    """
    if problem.target is not None and problem.target.kind == "table":
        raise TokenmartError(
            f"--sql: the target of {problem.name} is computed from the table of its scores, which "
            "SQL reads; give numbers computed elsewhere with --values",
            code="target-in-table",
            where="--sql",
        )
    parameters = dict.fromkeys(named_parameters(sql) & {"problem"}, problem.name)
    result = query(sql, "arrow", **parameters)
    refuse_repeated_columns(result.column_names)
    return _ideas(_parsed(result.to_pylist(), "--sql"), "--sql", problem, name, "sql", sql.strip())


def idea_from_file(path: Path, problem: Ranked, name: str) -> list[MetricRecord]:
    """Read a CSV, JSON or Parquet file with the columns of `IdeaRow`.

    Models may be named by model_id or by their full id. See `idea_from_sql`.

    Raises:
        TokenmartError: it can't be read, or its rows aren't one number per model.
    """
    return _ideas(read_rows(path, IdeaRow), str(path), problem, name, "values")


def idea_from_values(values: Values, problem: Ranked, name: str) -> list[MetricRecord]:
    """Values in Python; NaN is a missing one, as pandas writes it.

    The same rows in a file are the same idea. See `idea_from_file`.

    Raises:
        TokenmartError: no table, other columns, or the rows aren't one number per model.
    """
    rows = _table(values).to_pylist()
    for row in rows:
        if isinstance(row.get("value"), float) and math.isnan(row["value"]):
            row["value"] = None
    return _ideas(_parsed(rows, "values"), "values", problem, name, "values")


Values: TypeAlias = Mapping[str, float | None] | Any
"""A number per model: a mapping, or a table of `pa.table` with the columns model_id and value."""


# fmt: off
@overload
def correlate(
    values: Values = None, target: str | None = None, *, name: str = "idea",
    better: Direction = "higher", seed: int = 0, into: Literal["arrow"] = "arrow",
) -> pa.Table: ...
@overload
def correlate(
    values: Values = None, target: str | None = None, *, name: str = "idea",
    better: Direction = "higher", seed: int = 0, into: Literal["pandas"],
) -> pd.DataFrame: ...
@overload
def correlate(
    values: Values = None, target: str | None = None, *, name: str = "idea",
    better: Direction = "higher", seed: int = 0, into: Literal["polars"],
) -> pl.DataFrame: ...
@overload
def correlate(
    values: Values = None, target: str | None = None, *, name: str = "idea",
    better: Direction = "higher", seed: int = 0, into: Literal["relation"],
) -> duckdb.DuckDBPyRelation: ...
# fmt: on
def correlate(
    values: Values = None,
    target: str | None = None,
    *,
    name: str = "idea",
    better: Direction = "higher",
    seed: int = 0,
    into: TableKind = "arrow",
) -> Any:
    """Correlate values of your own, and all metrics of a problem, with its target.

    The numbers are those of `tokenmart correlate`. As there, the values are recorded as tested:
    p-values and intervals of this problem count them from then on.

    Args:
        values: a mapping of model to number, or a table (pandas, polars, Arrow, DuckDB) with the
            columns model_id and value, and variant to give several metrics; models by model_id or
            full id. None for the metrics that `tokenmart dbt build` computed, alone.
        target: the problem whose target is used: its name, or the path of its problem file; None
            for the problem that was extracted last.
        name: of the metric given by `values`.
        better: which of `values` are better, `higher` or `lower`; lower ones are negated first.
        seed: of the random numbers behind intervals and p-values.
        into: `arrow`, `pandas`, `polars` or `relation`; see `query`.

    Returns:
        A row per metric variant: first those of `values` (kind `values`), then those of the build
        (kind `variant`), by decreasing Spearman correlation. `n` counts models. `ci95_low`,
        `ci95_high` and `p_adjusted` are simultaneous for all metrics tested. `verdict` is what is
        concluded (`tracks`, `not-distinguishable`, `too-few`, …); `tracks_target`: it is `tracks`,
        that is, the interval over all models or within families is above 0. `baseline`
        marks the row that others are compared with; `signature` names what a row was made from,
        to be quoted with its numbers. An undefined number is null.

    Raises:
        TokenmartError: no such problem or model, no target yet, a value that isn't a number, two
            values for one model, or an unknown `into` or `better`.
        StorageError: the database or the record of metrics tested can't be read or written.
    """
    if better not in ("higher", "lower"):
        raise TokenmartError(
            f"better {better!r}: use 'higher' or 'lower'", code="bad-direction", where="better"
        )
    workspace = find_workspace()
    problem = load_ranked(problem_or_newest(target, workspace), workspace)
    ideas = [] if values is None else idea_from_values(values, problem, name)
    columns = load_table(problem, workspace, ideas, better)
    warn_outdated(columns)
    board = rank_metrics(columns, seed)
    record_tested(columns, workspace)
    rows = [
        row_record(row)
        | {"ci95_low": number(row.interval.low), "ci95_high": number(row.interval.high)}
        | {"baseline": row is board.baseline, "signature": signature(columns, row.column)}
        for row in board.rows
    ]
    return converted(pa.Table.from_pylist(rows, SCHEMA), into)


def _table(values: Any) -> pa.Table:
    try:
        if isinstance(values, Mapping):
            return pa.table({"model_id": list(values), "value": list(values.values())})
        return pa.table(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise TokenmartError(
            f"values: no number for each model ({str(error).splitlines()[0]}); give a mapping of "
            "model to number, or a data frame with the columns model_id and value",
            code="not-a-table",
            where="values",
        ) from error


def _parsed(rows: Iterable[dict[str, Any]], option: str) -> list[IdeaRow]:
    return [parse_row(row, IdeaRow, f"{option}: row {n}") for n, row in enumerate(rows, start=1)]


def _ideas(
    rows: Iterable[IdeaRow], option: str, problem: Ranked, name: str, kind: Kind, sql: str = ""
) -> list[MetricRecord]:
    """One idea for each variant that the rows name; without SQL, a hash of the rows defines it."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise TokenmartError(
            f"name {name!r}: use lower-case letters, digits and _, starting with a letter",
            code="bad-name",
            where="name",
        )
    ids = {model.full_id: model.model_id for model in problem.ranked_models}
    ids |= {model_id: model_id for model_id in ids.values()}
    values_of: dict[str, dict[str, float]] = {}
    for place, row in enumerate(rows, start=1):
        where = f"{option}: row {place}"
        if row.model_id not in ids:
            raise TokenmartError(
                f"{where}: {row.model_id!r} is no model of {problem.name}; "
                f"{did_you_mean(row.model_id, ids)}in SQL, keep to `where problem = $problem`",
                code="unknown-model",
                where=where,
            )
        values = values_of.setdefault(row.variant, {})
        if ids[row.model_id] in values:
            raise TokenmartError(
                f"{where}: a second value for {row.model_id}; give one per model (group by "
                "model_id, where problem = $problem), or name them apart in a column variant",
                code="second-value",
                where=where,
            )
        values[ids[row.model_id]] = math.nan if row.value is None else _ten_digits(row.value)
    for variant, values in (values_of or {"": {}}).items():
        points = sum(not math.isnan(value) for value in values.values())
        if points < MINIMUM_POINTS:
            raise TokenmartError(
                f"{option}: values{f' of variant {variant}' if variant else ''} for {points} of "
                f"{len(problem.ranked_models)} models of {problem.name}; a correlation needs "
                f"{MINIMUM_POINTS} (nothing was recorded)",
                code="too-few-values",
                where=option,
            )
    content = str(
        sorted((variant, sorted(values.items())) for variant, values in values_of.items())
    )
    definition = sql or f"sha256 {hashlib.sha256(content.encode()).hexdigest()}"
    short = hashlib.sha256(definition.encode()).hexdigest()[:8]
    return [
        MetricRecord(name, variant or short, kind, definition, values)
        for variant, values in sorted(values_of.items())
    ]


def _ten_digits(value: float) -> float:
    """As metric_values keeps them, so that equal models tie; the largest numbers stay as given."""
    rounded = float(f"{value:.9e}")
    return rounded if math.isfinite(rounded) else value
