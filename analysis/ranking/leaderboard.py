"""All metric columns of a problem, correlated with its target, best first; as JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

import numpy as np

from analysis.ranking.answers import Claim, claim_of
from analysis.ranking.coverage import fewer_documents
from analysis.ranking.documents import DocumentNoise, PartsOf, document_noise
from analysis.ranking.inference import Inference, infer
from analysis.ranking.metric_selection import MINIMUM_MODELS, default_baseline
from analysis.ranking.metric_table import MetricColumn, MetricTable
from analysis.ranking.registered import RegisteredResult, registered_record, registered_results
from analysis.statistics.bootstrap import Correlations, Interval
from analysis.statistics.correlations import spearman
from analysis.statistics.families import WithinFamilies, family_interval, within_families
from analysis.statistics.pooling import NewFamily, new_family
from analysis.statistics.selection import repeated_splits
from analysis.statistics.simultaneous import indistinguishable, joint_errors


@dataclass(frozen=True)
class LeaderboardRow:
    """One variant, oriented, against the target over the n models that have a value.

    held_out: mean rho over random splits of the models; NaN for a metric without values for all
        models, and with too few models.
    rho: Spearman, NaN where undefined; interval: of rho, simultaneous for all metrics tested and
        so valid for one that was chosen, widened for the correlation of models within families and
        series;
        family_interval: as of a metric named beforehand; within_families: rho of the differences
        inside families; new_family: expected rho in another family, its interval allowing for the
        choice.
    p_single: as if tested alone; p_adjusted: for all metrics ever tested; p_within: the same
        within families. All three widen variances by the design effect of families and series.
    evidence: where the interval excludes 0; empty where the metric doesn't track the target.
    coefficients: the others, and bootstrap intervals; None where they weren't asked for.
    documents: the effect of resampling documents; None for rows without bootstrap or documents.
    alike: the columns with the most similar ranking (Spearman, with its sign); of ideas only.
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
    p_within: float
    evidence: tuple[str, ...]
    coefficients: Correlations | None
    documents: DocumentNoise | None = None
    alike: tuple[tuple[MetricColumn, float], ...] = ()
    fewer: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Leaderboard:
    """Ideas first, then rows best first by signed rho, undefined ones last.

    inference: of all metrics ever tested, in the order of `table.everything`.
    tracking: what tracks the target, by evidence and on the same documents, largest rho first,
        whatever rows are shown; near_best: what can't be distinguished from the best.
    registered: the preregistered metrics, tested apart.
    baseline: the row that others are compared with, shown or not; None without perplexity.
    """

    table: MetricTable
    rows: tuple[LeaderboardRow, ...]
    baseline: LeaderboardRow | None
    inference: Inference
    tracking: tuple[Claim, ...]
    near_best: tuple[Claim, ...]
    registered: tuple[RegisteredResult, ...]
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
        per_metric: bootstrap intervals only for this number of best variants of each metric.
        progress: called for each row whose intervals over documents were computed.
        parts_of: reads a column's documents; None for no intervals over documents.
        shown: the metrics to rank, all when empty; p-values count everything all the same.

    Raises:
        TokenmartError: a metric in `shown` isn't there.
    """
    inference = infer(table)
    held_out = _held_out(table, seed)
    base = default_baseline(table.columns, table.baseline)
    columns = [c for c in table.columns if c.kind != "variant"]
    columns += [c for c in table.named(shown) if c.kind == "variant"]
    asked = {id(column) for column in columns}
    if base is not None and id(base) not in asked:
        columns.append(base)
    places = {id(column): place for place, column in enumerate(table.columns)}
    rhos = {id(c): spearman(c.oriented[c.present], table.target[c.present]) for c in columns}
    order = {key: -2.0 if math.isnan(rho) else round(rho, 10) for key, rho in rhos.items()}
    rows = []
    of_metric: Counter[str] = Counter()
    for column in sorted(columns, key=lambda c: (c.kind == "variant", -order[id(c)], c.name)):
        index = places[id(column)]
        of_metric[column.metric] += id(column) in asked
        wanted = (top is None or of_metric.total() <= top) and (
            per_metric is None or of_metric[column.metric] <= per_metric
        )
        wanted = wanted or column.kind != "variant" or column is base
        detailed = wanted and not math.isnan(rhos[id(column)])
        x, y = column.oriented[column.present], table.target[column.present]
        families = list(compress(table.families, column.present))
        kinds = list(compress(table.kinds, column.present))
        reach = inference.critical if inference.overall.tested[index] else math.nan
        clusters = families if clustered else None
        rows.append(
            LeaderboardRow(
                column=column,
                n=x.size,
                held_out=held_out[index],
                rho=rhos[id(column)],
                interval=inference.interval(index),
                family_interval=family_interval(x, y, families),
                within_families=within_families(x, y, families),
                new_family=new_family(x, y, families, kinds, reach),
                p_single=float(inference.p_single[index]),
                p_adjusted=float(inference.p[index]),
                p_within=float(inference.p_within[index]),
                evidence=inference.evidence(index),
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
    tracking, near_best = _answers(table, inference)
    return Leaderboard(
        table=table,
        rows=tuple(row for row in rows if id(row.column) in asked),
        baseline=next((row for row in rows if row.column is base), None),
        inference=inference,
        tracking=tracking,
        near_best=near_best,
        registered=registered_results(table, base),
        seed=seed,
        resamples=resamples,
        clustered=clustered,
    )


def _answers(
    table: MetricTable, inference: Inference
) -> tuple[tuple[Claim, ...], tuple[Claim, ...]]:
    """Metrics that track the target, and those not distinguishable from the best."""
    columns = list(enumerate(table.columns))
    known = [(row, c) for row, c in columns if inference.overall.tested[row]]
    known.sort(key=lambda pair: (-round(inference.rho(pair[0]), 10), pair[1].name))
    tracking = [
        claim_of(column, inference, row)
        for row, column in known
        if inference.evidence(row) and not fewer_documents(table, column)
    ]
    whole = [(row, column) for row, column in known if column.present.all()]
    near: list[Claim] = []
    if whole:
        metrics = np.stack([column.oriented for _, column in whole])
        errors = joint_errors(metrics, table.target, [table.families, table.kinds])
        for inside, (row, column) in zip(indistinguishable(errors), whole, strict=True):
            if inside:
                near.append(claim_of(column, inference, row))
    return tuple(tracking), tuple(near)


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
    return tuple(sorted(found, key=lambda pair: (-round(abs(pair[1]), 10), pair[0].name))[:most])


def leaderboard_record(
    board: Leaderboard, progress: Callable[[str, int], None] = lambda what, units: None
) -> dict[str, Any]:
    """The leaderboard as JSON-ready values; undefined numbers become None.

    Args:
        board: of the problem.
        progress: called for each row whose bootstrap intervals were computed.
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
        "baseline": board.baseline.column.name if board.baseline else None,
        "tried": table.tries,
        "tested": board.inference.tested,
        "preregistered": [registered_record(result) for result in board.registered],
        "tracks_target": [claim.name for claim in board.tracking],
        "not_distinguishable_from_best": [claim.name for claim in board.near_best],
        "orientation": "metrics where lower is better are negated first",
        "seed": board.seed,
        "resamples": board.resamples,
        "clustered": board.clustered,
        "least_spearman_that_excludes_0": number(board.inference.least_rho),
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
        "p_adjusted_within_families": number(row.p_within),
        "tracks_target": bool(row.evidence) and not row.fewer,
        "models_with_fewer_documents": row.fewer,
        "models_without_value": list(compress(models, ~row.column.present)),
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
