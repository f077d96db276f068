"""All metric columns of a problem, correlated with its target, best first; as JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

import numpy as np

from analysis.ranking.coverage import fewer_documents
from analysis.ranking.documents import DocumentNoise, PartsOf, document_noise
from analysis.ranking.metric_selection import MINIMUM_MODELS
from analysis.ranking.metric_table import MetricColumn, MetricTable
from analysis.statistics.after_choice import (
    critical_value,
    interval_after_choice,
    shared_design_effect,
)
from analysis.statistics.bootstrap import Correlations, Interval
from analysis.statistics.correlations import spearman
from analysis.statistics.families import WithinFamilies, family_interval, within_families
from analysis.statistics.permutation import MaxTest, max_test
from analysis.statistics.pooling import NewFamily, new_family
from analysis.statistics.selection import repeated_splits


@dataclass(frozen=True)
class LeaderboardRow:
    """One variant, oriented, against the target over the n models that have a value.

    held_out: mean rho over random splits on the models that didn't fix its sign; NaN for one that
        lacks models, and with too few.
    rho: Spearman, NaN where undefined; interval: of rho, for all tries at once and so also for one
        that is chosen, models of a family or a kind counting as alike; family_interval: as of a
        metric named beforehand; within_families: rho of the differences inside families;
        new_family: what to expect of another family, its interval allowing for the choice.
    p_single: permutation p on its own; p_adjusted: against the best of all that was ever tried.
    coefficients: the others, and bootstrap intervals; None where they weren't asked for.
    documents: what drawing other documents does; None for rows without bootstrap or documents.
    alike: the columns that rank the models most alike (Spearman, with its sign); of ideas only.
    fewer: full id → documents, of the models whose value rests on fewer than that of another.
    """

    column: MetricColumn
    n: int
    held_out: float
    rho: float
    interval: Interval
    family_interval: Interval
    within_families: WithinFamilies
    new_family: NewFamily
    p_single: float
    p_adjusted: float
    coefficients: Correlations | None
    documents: DocumentNoise | None = None
    alike: tuple[tuple[MetricColumn, float], ...] = ()
    fewer: dict[str, int] = field(default_factory=dict)


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
    parts_of: PartsOf | None = None,
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
        progress: told of each row that got its intervals over documents.
        parts_of: reads a column's documents; None for no intervals over documents.
        shown: the metrics to rank, all when empty; p-values count everything all the same.

    Raises:
        TokenmartError: a metric in `shown` isn't there.
    """
    test = max_test(np.stack([c.oriented for c in table.everything]), table.target, seed)
    held_out = _held_out(table, seed)
    critical, effect = _after_choice(table, test, seed)
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
        families = list(compress(table.families, column.present))
        kinds = list(compress(table.kinds, column.present))
        reach = math.nan if math.isnan(test.p_adjusted[index]) else critical
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
                    reach,
                    effect,
                    best=bool(test.observed[index] >= highest - 1e-12),
                ),
                family_interval=family_interval(x, y, families),
                within_families=within_families(x, y, families),
                new_family=new_family(x, y, families, kinds, reach),
                p_single=float(test.p_single[index]),
                p_adjusted=float(test.p_adjusted[index]),
                coefficients=Correlations(x, y, seed, resamples, clusters) if detailed else None,
                documents=document_noise(parts_of(column), table, column, seed)
                if detailed and parts_of
                else None,
                alike=() if column.kind == "variant" else _most_alike(column, table),
                fewer=fewer_documents(table, column),
            )
        )
        if detailed:
            progress(f"documents: {column.metric}", 1)
    return Leaderboard(table, tuple(rows), test, seed, resamples, clustered)


def _after_choice(table: MetricTable, test: MaxTest, seed: int) -> tuple[float, float]:
    """Critical value and design effect of intervals that hold for all tries at once.

    Whatever has a p gets an interval, and so counts: also what lacks models. How alike the models
    are is told by the columns that have them all.
    """
    tested = np.stack([c.oriented for c in table.everything])[np.isfinite(test.p_adjusted)]
    whole = tested[np.isfinite(tested).all(axis=1)]
    if not len(whole):
        return math.nan, math.nan
    effect = shared_design_effect(whole, table.target, [table.families, table.kinds])
    return critical_value(tested, table.target, seed), effect


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


def leaderboard_record(
    board: Leaderboard, progress: Callable[[str, int], None] = lambda what, units: None
) -> dict[str, Any]:
    """The leaderboard as JSON-ready values; undefined numbers become None.

    Args:
        board: of the problem.
        progress: told of each row whose bootstrap intervals were computed.
    """
    table = board.table
    full_ids = [model.full_id for model in table.models]
    rows = []
    for row in board.rows:
        rows.append(_row_record(row, full_ids))
        if row.coefficients:
            progress(f"bootstrap: {row.column.metric}", 1)
    return {
        "problem": table.problem,
        "models": full_ids,
        "without_target": list(table.without_target),
        "tried": table.tries,
        "tested": board.test.tested,
        "orientation": "metrics where lower is better are negated first",
        "seed": board.seed,
        "resamples": board.resamples,
        "clustered": board.clustered,
        "permutations": board.test.permutations,
        "null_95_of_best": number(board.test.null_95),
        "rows": rows,
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
        "new_family": new_family_record(row.new_family),
        "p_single": number(row.p_single),
        "p_adjusted": number(row.p_adjusted),
        "models_with_fewer_documents": row.fewer,
    }
    if row.column.kind != "variant":
        record |= {
            "definition": row.column.formula,
            "values": dict(zip(models, map(number, row.column.values), strict=True)),
            "alike": {other.name: number(rho) for other, rho in row.alike},
        }
    if noise := row.documents:
        record |= {
            "documents": noise.documents,
            "spearman_ci95_new_documents": interval_record(noise.sources.documents),
            "spearman_ci95_new_documents_and_models": interval_record(noise.sources.both),
            "reliability_over_documents": number(noise.sources.reliability),
            "soft_pairwise_accuracy": number(noise.soft_pairs),
        }
        if pairs := noise.pairs:
            record["pairs"] = {
                "told_apart": pairs.told_apart,
                "tossups": pairs.tossups,
                "ties": pairs.ties,
                "accuracy_of_those_told_apart": number(pairs.accuracy),
            }
    if found := row.coefficients:
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


def new_family_record(found: NewFamily) -> dict[str, Any]:
    """The estimate for a new family as JSON-ready values."""
    return {
        "spearman": number(found.value),
        "ci95_after_choice": interval_record(found.interval),
        "families": found.families,
        "models_worth": number(found.worth),
    }


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
