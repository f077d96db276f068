"""All metric columns of a problem, correlated with its target, best first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.ranking.metric_table import MetricColumn, MetricTable
from analysis.statistics.bootstrap import Interval
from analysis.statistics.coefficients import Agreement, agreement
from analysis.statistics.correlations import spearman
from analysis.statistics.family_interval import WithinFamilies, family_interval, within_families
from analysis.statistics.permutation import MaxTest, max_test


@dataclass(frozen=True)
class Entry:
    """One variant: oriented Spearman over its models, and the details when asked for.

    family: interval for rho that allows for families; within: rho inside families.
    """

    column: MetricColumn
    n: int
    rho: float
    family: Interval
    within: WithinFamilies
    p_single: float
    p_adjusted: float
    details: Agreement | None


@dataclass(frozen=True)
class Leaderboard:
    """Entries best first by |rho|; undefined ones last."""

    entries: tuple[Entry, ...]
    test: MaxTest
    seed: int
    resamples: int
    clustered: bool


def leaderboard(
    table: MetricTable,
    seed: int,
    resamples: int,
    top: int | None = None,
    clustered: bool = False,
    per_metric: int | None = None,
    advance: Callable[[], None] = lambda: None,
) -> Leaderboard:
    """Rank every column; the first `top` get every coefficient with its intervals.

    Values are oriented first: 'lower is better' metrics are negated, so that a positive
    rho means the metric behaves as its catalogue entry expects.

    Args:
        table: of the problem.
        seed: of bootstrap, permutations and MCD filter.
        resamples: of each interval.
        top: how many entries get details; all when None.
        clustered: resample families instead of models.
        per_metric: details only for the best so many variants of each metric.
        advance: called after each detailed entry.
    """
    metrics = np.stack([column.oriented for column in table.columns])
    test = max_test(metrics, table.target, seed)
    ranked: list[tuple[float, int]] = []
    rhos: list[float] = []
    for index, column in enumerate(table.columns):
        present = column.present
        rho = spearman(column.oriented[present], table.target[present])
        rhos.append(rho)
        ranked.append((-abs(rho) if not math.isnan(rho) else 1.0, index))
    entries = []
    seen: Counter[str] = Counter()
    for place, (_, index) in enumerate(sorted(ranked)):
        column = table.columns[index]
        present = column.present
        seen[column.metric] += 1
        detailed = (
            not math.isnan(rhos[index])
            and (top is None or place < top)
            and (per_metric is None or seen[column.metric] <= per_metric)
        )
        families = [f for f, there in zip(table.families, present, strict=True) if there]
        details = (
            agreement(
                column.oriented[present],
                table.target[present],
                seed,
                resamples,
                families if clustered else None,
            )
            if detailed
            else None
        )
        if detailed:
            advance()
        entries.append(
            Entry(
                column=column,
                n=int(present.sum()),
                rho=rhos[index],
                family=family_interval(column.oriented[present], table.target[present], families),
                within=within_families(column.oriented[present], table.target[present], families),
                p_single=float(test.p_single[index]),
                p_adjusted=float(test.p_adjusted[index]),
                details=details,
            )
        )
    return Leaderboard(tuple(entries), test, seed, resamples, clustered)


def entry_record(entry: Entry) -> dict[str, Any]:
    """One entry as JSON-ready values; undefined numbers become None."""
    record: dict[str, Any] = {
        "metric": entry.column.metric,
        "variant": entry.column.variant,
        "family": entry.column.family,
        "direction": entry.column.direction,
        "admissible": entry.column.admissible,
        "n": entry.n,
        "spearman": number(entry.rho),
        "spearman_ci95_family": interval_record(entry.family),
        "spearman_within_families": number(entry.within.value),
        "spearman_within_families_ci95": interval_record(entry.within.interval),
        "p_single": number(entry.p_single),
        "p_adjusted": number(entry.p_adjusted),
    }
    if entry.details is not None:
        found = entry.details
        skipped = found.skipped_spearman
        record |= {
            "spearman_ci95": interval_record(found.spearman.percentile),
            "spearman_ci95_bca": interval_record(found.spearman.bca),
            "pearson": number(found.pearson),
            "kendall": number(found.kendall),
            "skipped_spearman": number(skipped.value),
            "skipped_spearman_ci95": interval_record(skipped.percentile),
            "skipped_spearman_ci95_bca": interval_record(skipped.bca),
            "skipped_kept": found.skipped.kept,
            "projection_skipped_spearman": number(found.projection.value),
            "projection_skipped_kept": found.projection.kept,
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
