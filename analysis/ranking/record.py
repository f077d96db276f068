"""The ranking as JSON-ready values; undefined numbers become None.

The keys are described in docs/explanation/statistics.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any

from analysis.ranking.signature import signature
from analysis.statistics.correlations import kendall, number, pearson
from analysis.statistics.document_noise import DocumentParts, document_noise
from analysis.statistics.resampling import DEFAULT_RESAMPLES, skipped_estimate, spearman_estimate
from analysis.statistics.skipped import projection_skipped
from warehouse.progress import Progress, no_progress

if TYPE_CHECKING:
    from analysis.ranking.metric_table import MetricColumn
    from analysis.ranking.registered import RegisteredResult
    from analysis.ranking.results import RankedMetric, Ranking


def ranking_record(
    ranking: Ranking,
    rows: Sequence[RankedMetric],
    detailed: Sequence[RankedMetric] = (),
    parts_of: Callable[[MetricColumn], DocumentParts | None] = lambda column: None,
    resamples: int = DEFAULT_RESAMPLES,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """The ranking with these rows.

    Args:
        ranking: all of it.
        rows: in the record.
        detailed: rows that have every coefficient, with bootstrap intervals.
        parts_of: reads the documents of a column; None where there are none to resample.
        resamples: of each interval.
        progress: called for each detailed row.
    """
    details = {}
    for row in detailed:
        details[row.column] = _details(row, ranking, parts_of(row.column), resamples)
        progress(f"bootstrap: {row.column.metric}", 1)
    full_ids = [model.full_id for model in ranking.table.models]
    return {
        "problem": ranking.table.problem,
        "answer": ranking.answer,
        "models": full_ids,
        **_of_models(ranking),
        **_of_columns(ranking),
        **_of_tests(ranking),
        "seed": ranking.seed,
        "resamples": resamples,
        "rows": [
            row_record(row)
            | {"signature": signature(ranking.table, row.column)}
            | _of_idea(row, full_ids)
            | details.get(row.column, {})
            for row in rows
        ],
    }


def _of_models(ranking: Ranking) -> dict[str, Any]:
    """The groups of the models, and which models lack a score or a result rests on."""
    table = ranking.table
    return {
        "groups": {
            "families": len(set(table.families)),
            "series": len(set(table.series)),
            "series_across_families": len(set(table.series_across_families)),
            "developers": len(set(table.developers)),
            "orders": ranking.decisions.orders,
        },
        "without_target": list(table.without_target),
        "changed_labels": list(table.changed_labels),
        "document_lengths": {str(length): list(ids) for length, ids in table.lengths.items()},
        "unlabelled_series": [list(ids) for ids in ranking.joined.clusters]
        if ranking.joined
        else [],
        "carried_by": list(ranking.carried.models) if ranking.carried else [],
    }


def _of_columns(ranking: Ranking) -> dict[str, Any]:
    """Names of the metrics that are candidates, that track the target, or that can't be chosen."""
    candidates = {row.column for row in ranking.candidates}
    left_out = [
        row for row in ranking.rows if row.column.kind == "variant" and row.column not in candidates
    ]
    models = len(ranking.table.models)
    return {
        "baseline": ranking.baseline.column.name if ranking.baseline else None,
        "best": ranking.best.column.name if ranking.best else None,
        "preregistered": [_registered(result) for result in ranking.registered],
        "tracks_target": [row.column.name for row in ranking.tracking],
        "not_distinguishable_from_best": [row.column.name for row in ranking.near_best],
        "incomplete": [row.column.name for row in left_out if row.n < models],
        "inadmissible": [row.column.name for row in left_out if not row.column.admissible],
    }


def _of_tests(ranking: Ranking) -> dict[str, Any]:
    """What was tested, and the limits that the tests have."""
    table, decisions = ranking.table, ranking.decisions
    attainable = min(decisions.overall.attainable, decisions.within.attainable)
    return {
        "tested": table.tested | {"with_p": decisions.tested},
        "tested_since": table.tested_since,
        "record_missing": table.record_lost,
        "outdated": table.outdated,
        "draws": decisions.draws,
        "attainable_p": None if math.isinf(attainable) else number(attainable),
        "least_spearman_that_excludes_0": number(decisions.overall.least_rho),
        "critical": number(decisions.overall.critical),
        "critical_within_families": number(decisions.within.critical),
        "design_effect": number(decisions.overall.design_effect),
        "choice": ranking.choice.record if ranking.choice else None,
        "noise_ceiling_pearson": number(ranking.noise_ceiling),
    }


def row_record(row: RankedMetric) -> dict[str, Any]:
    """What is decided about a row, as JSON-ready values."""
    return {
        "metric": row.column.metric,
        "variant": row.column.variant,
        "family": row.column.family,
        "direction": row.column.direction,
        "admissible": row.column.admissible,
        "kind": row.column.kind,
        "n": row.n,
        "verdict": row.verdict,
        "evidence": list(row.evidence),
        "tracks_target": row.tracks,
        "distinguishable_from_best": not row.near_best,
        "spearman": number(row.rho),
        "spearman_ci95_after_choice": row.interval.record,
        "p_adjusted": number(row.p_adjusted),
        "spearman_within_families": number(row.within_rho),
        "spearman_within_families_ci95_after_choice": row.within_interval.record,
        "p_adjusted_within_families": number(row.p_within),
        "minus_baseline": number(row.minus_baseline),
        "p_beats_baseline": number(row.p_beats_baseline),
        "leads_baseline": row.leads,
        "partial_given_log_parameters": number(row.partial),
        "models_with_fewer_documents": row.fewer,
    }


def _registered(result: RegisteredResult) -> dict[str, Any]:
    """The result of a preregistered metric."""
    entry, within = result.prediction.entry, result.decisions.within
    return {
        "metric": result.prediction.metric.name,
        "direction": result.prediction.metric.direction,
        "entry": entry.number,
        "sha256": entry.sha256,
        "before_labels": entry.before_labels,
        "changed_since": list(result.prediction.changed),
        "not_covered": list(entry.not_covered),
        "models_without_target": result.unscored,
        "models_with_fewer_documents": result.fewer,
        "code": result.code,
        "spearman": number(result.rho),
        "spearman_ci": result.decisions.overall.interval(result.place).record,
        "spearman_within_families": number(float(within.rho[result.place])),
        "spearman_within_families_ci": within.interval(result.place).record,
        "evidence": list(result.decisions.evidence(result.place)),
        "p_one_sided": number(result.decisions.p(result.place)),
        "level": entry.level,
        "holds": result.code == "confirmed",
    }


def _of_idea(row: RankedMetric, models: list[str]) -> dict[str, Any]:
    record: dict[str, Any] = {"models_without_value": list(compress(models, ~row.column.present))}
    if row.column.kind == "variant":
        return record
    return record | {
        "definition": row.column.formula,
        "values": dict(zip(models, map(number, row.column.values), strict=True)),
        "alike": {other.name: number(rho) for other, rho in row.alike},
    }


def _details(
    row: RankedMetric, ranking: Ranking, parts: DocumentParts | None, resamples: int
) -> dict[str, Any]:
    """Every coefficient of a row, with bootstrap intervals; empty where rho is undefined."""
    column, target, seed = row.column, ranking.table.target, ranking.seed
    if math.isnan(row.rho):
        return {}
    record: dict[str, Any] = {}
    series = ranking.table.series
    if parts and (noise := document_noise(parts, column.oriented, target, series, seed)):
        record = {
            "documents": noise.documents,
            "spearman_ci95_new_documents": noise.interval.record,
            "spearman_ci95_new_documents_and_models": noise.of_both.record,
            "reliability_over_documents": number(noise.reliability),
        }
    x, y = column.oriented[column.present], target[column.present]
    rho, projection = spearman_estimate(x, y, seed, resamples), projection_skipped(x, y, seed)
    skipped, points = skipped_estimate(x, y, seed, resamples)
    return record | {
        "spearman_ci95": rho.percentile.record,
        "spearman_ci95_bca": rho.bca.record,
        "pearson": number(pearson(x, y)),
        "kendall": number(kendall(x, y)),
        "skipped_spearman": number(skipped.value),
        "skipped_spearman_ci95": skipped.percentile.record,
        "skipped_spearman_ci95_bca": skipped.bca.record,
        "skipped_kept": points.kept,
        "projection_skipped_spearman": number(projection.value),
        "projection_skipped_kept": projection.kept,
    }
