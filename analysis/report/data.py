"""Everything the report shows, gathered from the marts once, as plain values."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from analysis.ranking.documents import parts_reader
from analysis.ranking.leaderboard import Leaderboard, LeaderboardRow, rank_metrics
from analysis.ranking.metric_selection import (
    BASELINE_METRIC,
    MINIMUM_MODELS,
    Candidate,
    MetricSelection,
    select_metric,
)
from analysis.ranking.metric_table import MetricColumn, MetricTable
from analysis.statistics.correlations import Floats, spearman
from warehouse.sql.connection import connect_read_only
from warehouse.store.provenance import code_revision, versions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from warehouse.paths import Workspace
    from warehouse.problem.kinds import Ranked
    from warehouse.progress import Progress


DETAILED = 2
"""Variants of each metric that get intervals: most variants of one metric are near copies."""


@dataclass(frozen=True)
class ProfileBand:
    """One model's means in one band of positions; `gain` is None without a window condition."""

    model: str
    family: str
    position: float
    nll: float
    gain: float | None
    tokens: int


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
class Cost:
    """What one model cost under all conditions, and what its rows take on disk."""

    model: str
    family: str
    conditions_complete: int
    conditions: int
    documents_missing: int
    tokens_processed: int
    tokens_scored: int
    seconds: float
    peak_bytes: int
    bytes_on_disk: int

    @property
    def bytes_per_row(self) -> float:
        """Of the token store; NaN where nothing is there."""
        known = self.bytes_on_disk and self.tokens_scored
        return self.bytes_on_disk / self.tokens_scored if known else math.nan


@dataclass(frozen=True)
class MetricDescription:
    """What the catalogue says of a metric, without the formula that opens its description."""

    name: str
    formula: str
    description: str


@dataclass(frozen=True)
class MetricCorrelations:
    """Spearman between metrics (each by its best variant) and with the target.

    names: row and column labels, the target last. matrix: `[names, names]`.
    """

    names: tuple[str, ...]
    matrix: Floats


@dataclass(frozen=True)
class ReportData:
    """One problem's results.

    profiles: of the whole document. gains: by the condition whose gain it is.
    """

    title: str
    description: str
    table: MetricTable
    board: Leaderboard
    selection: MetricSelection | None
    profiles: tuple[ProfileBand, ...]
    gains: dict[str, tuple[ProfileBand, ...]]
    costs: tuple[Cost, ...]
    depths: tuple[DepthCell, ...]
    metric_correlations: MetricCorrelations
    provenance: dict[str, Any]

    @property
    def best(self) -> LeaderboardRow:
        """The admissible row with the largest |rho|."""
        return next((row for row in self.board.rows if row.column.admissible), self.board.rows[0])

    @property
    def has_documents(self) -> bool:
        """Whether documents could be resampled."""
        return any(row.documents for row in self.board.rows)

    @property
    def baseline(self) -> LeaderboardRow | None:
        """Perplexity's row, if it is among the metrics."""
        wanted = self.selection.baseline if self.selection else None
        matching = [
            row
            for row in self.board.rows
            if row.column is wanted or (wanted is None and row.column.metric == BASELINE_METRIC)
        ]
        return matching[0] if matching else None

    @property
    def metrics(self) -> list[MetricDescription]:
        """Every metric of the leaderboard, by name."""
        columns = {row.column.metric: row.column for row in reversed(self.board.rows)}
        return [
            MetricDescription(name, column.formula, _without_formula(column))
            for name, column in sorted(columns.items())
        ]

    def candidate(self, column: MetricColumn) -> Candidate | None:
        """What the selection says about a column; None where it may not be chosen."""
        found = self.selection.candidates if self.selection else ()
        return next((c for c in found if c.column is column), None)


def detailed_rows(table: MetricTable) -> int:
    """How many variants the report shows with bootstrap intervals."""
    variants = Counter(column.metric for column in table.columns)
    return sum(min(count, DETAILED) for count in variants.values())


def gather(
    problem: Ranked,
    table: MetricTable,
    workspace: Workspace,
    seed: int,
    resamples: int,
    progress: Progress,
) -> ReportData:
    """Read the other marts and compute what the report shows.

    Args:
        problem: of the report.
        table: its metric table.
        workspace: the checkout.
        seed: of bootstrap, permutations and splits.
        resamples: of each interval.
        progress: told of each of `detailed_rows`.
    """
    parts_of = parts_reader(workspace, table)
    board = rank_metrics(
        table, seed, resamples, per_metric=DETAILED, progress=progress, parts_of=parts_of
    )
    selection = None
    if len(table.models) >= MINIMUM_MODELS:
        selection = select_metric(table, seed, parts_of=parts_of)
    profiles, gains = _profiles(table, workspace)
    return ReportData(
        title=problem.title,
        description=problem.description,
        table=table,
        board=board,
        selection=selection,
        profiles=profiles,
        gains=gains,
        costs=_costs(table, workspace),
        depths=_depths(table, workspace),
        metric_correlations=_metric_correlations(table, board),
        provenance={
            **code_revision(),
            "versions": versions(("tokenmart", "duckdb", "numpy", "scikit-learn")),
            "seed": seed,
            "resamples": resamples,
        },
    )


def short_name(full_id: str) -> str:
    """A model's name without its organisation."""
    return full_id.rsplit("/", 1)[-1]


def point_labels(names: Sequence[str]) -> dict[str, str]:
    """Name → what to write beside its point: a variant of another model drops that one's name."""
    labels = {}
    for name in names:
        bases = [other for other in names if name != other and name.startswith(f"{other}-")]
        labels[name] = f"… {name[len(max(bases, key=len)) + 1 :]}" if bases else name
    return labels


def _without_formula(column: MetricColumn) -> str:
    text = column.description.replace(f"`{column.formula}`", "", 1).strip()
    return text.removeprefix("Formula:").lstrip(" .:\n")


def _profiles(
    table: MetricTable, workspace: Workspace
) -> tuple[tuple[ProfileBand, ...], dict[str, tuple[ProfileBand, ...]]]:
    with connect_read_only(workspace) as connection:
        rows = connection.execute(
            "select model_id, condition, position_from, position_to, nll, gain, tokens"
            " from position_profile where problem = ? and nll is not null"
            " order by condition, model_id, position_from",
            [table.problem],
        ).fetchall()
    models = {model.model_id: model for model in table.models}
    full: list[ProfileBand] = []
    gains: dict[str, list[ProfileBand]] = {}
    for model_id, condition, first, last, nll, gain, tokens in rows:
        model = models.get(model_id)
        if model is None:
            continue
        middle = math.sqrt(max(first, 8) * last)
        band = ProfileBand(short_name(model.full_id), model.family, middle, nll, gain, tokens)
        (full if gain is None else gains.setdefault(condition, [])).append(band)
    return tuple(full), {condition: tuple(bands) for condition, bands in gains.items()}


def _depths(table: MetricTable, workspace: Workspace) -> tuple[DepthCell, ...]:
    """Cells of a measured target; none of another, nor from a build before there were any."""
    names = {model.model_id: short_name(model.full_id) for model in table.models}
    with connect_read_only(workspace) as connection:
        try:
            rows = connection.execute(
                "select model_id, length, eighth, avg(score), sum(items) from downstream_depths"
                " where problem = ? and eighth is not null group by all order by all",
                [table.problem],
            ).fetchall()
        except duckdb.CatalogException:
            rows = []
    places = {model_id: place for place, model_id in enumerate(names)}
    rows = sorted((row for row in rows if row[0] in names), key=lambda row: places[row[0]])
    return tuple(
        DepthCell(names[model_id], length, eighth, score, int(items))
        for model_id, length, eighth, score, items in rows
    )


def _costs(table: MetricTable, workspace: Workspace) -> tuple[Cost, ...]:
    with connect_read_only(workspace) as connection:
        rows = connection.execute(
            "select model_id, count(*) filter (where complete), count(*),"
            " sum(documents_missing + documents_failed), sum(tokens_processed),"
            " sum(tokens_scored), sum(seconds), max(peak_bytes)"
            " from coverage where problem = ? group by model_id",
            [table.problem],
        ).fetchall()
    by_id = {row[0]: row for row in rows}
    return tuple(
        Cost(
            model=short_name(model.full_id),
            family=model.family,
            conditions_complete=int(by_id[model.model_id][1]),
            conditions=int(by_id[model.model_id][2]),
            documents_missing=int(by_id[model.model_id][3]),
            tokens_processed=int(by_id[model.model_id][4]),
            tokens_scored=int(by_id[model.model_id][5]),
            seconds=float(by_id[model.model_id][6]),
            peak_bytes=int(by_id[model.model_id][7] or 0),
            bytes_on_disk=_bytes_on_disk(workspace, table.problem, model.model_id),
        )
        for model in table.models
        if model.model_id in by_id
    )


def _bytes_on_disk(workspace: Workspace, problem: str, model_id: str) -> int:
    folder = workspace.tokens / f"problem={problem}" / f"model_id={model_id}"
    return sum(path.stat().st_size for path in folder.glob("*/*.parquet"))


def _metric_correlations(table: MetricTable, board: Leaderboard) -> MetricCorrelations:
    """One variant per metric, the best; Spearman of each pair over the models both cover."""
    columns: dict[str, MetricColumn] = {}
    for row in board.rows:
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
