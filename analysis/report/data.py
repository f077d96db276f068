"""Values of metrics and target for the report, read from the marts once."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from analysis.ranking.loading import parts_reader
from analysis.ranking.metric_table import MetricColumn, MetricTable
from analysis.ranking.results import Ranking, Row, detailed, rank_metrics
from analysis.report.overview import short_name
from analysis.statistics.correlations import Floats, spearman
from analysis.statistics.resampling import DEFAULT_SPLITS
from warehouse.sql.targets import connect_to_targets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from warehouse.paths import Workspace
    from warehouse.progress import Progress


DETAILED = 2
"""Variants of each metric that get intervals: most variants of one metric are near copies."""


@dataclass(frozen=True)
class DepthCell:
    """One model's mean target score at one length, answers in one eighth of the context.

    eighth: 0 (start) to 7 (end); score: the mean of the tasks'; items: behind it.
    """

    model: str
    length: int
    eighth: int
    score: float
    items: int


@dataclass(frozen=True)
class MetricCorrelations:
    """Spearman between metrics (each by its best variant) and with the target.

    names: row and column labels, the target last. matrix: `[names, names]`.
    """

    names: tuple[str, ...]
    matrix: Floats


@dataclass(frozen=True)
class ReportData:
    """One problem's metrics against its target."""

    table: MetricTable
    ranking: Ranking
    depths: tuple[DepthCell, ...]
    metric_correlations: MetricCorrelations

    @property
    def best(self) -> Row:
        """The candidate with the largest rho; the first row where there is no candidate."""
        return self.ranking.best or self.ranking.rows[0]


def detailed_rows(table: MetricTable) -> int:
    """Number of variants shown with bootstrap intervals."""
    variants = Counter(column.metric for column in table.columns)
    return sum(min(count, DETAILED) for count in variants.values())


def gather(
    table: MetricTable,
    workspace: Workspace,
    seed: int,
    resamples: int,
    progress: Progress,
) -> ReportData:
    """Read the other marts and compute what the report shows.

    `progress` is called for each of `detailed_rows`.
    """
    parts_of = parts_reader(workspace, table)
    ranking = rank_metrics(table, seed, resamples, splits=DEFAULT_SPLITS)
    of_metric: Counter[str] = Counter()
    shown = []
    for row in ranking.rows:
        of_metric[row.column.metric] += 1
        if of_metric[row.column.metric] <= DETAILED or row is ranking.baseline:
            shown.append(row.column)
    ranking = detailed(ranking, shown, parts_of, progress)
    return ReportData(
        table=table,
        ranking=ranking,
        depths=_depths(table, workspace),
        metric_correlations=_metric_correlations(table, ranking),
    )


def point_labels(names: Sequence[str]) -> dict[str, str]:
    """Name → label of its point: a variant of another model drops that model's name."""
    labels = {}
    for name in names:
        bases = [other for other in names if name != other and name.startswith(f"{other}-")]
        labels[name] = f"… {name[len(max(bases, key=len)) + 1 :]}" if bases else name
    return labels


def _depths(table: MetricTable, workspace: Workspace) -> tuple[DepthCell, ...]:
    """Cells of a measured target; none of another."""
    with connect_to_targets(workspace) as connection:
        rows = connection.execute(
            "select model_id, length, eighth, avg(score), sum(items) from downstream_depths"
            " where problem = ? and eighth is not null group by all order by all",
            [table.problem],
        ).fetchall()
    return tuple(
        DepthCell(short_name(model.full_id), length, eighth, score, int(items))
        for model in table.models
        for model_id, length, eighth, score, items in rows
        if model_id == model.model_id
    )


def _metric_correlations(table: MetricTable, ranking: Ranking) -> MetricCorrelations:
    """One variant per metric, the best; Spearman of each pair over the models both cover."""
    columns: dict[str, MetricColumn] = {}
    for row in ranking.rows:
        if not math.isnan(row.rho):
            columns.setdefault(row.column.metric, row.column)
    names = (*columns, "target")
    values = np.vstack([*(c.oriented for c in columns.values()), table.target])
    matrix = np.full((len(names), len(names)), np.nan)
    for i, one in enumerate(values):
        for j, other in enumerate(values):
            both = np.isfinite(one) & np.isfinite(other)
            matrix[i, j] = spearman(one[both], other[both])
    return MetricCorrelations(names, matrix)
