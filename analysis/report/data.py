"""Everything the report shows, gathered from the marts once, as plain values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.ranking.leaderboard import Entry, Leaderboard, leaderboard
from analysis.ranking.metric_table import MetricColumn, MetricTable, load_table
from analysis.ranking.verdict import BASELINE_METRIC, MINIMUM_MODELS, Candidate, Verdict, judge
from analysis.statistics.correlations import Floats, spearman_rows
from analysis.statistics.permutation import MaxTest
from warehouse.sql.connection import connect_read_only
from warehouse.store.provenance import code_revision, versions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from warehouse.paths import Workspace
    from warehouse.problem.spec import Problem


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


@dataclass(frozen=True)
class Agreement:
    """Spearman between metrics (each by its best variant) and with the target.

    names: row and column labels, the target last. matrix: `[names, names]`.
    """

    names: tuple[str, ...]
    matrix: Floats


@dataclass(frozen=True)
class ReportData:
    """One problem's results."""

    title: str
    description: str
    table: MetricTable
    board: Leaderboard
    verdict: Verdict | None
    profiles: tuple[ProfileBand, ...]
    gains: tuple[ProfileBand, ...]
    costs: tuple[Cost, ...]
    agreement: Agreement
    provenance: dict[str, Any]

    @property
    def best(self) -> Entry:
        """The admissible entry with the largest |rho|."""
        return next((e for e in self.board.entries if e.column.admissible), self.board.entries[0])

    @property
    def baseline(self) -> Entry | None:
        """Perplexity's entry, if it is among the metrics."""
        wanted = self.verdict.baseline if self.verdict else None
        matching = [
            entry
            for entry in self.board.entries
            if entry.column is wanted or (wanted is None and entry.column.metric == BASELINE_METRIC)
        ]
        return matching[0] if matching else None

    @property
    def luck(self) -> MaxTest:
        """The test against the best of many: of the verdict's variants, or of all."""
        return self.verdict.ruling.overall if self.verdict else self.board.test

    @property
    def compared(self) -> int:
        """How many variants that test compares."""
        return self.luck.observed.size

    def candidate(self, column: MetricColumn) -> Candidate | None:
        """The verdict's line about a column."""
        found = self.verdict.candidates if self.verdict else ()
        return next((c for c in found if c.column is column), None)


def gather(
    problem: Problem,
    workspace: Workspace,
    seed: int,
    resamples: int,
    advance: Callable[[], None] = lambda: None,
) -> ReportData:
    """Read the marts and compute what the report shows; `advance` is called now and then."""
    table = load_table(problem, workspace)
    board = leaderboard(table, seed, resamples, per_metric=DETAILED, advance=advance)
    verdict = judge(table, seed) if len(table.models) >= MINIMUM_MODELS else None
    profiles, gains = _profiles(table, workspace)
    return ReportData(
        title=problem.title,
        description=problem.description,
        table=table,
        board=board,
        verdict=verdict,
        profiles=profiles,
        gains=gains,
        costs=_costs(table, workspace),
        agreement=_agreement(table, board),
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


def _profiles(
    table: MetricTable, workspace: Workspace
) -> tuple[tuple[ProfileBand, ...], tuple[ProfileBand, ...]]:
    with connect_read_only(workspace) as connection:
        rows = connection.execute(
            "select model_id, position_from, position_to, nll, gain, tokens"
            " from position_profile where problem = ? and nll is not null"
            " order by model_id, condition, position_from",
            [table.problem],
        ).fetchall()
    models = {model.model_id: model for model in table.models}
    full: list[ProfileBand] = []
    gains: list[ProfileBand] = []
    for model_id, first, last, nll, gain, tokens in rows:
        if model_id not in models:
            continue
        model = models[model_id]
        middle = math.sqrt(max(first, 8) * last)
        band = ProfileBand(short_name(model.full_id), model.family, middle, nll, gain, tokens)
        (full if gain is None else gains).append(band)
    return tuple(full), tuple(gains)


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


def _agreement(table: MetricTable, board: Leaderboard) -> Agreement:
    """One variant per metric, the best; Spearman of each pair over the models both cover."""
    columns: dict[str, MetricColumn] = {}
    for entry in board.entries:
        if not math.isnan(entry.rho):
            columns.setdefault(entry.column.metric, entry.column)
    names = (*columns, "target")
    values = np.vstack([*(c.oriented for c in columns.values()), table.target])
    matrix = np.full((len(names), len(names)), np.nan)
    for i, row in enumerate(values):
        for j, other in enumerate(values):
            both = np.isfinite(row) & np.isfinite(other)
            matrix[i, j] = spearman_rows(row[None, both], other[None, both])[0]
    return Agreement(names, matrix)
