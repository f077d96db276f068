"""Correlations of your own values with a target, in Python; `tokenmart` has the function, too.

import tokenmart as tm

tm.correlate({"gemma3-270m": 0.61, "smollm2-135m": 0.48, …}, "minilong", into="pandas")
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import pyarrow as pa

from analysis.ranking.ideas import idea_from_rows
from analysis.ranking.leaderboard import rank_metrics, row_record
from analysis.ranking.loading import load_table
from analysis.ranking.metric_table import Direction
from warehouse.errors import TokenmartError
from warehouse.metrics.tries import remember
from warehouse.paths import find_workspace
from warehouse.problem.spec import load_ranked
from warehouse.sql.dataframes import Kind, check_kind, converted


class ArrowTable(Protocol):
    """A table of pandas, polars, Arrow or DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows, in Arrow's C interface."""


SCHEMA = pa.schema(
    [
        ("metric", pa.string()),
        ("variant", pa.string()),
        ("kind", pa.string()),
        ("direction", pa.string()),
        ("admissible", pa.bool_()),
        ("n", pa.int64()),
        ("spearman", pa.float64()),
        ("ci95_low", pa.float64()),
        ("ci95_high", pa.float64()),
        ("p_adjusted", pa.float64()),
        ("p_single", pa.float64()),
        ("held_out", pa.float64()),
        ("spearman_within_families", pa.float64()),
        ("p_adjusted_within_families", pa.float64()),
        ("tracks_target", pa.bool_()),
        ("baseline", pa.bool_()),
    ]
)


def correlate(
    values: Mapping[str, float | None] | ArrowTable | None,
    target: str,
    *,
    name: str = "idea",
    better: Direction = "higher",
    seed: int = 0,
    into: Kind = "arrow",
) -> Any:
    """Correlate values of your own, and all metrics of a problem, with its target.

    The numbers are those of `tokenmart correlate`. As there, the values are recorded as tested:
    p-values and intervals of this problem count them from then on.

    Args:
        values: a mapping of model to number, or a table (pandas, polars, Arrow, DuckDB) with the
            columns model_id and value, and variant to give several metrics; models by model_id or
            full id. None for the metrics that `tokenmart dbt build` computed, alone.
        target: the problem whose target is used: its name, or the path of its problem file.
        name: of the metric given by `values`.
        better: which of `values` are better, `higher` or `lower`; lower ones are negated first.
        seed: of the random splits behind `held_out`.
        into: `arrow`, `pandas`, `polars` or `relation`; see `query`.

    Returns:
        A row per metric variant: first those of `values` (kind `values`), then those of the build
        (kind `variant`), by decreasing Spearman correlation. `n` counts models. `ci95_low`,
        `ci95_high` and `p_adjusted` are simultaneous for all metrics tested; `p_single` is not
        adjusted. `held_out` is the mean correlation over random splits of the models.
        `tracks_target`: the interval excludes 0 over all models or within families. `baseline`
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
    problem = load_ranked(target, workspace)
    ideas = []
    if values is not None:
        table = _table(values)
        ideas = idea_from_rows(table.to_pylist(), table.column_names, problem, name)
    columns = load_table(problem, workspace, ideas, better)
    remember(workspace, columns.problem, columns.present)
    board = rank_metrics(columns, seed, resamples=1, top=0)
    rows = []
    for row in board.rows:
        interval = row.interval.record
        bounds = {"ci95_low": interval["low"], "ci95_high": interval["high"]}
        rows.append(row_record(row) | bounds | {"baseline": row is board.baseline})
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
