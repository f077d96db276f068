"""All metric columns of a problem, correlated with its target, best first; as JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np

from analysis.ranking.metric_table import MetricColumn, MetricTable, PartsOf
from analysis.ranking.registered import RegisteredResult, registered_results
from analysis.statistics.correlations import Interval, number, spearman
from analysis.statistics.document_noise import DocumentNoise, document_noise
from analysis.statistics.families import (
    NewFamily,
    WithinFamilies,
    family_interval,
    new_family,
    within_families,
)
from analysis.statistics.resampling import Correlations, repeated_splits
from analysis.statistics.simultaneous import Inference, indistinguishable, infer, joint_errors
from warehouse.progress import Progress, no_progress

MINIMUM_MODELS = 8
"""Fewer are too few to choose a metric on some and score it on the others."""

BASELINES = ("perplexity", "no_evaluation")
"""Metrics that others are compared with; the second one, where scores were made elsewhere, is what
is known of a run without evaluating it."""


@dataclass(frozen=True, kw_only=True)
class TestedMetric:
    """One variant, oriented, in the inference on all metrics ever tested.

    rho: Spearman over all models with a value.
    interval: of rho, simultaneous for all metrics tested and so valid for one that was chosen,
        widened for the correlation of models within families and series; p_adjusted: likewise.
        Both are NaN where the models are too few to be tested.
    p_single: as if tested alone, with the design effect of families and series.
    within_rho, within_interval, p_within: the same within families; NaN with one model each.
    evidence: where an interval excludes 0; empty where the metric doesn't track the target.
    fewer: full id → documents, of the models whose value rests on fewer than that of another.
    """

    column: MetricColumn
    rho: float
    interval: Interval
    p_adjusted: float
    p_single: float
    within_rho: float
    within_interval: Interval
    p_within: float
    evidence: tuple[str, ...]
    fewer: dict[str, int]

    @property
    def n(self) -> int:
        """Number of models with a value."""
        return int(self.column.present.sum())

    @property
    def tracks(self) -> bool:
        """Whether it tracks the target: by evidence, on the same documents."""
        return bool(self.evidence) and not self.fewer


@dataclass(frozen=True, kw_only=True)
class LeaderboardRow(TestedMetric):
    """A tested metric with every coefficient over the models that have a value.

    held_out: mean rho over random splits of the models; NaN for a metric without values for all
        models, and with too few models.
    family_interval: of rho, as of a metric named beforehand; within_families: rho of the
        differences inside families, likewise; new_family: expected rho in another family, its
        interval allowing for the choice.
    coefficients: the others, and bootstrap intervals; None where they weren't asked for.
    documents: the effect of resampling documents; None for rows without bootstrap or documents.
    alike: the columns with the most similar ranking (Spearman, with its sign); of ideas only.
    """

    held_out: float
    family_interval: Interval
    within_families: WithinFamilies
    new_family: NewFamily
    coefficients: Correlations | None
    documents: DocumentNoise | None
    alike: tuple[tuple[MetricColumn, float], ...]


@dataclass(frozen=True)
class Leaderboard:
    """Ideas first, then rows best first by signed rho, undefined ones last.

    inference: of all metrics ever tested, in the order of `table.everything`.
    tracking: what tracks the target, by evidence and on the same documents, largest rho first,
        whatever rows are shown; near_best: what can't be distinguished from the best.
    registered: the preregistered metrics, tested apart.
    baseline: the row that others are compared with, shown or not; None if there is none.
    """

    table: MetricTable
    rows: tuple[LeaderboardRow, ...]
    baseline: LeaderboardRow | None
    inference: Inference
    tracking: tuple[TestedMetric, ...]
    near_best: tuple[TestedMetric, ...]
    registered: tuple[RegisteredResult, ...]
    seed: int
    resamples: int
    clustered: bool


def infer_all(table: MetricTable) -> Inference:
    """Correlate all metrics ever tested for a problem with its target."""
    metrics = np.stack([column.oriented for column in table.everything])
    return infer(metrics, table.target, table.families, table.kinds)


def tested_metrics(table: MetricTable, inference: Inference) -> list[TestedMetric]:
    """What the inference on all metrics tested found for each of `table.columns`."""
    return [
        TestedMetric(
            column=column,
            rho=spearman(column.oriented[column.present], table.target[column.present]),
            interval=inference.overall.interval(row),
            p_adjusted=float(inference.overall.p[row]),
            p_single=float(inference.overall.single_p[row]),
            within_rho=float(inference.within.rho[row]),
            within_interval=inference.within.interval(row),
            p_within=float(inference.within.p[row]),
            evidence=inference.evidence(row),
            fewer=table.fewer_documents(column),
        )
        for row, column in enumerate(table.columns)
    ]


def best_first(metric: TestedMetric) -> tuple[float, str]:
    """Sort key: largest rho first, undefined last; equal ones by name, not by order of columns."""
    return 2.0 if math.isnan(metric.rho) else -round(metric.rho, 10), metric.column.name


def rank_metrics(
    table: MetricTable,
    seed: int,
    resamples: int,
    top: float = math.inf,
    clustered: bool = False,
    per_metric: float = math.inf,
    progress: Progress = no_progress,
    shown: Sequence[str] = (),
    parts_of: PartsOf | None = None,
) -> Leaderboard:
    """Rank the columns; ideas and the first `top` get every coefficient with bootstrap intervals.

    Values are oriented first: 'lower is better' metrics are negated, so that a positive
    rho means the metric behaves as its catalogue entry expects.

    Args:
        table: of the problem.
        seed: of bootstrap, splits and MCD filter.
        resamples: of each interval.
        top: how many rows get bootstrap intervals; all by default.
        clustered: resample families instead of models.
        per_metric: bootstrap intervals only for this number of best variants of each metric.
        progress: called for each row whose intervals over documents were computed.
        shown: the metrics to rank, all when empty; p-values count everything all the same.
        parts_of: reads a column's documents; None for no intervals over documents.

    Raises:
        TokenmartError: a metric in `shown` isn't there.
    """
    inference = infer_all(table)
    tested = tested_metrics(table, inference)
    held_out = _held_out(table, seed)
    base = default_baseline(table.columns, table.baseline)
    asked = {id(c) for c in table.columns if c.kind != "variant"}
    asked |= {id(c) for c in table.named(shown)}
    ranked = [metric for metric in tested if id(metric.column) in asked or metric.column is base]
    ranked.sort(key=lambda metric: (metric.column.kind == "variant", best_first(metric)))
    rows = []
    of_metric: Counter[str] = Counter()
    for metric in ranked:
        column = metric.column
        of_metric[column.metric] += id(column) in asked
        wanted = of_metric.total() <= top and of_metric[column.metric] <= per_metric
        wanted = wanted or column.kind != "variant" or column is base
        detailed = wanted and not math.isnan(metric.rho)
        x, y = column.oriented[column.present], table.target[column.present]
        families = list(compress(table.families, column.present))
        kinds = list(compress(table.kinds, column.present))
        reach = math.nan if math.isnan(metric.p_adjusted) else inference.overall.critical
        clusters = families if clustered else None
        rows.append(
            LeaderboardRow(
                **vars(metric),
                held_out=held_out.get(column.name, math.nan),
                family_interval=family_interval(x, y, families),
                within_families=within_families(x, y, families),
                new_family=new_family(x, y, families, kinds, reach),
                coefficients=Correlations(x, y, seed, resamples, clusters) if detailed else None,
                documents=noise_of(column, table, parts_of, seed) if detailed else None,
                alike=() if column.kind == "variant" else _most_alike(column, table),
            )
        )
        if detailed:
            progress(f"documents: {column.metric}", 1, 1.0)
    known = sorted((m for m in tested if not math.isnan(m.p_adjusted)), key=best_first)
    whole = [metric for metric in known if metric.column.present.all()]
    return Leaderboard(
        table=table,
        rows=tuple(row for row in rows if id(row.column) in asked),
        baseline=next((row for row in rows if row.column is base), None),
        inference=inference,
        tracking=tuple(metric for metric in known if metric.tracks),
        near_best=tuple(compress(whole, _near_best(whole, table))),
        registered=registered_results(table, base),
        seed=seed,
        resamples=resamples,
        clustered=clustered,
    )


def may_be_chosen(column: MetricColumn) -> bool:
    """Whether it is a variant that has a value for every model, not the same for all."""
    return column.kind == "variant" and bool(column.present.all() and np.ptp(column.oriented) > 0)


def default_baseline(columns: Sequence[MetricColumn], named: str = "") -> MetricColumn | None:
    """The baseline that the problem names; else a perplexity variant with all values.

    Of perplexity's variants the first by name, preferably one that is comparable across
    tokenizers. Without perplexity, parameters × tokens.
    """
    possible = [column for column in columns if may_be_chosen(column)]
    if named:
        return next((c for c in possible if c.name == named), None)
    for metric in BASELINES:
        found = [c for c in possible if c.metric == metric]
        preferred = [c for c in found if "byte" in c.variant or "tokens" in c.variant]
        if found:
            return min(preferred or found, key=lambda column: column.name)
    return None


def noise_of(
    column: MetricColumn, table: MetricTable, parts_of: PartsOf | None, seed: int
) -> DocumentNoise | None:
    """What drawing other documents does to a column's correlation; None without documents."""
    parts = parts_of(column) if parts_of else None
    if parts is None:
        return None
    series, errors = table.series, table.target_errors
    return document_noise(parts, column.oriented, table.target, errors, series, seed)


def _near_best(whole: Sequence[TestedMetric], table: MetricTable) -> Sequence[bool]:
    """Which of these metrics, with values for all models, can't be distinguished from the best."""
    if not whole:
        return []
    metrics = np.stack([metric.column.oriented for metric in whole])
    errors = joint_errors(metrics, table.target, [table.families, table.kinds])
    return list(indistinguishable(errors))


def _held_out(table: MetricTable, seed: int) -> dict[str, float]:
    """By a column's name, where it has a value; the splits are those of `select_metric`."""
    whole = [c for c in table.columns if c.present.all() and np.ptp(c.values) > 0]
    if not whole or len(table.models) < MINIMUM_MODELS:
        return {}
    metrics = np.stack([column.oriented for column in whole])
    found = repeated_splits(metrics, table.target, seed).variant_test.tolist()
    return dict(zip((column.name for column in whole), found, strict=True))


def _most_alike(
    column: MetricColumn, table: MetricTable, most: int = 3
) -> tuple[tuple[MetricColumn, float], ...]:
    """The variants whose Spearman with a column is largest in size, over the models of both."""
    found = []
    for other in table.columns:
        both = column.present & other.present
        rho = spearman(column.oriented[both], other.oriented[both])
        if other.kind == "variant" and not math.isnan(rho):
            found.append((other, rho))
    return tuple(sorted(found, key=lambda pair: (-round(abs(pair[1]), 10), pair[0].name))[:most])


def leaderboard_record(board: Leaderboard, progress: Progress = no_progress) -> dict[str, Any]:
    """The leaderboard as JSON-ready values; undefined numbers become None.

    `progress` is called for each row whose bootstrap intervals were computed.
    """
    table = board.table
    full_ids = [model.full_id for model in table.models]
    rows = []
    for row in board.rows:
        rows.append(row_record(row) | _details(row, full_ids))
        if row.coefficients:
            progress(f"bootstrap: {row.column.metric}", 1, 1.0)
    return {
        "problem": table.problem,
        "models": full_ids,
        "without_target": list(table.without_target),
        "baseline": board.baseline.column.name if board.baseline else None,
        "tried": table.tries,
        "tested": board.inference.tested,
        "outdated": table.outdated,
        "document_lengths": {str(length): list(ids) for length, ids in table.lengths.items()},
        "preregistered": [result.record for result in board.registered],
        "tracks_target": [metric.column.name for metric in board.tracking],
        "not_distinguishable_from_best": [metric.column.name for metric in board.near_best],
        "orientation": "metrics where lower is better are negated first",
        "seed": board.seed,
        "resamples": board.resamples,
        "clustered": board.clustered,
        "least_spearman_that_excludes_0": number(board.inference.overall.least_rho),
        "rows": rows,
    }


def row_record(row: LeaderboardRow) -> dict[str, Any]:
    """The part of a row that needs no bootstrap, as JSON-ready values."""
    return {
        "metric": row.column.metric,
        "variant": row.column.variant,
        "family": row.column.family,
        "direction": row.column.direction,
        "admissible": row.column.admissible,
        "kind": row.column.kind,
        "n": row.n,
        "held_out": number(row.held_out),
        "spearman": number(row.rho),
        "spearman_ci95_after_choice": row.interval.record,
        "spearman_ci95_family": row.family_interval.record,
        "spearman_within_families": number(row.within_families.value),
        "spearman_within_families_ci95": row.within_families.interval.record,
        "new_family": row.new_family.record,
        "p_single": number(row.p_single),
        "p_adjusted": number(row.p_adjusted),
        "p_adjusted_within_families": number(row.p_within),
        "tracks_target": row.tracks,
        "models_with_fewer_documents": row.fewer,
    }


def _details(row: LeaderboardRow, models: list[str]) -> dict[str, Any]:
    """What a row has in addition: of ideas, of documents and of the bootstrap."""
    record: dict[str, Any] = {"models_without_value": list(compress(models, ~row.column.present))}
    if row.column.kind != "variant":
        record |= {
            "definition": row.column.formula,
            "values": dict(zip(models, map(number, row.column.values), strict=True)),
            "alike": {other.name: number(rho) for other, rho in row.alike},
        }
    if noise := row.documents:
        record |= {
            "documents": noise.documents,
            "spearman_ci95_new_documents": noise.new_documents.record,
            "spearman_ci95_new_documents_and_models": noise.new_documents_and_models.record,
            "reliability_over_documents": number(noise.reliability),
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
            "spearman_ci95": found.spearman.percentile.record,
            "spearman_ci95_bca": found.spearman.bca.record,
            "pearson": number(found.pearson),
            "kendall": number(found.kendall),
            "skipped_spearman": number(found.skipped_spearman.value),
            "skipped_spearman_ci95": found.skipped_spearman.percentile.record,
            "skipped_spearman_ci95_bca": found.skipped_spearman.bca.record,
            "skipped_kept": found.skipped.kept,
            "projection_skipped_spearman": number(found.projection.value),
            "projection_skipped_kept": found.projection.kept,
        }
    return record
