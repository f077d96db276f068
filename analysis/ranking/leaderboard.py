"""All metric columns of a problem, correlated with its target, best first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.ranking.metric_table import MetricColumn, MetricTable
from analysis.statistics import ColumnCorrelation, Interval, MaxTest, correlate_column, max_test


@dataclass(frozen=True)
class LeaderboardRow:
    """One variant: its correlation with the target (oriented), and permutation p-values.

    p_single: on its own; p_adjusted: against the best of all variants.
    """

    column: MetricColumn
    correlation: ColumnCorrelation
    p_single: float
    p_adjusted: float

    @property
    def rho(self) -> float:
        """Spearman with the target over the models that have a value; NaN where undefined."""
        return self.correlation.rho


@dataclass(frozen=True)
class Leaderboard:
    """Rows best first by |rho|; undefined ones last."""

    table: MetricTable
    rows: tuple[LeaderboardRow, ...]
    test: MaxTest
    seed: int
    resamples: int
    clustered: bool


def rank_metrics(
    table: MetricTable,
    seed: int,
    resamples: int,
    top: int | None = None,
    clustered: bool = False,
    per_metric: int | None = None,
    progress: Callable[[str, int], None] = lambda what, units: None,
) -> Leaderboard:
    """Rank every column; the first `top` get every coefficient with its bootstrap intervals.

    Values are oriented first: 'lower is better' metrics are negated, so that a positive
    rho means the metric behaves as its catalogue entry expects.

    Args:
        table: of the problem.
        seed: of bootstrap, permutations and MCD filter.
        resamples: of each interval.
        top: how many rows get bootstrap intervals; all when None.
        clustered: resample families instead of models.
        per_metric: bootstrap intervals only for the best so many variants of each metric.
        progress: told of each row that got its intervals.
    """
    test = max_test(np.stack([column.oriented for column in table.columns]), table.target, seed)
    rows = []
    of_metric: Counter[str] = Counter()
    for place, index in enumerate(np.argsort(-test.observed, kind="stable").tolist()):
        column = table.columns[index]
        of_metric[column.metric] += 1
        detailed = (
            not math.isnan(test.observed[index])
            and (top is None or place < top)
            and (per_metric is None or of_metric[column.metric] <= per_metric)
        )
        correlation = correlate_column(
            column.oriented,
            table.target,
            table.families,
            seed,
            resamples if detailed else None,
            clustered,
        )
        if detailed:
            progress(f"bootstrap: {column.metric}", 1)
        p_single, p_adjusted = float(test.p_single[index]), float(test.p_adjusted[index])
        rows.append(LeaderboardRow(column, correlation, p_single, p_adjusted))
    return Leaderboard(table, tuple(rows), test, seed, resamples, clustered)


def leaderboard_record(board: Leaderboard) -> dict[str, Any]:
    """The leaderboard as JSON-ready values; undefined numbers become None."""
    table = board.table
    return {
        "problem": table.problem,
        "models": [model.full_id for model in table.models],
        "without_target": list(table.without_target),
        "orientation": "metrics where lower is better are negated first",
        "seed": board.seed,
        "resamples": board.resamples,
        "clustered": board.clustered,
        "permutations": board.test.permutations,
        "null_95_of_best": number(board.test.null_95),
        "rows": [_row_record(row) for row in board.rows],
    }


def _row_record(row: LeaderboardRow) -> dict[str, Any]:
    found = row.correlation
    record: dict[str, Any] = {
        "metric": row.column.metric,
        "variant": row.column.variant,
        "family": row.column.family,
        "direction": row.column.direction,
        "admissible": row.column.admissible,
        "n": found.n,
        "spearman": number(found.rho),
        "spearman_ci95_family": interval_record(found.family_interval),
        "spearman_within_families": number(found.within_families.value),
        "spearman_within_families_ci95": interval_record(found.within_families.interval),
        "p_single": number(row.p_single),
        "p_adjusted": number(row.p_adjusted),
    }
    every = found.bootstrapped
    if every is not None:
        record |= {
            "spearman_ci95": interval_record(every.spearman.percentile),
            "spearman_ci95_bca": interval_record(every.spearman.bca),
            "pearson": number(every.pearson),
            "kendall": number(every.kendall),
            "skipped_spearman": number(every.skipped_spearman.value),
            "skipped_spearman_ci95": interval_record(every.skipped_spearman.percentile),
            "skipped_spearman_ci95_bca": interval_record(every.skipped_spearman.bca),
            "skipped_kept": every.skipped.kept,
            "projection_skipped_spearman": number(every.projection.value),
            "projection_skipped_kept": every.projection.kept,
        }
    return record


def interval_record(interval: Interval) -> dict[str, Any]:
    """An interval as JSON-ready values."""
    return {
        "low": number(interval.low),
        "high": number(interval.high),
        "method": interval.method,
        "degenerate_resamples": interval.degenerate,
    }


def number(value: float) -> float | None:
    """Twelve digits, None for NaN: what is left beyond is the rounding of the machine."""
    return None if math.isnan(value) else round(value, 12)
