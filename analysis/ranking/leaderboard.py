"""All metric columns of a problem, correlated with its target, best first; as JSON and a table."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from analysis.ranking.metric_table import MetricColumn, MetricTable
from analysis.statistics import (
    Correlations,
    Interval,
    MaxTest,
    WithinFamilies,
    correlate_with_target,
    family_interval,
    max_test,
    spearman,
    within_families,
)
from warehouse.errors import visible


@dataclass(frozen=True)
class LeaderboardRow:
    """One variant, oriented, against the target over the n models that have a value.

    rho: Spearman, NaN where undefined; family_interval: of rho, allowing for models of a family
        being alike; within_families: rho of the differences inside families.
    p_single: permutation p on its own; p_adjusted: against the best of all variants.
    bootstrapped: every coefficient with bootstrap intervals; None where they weren't asked for.
    """

    column: MetricColumn
    n: int
    rho: float
    family_interval: Interval
    within_families: WithinFamilies
    p_single: float
    p_adjusted: float
    bootstrapped: Correlations | None


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
        x, y = column.oriented[column.present], table.target[column.present]
        families = list(compress(table.families, column.present))
        clusters = families if clustered else None
        rows.append(
            LeaderboardRow(
                column=column,
                n=x.size,
                rho=spearman(x, y),
                family_interval=family_interval(x, y, families),
                within_families=within_families(x, y, families),
                p_single=float(test.p_single[index]),
                p_adjusted=float(test.p_adjusted[index]),
                bootstrapped=correlate_with_target(x, y, seed, resamples, clusters)
                if detailed
                else None,
            )
        )
        if detailed:
            progress(f"bootstrap: {column.metric}", 1)
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
    record: dict[str, Any] = {
        "metric": row.column.metric,
        "variant": row.column.variant,
        "family": row.column.family,
        "direction": row.column.direction,
        "admissible": row.column.admissible,
        "n": row.n,
        "spearman": number(row.rho),
        "spearman_ci95_family": interval_record(row.family_interval),
        "spearman_within_families": number(row.within_families.value),
        "spearman_within_families_ci95": interval_record(row.within_families.interval),
        "p_single": number(row.p_single),
        "p_adjusted": number(row.p_adjusted),
    }
    if found := row.bootstrapped:
        record |= {
            "spearman_ci95": interval_record(found.spearman.percentile),
            "spearman_ci95_bca": interval_record(found.spearman.bca),
            "pearson": number(found.pearson),
            "kendall": number(found.kendall),
            "skipped_spearman": number(found.skipped_spearman.value),
            "skipped_spearman_ci95": interval_record(found.skipped_spearman.percentile),
            "skipped_spearman_ci95_bca": interval_record(found.skipped_spearman.bca),
            "skipped_kept": found.skipped.kept,
            "projection_skipped_spearman": number(found.projection.value),
            "projection_skipped_kept": found.projection.kept,
        }
    return record


def print_leaderboard(board: Leaderboard, top: int) -> None:
    """The first `top` rows, and how to read them."""
    table, rows = board.table, min(top, len(board.rows))
    console = Console(markup=False, emoji=False, width=None if sys.stdout.isatty() else 150)
    view = Table(box=None, pad_edge=False, header_style="bold")
    view.add_column("metric", overflow="fold")
    view.add_column("variant", overflow="fold")
    for heading in (
        "better", "Spearman", "95% CI", "families", "Pearson", "skipped", "95% CI", "n", "p adj.",
    ):  # fmt: skip
        view.add_column(heading, justify="right", no_wrap=True)
    for row in board.rows[:rows]:
        interval = pearson = skipped = skipped_interval = "–"
        if found := row.bootstrapped:
            interval = _interval(found.spearman.percentile)
            pearson = _signed(found.pearson)
            skipped = f"{_signed(found.skipped_spearman.value)} ({found.skipped.kept})"
            skipped_interval = _interval(found.skipped_spearman.percentile)
        view.add_row(
            visible(row.column.metric) + ("" if row.column.admissible else " †"),
            visible(row.column.variant),
            row.column.direction,
            _signed(row.rho),
            interval,
            _interval(row.family_interval),
            pearson,
            skipped,
            skipped_interval,
            str(row.n),
            "–" if math.isnan(row.p_adjusted) else f"{row.p_adjusted:.4f}",
        )
    console.print(view)
    unit = "families" if board.clustered else "models"
    notes = [
        f"{table.problem}: {len(table.models)} models, {len(table.columns)} variants"
        + (f", {rows} shown (--top)" if rows < len(table.columns) else ""),
        "sign: 'lower is better' metrics are negated first, so + means: behaves as expected",
        f"95% CI: percentile bootstrap over {unit}, {board.resamples} resamples (BCa: --json)",
        "families: 95% CI that allows for models of a family being alike; trust it, not the "
        "bootstrap, unless every model is its own family",
        "skipped: MCD filter, points kept in brackets; its bootstrap CI errs on the wide side",
        f"p adj.: permutation test against the best of all {len(table.columns)} variants; by luck "
        f"the best reaches |rho| {board.test.null_95:.2f} one time in twenty",
    ]
    degenerate = sum(
        row.bootstrapped.skipped_spearman.percentile.degenerate
        for row in board.rows
        if row.bootstrapped
    )
    if degenerate:
        notes.append(f"{degenerate} degenerate resamples in all were left out of the intervals")
    if any(not row.column.admissible for row in board.rows[:rows]):
        notes.append("† needs a second model: not admissible for an official submission")
    if table.without_target:
        notes.append(f"without a target score: {', '.join(table.without_target)}")
    for note in notes:
        console.print(note, style="dim", highlight=False)
    if len(table.dtypes) > 1:
        parts = (f"{len(ids)} in {dtype}" for dtype, ids in table.dtypes.items())
        console.print(
            f"warning: models were run in different number formats ({', '.join(parts)}): their "
            "values differ by rounding, too; run `tokenmart extract --dtype` with one for all",
            style="bold",
            highlight=False,
        )


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


def _signed(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{value:+.3f}"


def _interval(interval: Interval) -> str:
    if math.isnan(interval.low):
        return "undefined"
    return f"{interval.low:+.2f} to {interval.high:+.2f}"
