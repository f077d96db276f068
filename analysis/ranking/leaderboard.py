"""All metric columns of a problem, correlated with its target, best first; as JSON and a table."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from analysis.ranking.metric_selection import MINIMUM_MODELS
from analysis.ranking.metric_table import MetricColumn, MetricTable
from analysis.statistics import (
    Correlations,
    Interval,
    MaxTest,
    WithinFamilies,
    correlate_with_target,
    critical_value,
    family_interval,
    interval_after_choice,
    max_test,
    repeated_splits,
    spearman,
    within_families,
)
from warehouse.errors import visible


@dataclass(frozen=True)
class LeaderboardRow:
    """One variant, oriented, against the target over the n models that have a value.

    held_out: mean rho over random splits on the models that didn't fix its sign; NaN for one that
        lacks models, and with too few.
    rho: Spearman, NaN where undefined; interval: of rho, for all tries at once and so also for one
        that is chosen, models of a family or a kind counting as alike; family_interval: as of a
        metric named beforehand; within_families: rho of the differences inside families.
    p_single: permutation p on its own; p_adjusted: against the best of all that was ever tried.
    bootstrapped: every coefficient with bootstrap intervals; None where they weren't asked for.
    alike: the columns that rank the models most alike (Spearman, with its sign); of ideas only.
    """

    column: MetricColumn
    n: int
    held_out: float
    rho: float
    interval: Interval
    family_interval: Interval
    within_families: WithinFamilies
    p_single: float
    p_adjusted: float
    bootstrapped: Correlations | None
    alike: tuple[tuple[MetricColumn, float], ...] = ()


@dataclass(frozen=True)
class Leaderboard:
    """Ideas first, then rows best first by |rho|, undefined ones last.

    test: of everything that was ever tried, in the order of `table.everything`.
    """

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
    shown: Sequence[str] = (),
) -> Leaderboard:
    """Rank the columns; ideas and the first `top` get every coefficient with bootstrap intervals.

    Values are oriented first: 'lower is better' metrics are negated, so that a positive
    rho means the metric behaves as its catalogue entry expects.

    Args:
        table: of the problem.
        seed: of bootstrap, permutations, splits and MCD filter.
        resamples: of each interval.
        top: how many rows get bootstrap intervals; all when None.
        clustered: resample families instead of models.
        per_metric: bootstrap intervals only for the best so many variants of each metric.
        progress: told of each row that got its intervals.
        shown: the metrics to rank, all when empty; p-values count everything all the same.

    Raises:
        TokenmartError: a metric in `shown` isn't there.
    """
    test = max_test(np.stack([c.oriented for c in table.everything]), table.target, seed)
    held_out = _held_out(table, seed)
    critical = _critical(table, seed)
    highest = np.nanmax(test.observed, initial=0.0)
    columns = [c for c in table.columns if c.kind != "variant"]
    columns += [c for c in table.named(shown) if c.kind == "variant"]
    places = {id(column): place for place, column in enumerate(table.columns)}
    size = {id(c): np.nan_to_num(test.observed[places[id(c)]], nan=-1.0) for c in columns}
    rows = []
    of_metric: Counter[str] = Counter()
    for column in sorted(columns, key=lambda c: (c.kind == "variant", -size[id(c)])):
        index = places[id(column)]
        of_metric[column.metric] += 1
        wanted = (top is None or of_metric.total() <= top) and (
            per_metric is None or of_metric[column.metric] <= per_metric
        )
        wanted = wanted or column.kind != "variant"
        detailed = wanted and not math.isnan(test.observed[index])
        x, y = column.oriented[column.present], table.target[column.present]
        families, kinds = (
            list(compress(labels, column.present)) for labels in (table.families, table.kinds)
        )
        clusters = families if clustered else None
        rows.append(
            LeaderboardRow(
                column=column,
                n=x.size,
                held_out=held_out[index],
                rho=spearman(x, y),
                interval=interval_after_choice(
                    x,
                    y,
                    [families, kinds],
                    math.nan if math.isnan(test.p_adjusted[index]) else critical,
                    best=bool(test.observed[index] >= highest - 1e-12),
                ),
                family_interval=family_interval(x, y, families),
                within_families=within_families(x, y, families),
                p_single=float(test.p_single[index]),
                p_adjusted=float(test.p_adjusted[index]),
                bootstrapped=correlate_with_target(x, y, seed, resamples, clusters)
                if detailed
                else None,
                alike=() if column.kind == "variant" else _most_alike(column, table),
            )
        )
        if detailed:
            progress(f"bootstrap: {column.metric}", 1)
    return Leaderboard(table, tuple(rows), test, seed, resamples, clustered)


def _critical(table: MetricTable, seed: int) -> float:
    """How many standard errors an interval that holds for all tries at once reaches."""
    whole = [c.oriented for c in table.everything if c.present.all() and np.ptp(c.values) > 0]
    return critical_value(np.stack(whole), table.target, seed) if whole else math.nan


def _held_out(table: MetricTable, seed: int) -> list[float]:
    """Of each column; the splits are those of `select_metric`."""
    found = [math.nan] * len(table.columns)
    whole = [i for i, c in enumerate(table.columns) if c.present.all() and np.ptp(c.values) > 0]
    if whole and len(table.models) >= MINIMUM_MODELS:
        metrics = np.stack([table.columns[i].oriented for i in whole])
        parts = repeated_splits(metrics, table.target, seed)
        for place, value in zip(whole, parts.variant_test, strict=True):
            found[place] = float(value)
    return found


def _most_alike(
    column: MetricColumn, table: MetricTable, most: int = 3
) -> tuple[tuple[MetricColumn, float], ...]:
    """The variants whose Spearman with a column is largest in size, over the models of both."""
    found = []
    for other in table.columns:
        both = column.present & other.present
        if other.kind == "variant":
            rho = spearman(column.oriented[both], other.oriented[both])
            found.append((other, rho))
    found = [pair for pair in found if not math.isnan(pair[1])]
    return tuple(sorted(found, key=lambda pair: -abs(pair[1]))[:most])


def leaderboard_record(board: Leaderboard) -> dict[str, Any]:
    """The leaderboard as JSON-ready values; undefined numbers become None."""
    table = board.table
    return {
        "problem": table.problem,
        "models": [model.full_id for model in table.models],
        "without_target": list(table.without_target),
        "tried": table.tries,
        "tested": board.test.tested,
        "orientation": "metrics where lower is better are negated first",
        "seed": board.seed,
        "resamples": board.resamples,
        "clustered": board.clustered,
        "permutations": board.test.permutations,
        "null_95_of_best": number(board.test.null_95),
        "rows": [_row_record(row, [model.full_id for model in table.models]) for row in board.rows],
    }


def _row_record(row: LeaderboardRow, models: list[str]) -> dict[str, Any]:
    record: dict[str, Any] = {
        "metric": row.column.metric,
        "variant": row.column.variant,
        "family": row.column.family,
        "direction": row.column.direction,
        "admissible": row.column.admissible,
        "kind": row.column.kind,
        "n": row.n,
        "held_out": number(row.held_out),
        "spearman": number(row.rho),
        "spearman_ci95_after_choice": interval_record(row.interval),
        "spearman_ci95_family": interval_record(row.family_interval),
        "spearman_within_families": number(row.within_families.value),
        "spearman_within_families_ci95": interval_record(row.within_families.interval),
        "p_single": number(row.p_single),
        "p_adjusted": number(row.p_adjusted),
    }
    if row.column.kind != "variant":
        record |= {
            "definition": row.column.formula,
            "values": dict(zip(models, map(number, row.column.values), strict=True)),
            "alike": {other.name: number(rho) for other, rho in row.alike},
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
    """Ideas and the first `top` other rows, and how to read them."""
    table = board.table
    ideas = [row for row in board.rows if row.column.kind != "variant"]
    variants = [row for row in board.rows if row.column.kind == "variant"]
    rows = [*ideas, *variants[:top]]
    console = Console(markup=False, emoji=False, width=None if sys.stdout.isatty() else 150)
    view = Table(box=None, pad_edge=False, header_style="bold")
    view.add_column("metric", overflow="fold")
    view.add_column("variant", overflow="fold")
    for heading in (
        "better", "held out", "Spearman", "95% CI", "p adj.", "n", "Pearson", "skipped", "95% CI",
    ):  # fmt: skip
        view.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        pearson = skipped = skipped_interval = "–"
        if found := row.bootstrapped:
            pearson = _signed(found.pearson)
            skipped = f"{_signed(found.skipped_spearman.value)} ({found.skipped.kept})"
            skipped_interval = _interval(found.skipped_spearman.percentile)
        view.add_row(
            visible(row.column.metric) + ("" if row.column.admissible else " †"),
            visible(row.column.variant),
            row.column.direction,
            "–" if math.isnan(row.held_out) else _signed(row.held_out),
            _signed(row.rho),
            _interval(row.interval),
            "–" if math.isnan(row.p_adjusted) else f"{row.p_adjusted:.4f}",
            str(row.n),
            pearson,
            skipped,
            skipped_interval,
        )
    console.print(view)
    for row in ideas:
        alike = ", ".join(f"{other.name} ({_signed(rho)})" for other, rho in row.alike)
        if alike:
            console.print(
                visible(f"{row.column.name} ranks the models most like: {alike}"), highlight=False
            )
    for note in _notes(board, rows, len(variants)):
        console.print(note, style="dim", highlight=False)
    if len(table.dtypes) > 1:
        parts = (f"{len(ids)} in {dtype}" for dtype, ids in table.dtypes.items())
        console.print(
            f"warning: models were run in different number formats ({', '.join(parts)}): their "
            "values differ by rounding, too; run `tokenmart extract --dtype` with one for all",
            style="bold",
            highlight=False,
        )


def _notes(board: Leaderboard, rows: Sequence[LeaderboardRow], variants: int) -> list[str]:
    """How to read the shown rows, a sentence each."""
    table = board.table
    shown = sum(row.column.kind == "variant" for row in rows)
    unit = "families" if board.clustered else "models"
    notes = [
        f"{table.problem}: {len(table.models)} models"
        + (f"; {shown} of {variants} variants shown (--top)" if shown < variants else ""),
        f"p adj.: permutation test against the best of everything that was tried, "
        f"{table.tries_text}, whatever is shown; by luck the best reaches |rho| "
        f"{board.test.null_95:.2f} one time in twenty",
    ]
    if (untested := len(table.everything) - board.test.tested) > 0:
        notes.append(f"{untested} of these have no p: constant, or values for too few models")
    notes += [
        "held out: mean rho over random splits, on the models that didn't fix the sign",
        "sign: 'lower is better' metrics are negated first, so + means: behaves as expected",
        "95% CI of Spearman: holds for all tries at once, so for a chosen one, too; models of a "
        "family or a kind count as alike (of a metric named beforehand: --json)",
        f"skipped: MCD filter, points kept in brackets; 95% CI: percentile bootstrap over {unit}, "
        f"{board.resamples} resamples, errs on the wide side (all bootstrap intervals: --json)",
    ]
    degenerate = sum(
        row.bootstrapped.skipped_spearman.percentile.degenerate for row in rows if row.bootstrapped
    )
    if degenerate:
        notes.append(f"{degenerate} degenerate resamples in all were left out of the intervals")
    if any(not row.column.admissible for row in rows):
        notes.append(
            "† not admissible for an official submission: needs a second model, or is an idea "
            "(make it a metric: `tokenmart metrics new`)"
        )
    if table.without_target:
        notes.append(f"without a target score: {', '.join(table.without_target)}")
    return notes


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
