"""An idea: a number per model that no metric family computes, from SQL, a CSV file or Python.

`correlate` is the function of `import tokenmart as tm`:

tm.correlate({"gemma3-270m": 0.61, "smollm2-135m": 0.48, …}, "minilong", into="pandas")
"""

from __future__ import annotations

import csv
import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from analysis.ranking.loading import load_table, record_tested
from analysis.ranking.metric_table import Direction
from analysis.ranking.record import row_record
from analysis.ranking.results import rank_metrics
from analysis.statistics.correlations import MINIMUM_POINTS, number
from warehouse.errors import TokenmartError, did_you_mean
from warehouse.metrics.tries import Kind, Try
from warehouse.options import problem_or_newest
from warehouse.paths import find_workspace
from warehouse.problem.spec import load_ranked
from warehouse.sql.dataframes import Kind as TableKind
from warehouse.sql.dataframes import check_kind, converted, query
from warehouse.text_file import refuse_no_file

if TYPE_CHECKING:
    from pathlib import Path

    from warehouse.problem.problem_files import Ranked

_COLUMNS = ("model_id", "value", "variant")
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
    ]
)


class ArrowTable(Protocol):
    """A table of pandas, polars, Arrow or DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows, in Arrow's C interface."""


_Row = tuple[str, Mapping[str, Any]]
"""The place of a row, for messages, and its values by column."""


def idea_from_sql(sql: str, problem: Ranked, name: str) -> list[Try]:
    """Ask the warehouse, read-only, for the columns model_id and value (and variant, for several).

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
    parameters = {"problem": problem.name} if re.search(r"\$problem\b", sql) else {}
    found = query(sql, "arrow", None, **parameters)
    rows = [(f"--sql: row {n}", row) for n, row in enumerate(found.to_pylist(), start=1)]
    _check_columns("--sql", found.column_names)
    return _tries(rows, "--sql", problem, name, "sql", sql.strip())


def idea_from_file(path: Path, problem: Ranked, name: str) -> list[Try]:
    """Read a CSV file with the columns model_id and value (and variant, for several).

    Models may be named by model_id or by their full id. See `idea_from_sql`.

    Raises:
        TokenmartError: it can't be read, or its rows aren't one number per model.
    """
    option = f"--values {path}"
    refuse_no_file(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file)
            columns = next(lines, [])
            _check_columns(option, columns)
            rows = []
            for line in lines:
                where = f"{option}, line {lines.line_num}"
                if line and len(line) != len(columns):
                    raise TokenmartError(
                        f"{where}: {len(line)} fields for the columns {','.join(columns)}"
                    )
                if line:
                    content = dict(zip(columns, line, strict=True))
                    rows.append((where, {**content, "value": _number(where, content["value"])}))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TokenmartError(f"{option}: can't be read as CSV ({error})") from error
    return _of_values(rows, option, problem, name)


def idea_from_rows(
    rows: Sequence[Mapping[str, Any]], columns: list[str], problem: Ranked, name: str
) -> list[Try]:
    """Rows of a Python table with the columns model_id and value (and variant, for several).

    NaN is a missing value, as pandas writes one. See `idea_from_file`: the same rows in a CSV file
    are the same idea.

    Raises:
        TokenmartError: other columns, or the rows aren't one number per model.
    """
    _check_columns("values", columns)
    read = []
    for n, row in enumerate(rows, start=1):
        where, value = f"values, row {n}", row["value"]
        if value is not None and (isinstance(value, bool) or not hasattr(value, "__float__")):
            raise TokenmartError(f"{where}: value is {value!r}; it must be a number")
        number_read = None if value is None or math.isnan(value) else float(value)
        read.append((where, {**row, "value": number_read}))
    return _of_values(read, "values", problem, name)


def correlate(
    values: Mapping[str, float | None] | ArrowTable | None = None,
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
        marks the row that others are compared with. An undefined number is null.

    Raises:
        TokenmartError: no such problem or model, no target yet, a value that isn't a number, two
            values for one model, or an unknown `into` or `better`.
        StorageError: the database or the record of metrics tested can't be read or written.
    """
    check_kind(into)
    if better not in ("higher", "lower"):
        raise TokenmartError(f"better {better!r}: use 'higher' or 'lower'")
    workspace = find_workspace()
    problem = load_ranked(problem_or_newest(target, workspace), workspace)
    ideas = []
    if values is not None:
        table = _table(values)
        ideas = idea_from_rows(table.to_pylist(), table.column_names, problem, name)
    columns = load_table(problem, workspace, ideas, better)
    board = rank_metrics(columns, seed)
    record_tested(columns, workspace)
    rows = [
        row_record(row)
        | {"ci95_low": number(row.interval.low), "ci95_high": number(row.interval.high)}
        | {"baseline": row is board.baseline}
        for row in board.rows
    ]
    return converted(pa.Table.from_pylist(rows, SCHEMA), into)


def _table(values: Mapping[str, float | None] | ArrowTable) -> pa.Table:
    if isinstance(values, Mapping):
        try:
            return pa.table({"model_id": list(values), "value": list(values.values())})
        except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
            raise TokenmartError(
                f"values: not a number for each model ({str(error).splitlines()[0]}); give a "
                "mapping of names to numbers"
            ) from error
    if not hasattr(values, "__arrow_c_stream__"):
        raise TokenmartError(
            f"values: {type(values).__name__} is no table; give a mapping of model to number, or a "
            "data frame with the columns model_id and value"
        )
    return pa.table(values)


def _of_values(rows: Sequence[_Row], option: str, problem: Ranked, name: str) -> list[Try]:
    """Ideas from numbers that were computed elsewhere; their definition is a hash of the rows."""
    numbers = sorted(str(sorted(content.items())) for _, content in rows)
    digest = hashlib.sha256("\n".join(numbers).encode()).hexdigest()
    return _tries(rows, option, problem, name, "values", f"sha256 {digest}")


def _check_columns(option: str, columns: list[str]) -> None:
    if not set(_COLUMNS[:2]) <= set(columns) <= set(_COLUMNS):
        raise TokenmartError(
            f"{option}: the columns are {', '.join(columns) or 'none'}; give model_id and value, "
            "and variant to name several ideas"
        )


def _number(where: str, text: str) -> float | None:
    """The number in a field; an empty field is a missing value."""
    try:
        return float(text) if text.strip() else None
    except ValueError as error:
        raise TokenmartError(
            f"{where}: value is {text!r}; write a finite number, or nothing"
        ) from error


def _tries(
    rows: Sequence[_Row],
    option: str,
    problem: Ranked,
    name: str,
    kind: Kind,
    definition: str,
) -> list[Try]:
    """One try for each variant that the rows name."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise TokenmartError(
            f"name {name!r}: use lower-case letters, digits and _, starting with a letter"
        )
    ids = {model.full_id: model.model_id for model in problem.ranked_models}
    ids |= {model_id: model_id for model_id in ids.values()}
    short = hashlib.sha256(definition.encode()).hexdigest()[:8]
    found: dict[str, dict[str, float]] = {}
    for where, content in rows:
        variant = str(content.get("variant") or short)
        named = content["model_id"]
        if named not in ids:
            raise TokenmartError(
                f"{where}: {named!r} is no model of {problem.name}; "
                f"{did_you_mean(str(named), ids)}in SQL, keep to `where problem = $problem`"
            )
        values = found.setdefault(variant, {})
        if ids[named] in values:
            raise TokenmartError(
                f"{where}: a second value for {named}; give one per model (group by model_id, "
                "where problem = $problem), or name them apart in a column variant"
            )
        values[ids[named]] = _value(where, content["value"])
    for variant, values in found.items():
        there = sum(not math.isnan(value) for value in values.values())
        if there < MINIMUM_POINTS:
            named = f" of variant {variant}" if len(found) > 1 else ""
            raise TokenmartError(
                f"{option}: values{named} for {there} of {len(problem.ranked_models)} models of "
                f"{problem.name}; a correlation needs {MINIMUM_POINTS} (nothing was recorded)"
            )
    return [
        Try(name, variant, kind, definition, values) for variant, values in sorted(found.items())
    ]


def _value(where: str, value: Any) -> float:
    """Ten digits, as metric_values keeps them, so that equal models tie; NaN where missing."""
    if value is None:
        return math.nan
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise TokenmartError(f"{where}: value is {value!r}; it must be a number")
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        remedy = "case when isfinite(…) then … end" if where.startswith("--sql") else "nothing"
        raise TokenmartError(
            f"{where}: value is {found}, expected a finite number; write one, or {remedy} where "
            "a model has none"
        )
    rounded = float(f"{found:.9e}")
    return rounded if math.isfinite(rounded) else found
