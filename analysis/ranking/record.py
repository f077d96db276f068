"""The ranking as JSON-ready values; undefined numbers become None.

The keys are described in docs/explanation/statistics.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any

from analysis.statistics.correlations import kendall, number, pearson
from analysis.statistics.skipped import projection_skipped

if TYPE_CHECKING:
    from analysis.ranking.results import Details, RankedMetric, Ranking


def ranking_record(
    ranking: Ranking, rows: Sequence[RankedMetric], details: Mapping[int, Details] | None = None
) -> dict[str, Any]:
    """The ranking with these rows, and what `details_of` found of them."""
    table, decisions = ranking.table, ranking.decisions
    full_ids = [model.full_id for model in table.models]
    candidates = {id(row.column) for row in ranking.candidates}
    of_build = [row for row in ranking.rows if row.column.kind == "variant"]
    left_out = [row for row in of_build if id(row.column) not in candidates]
    attainable = min(decisions.overall.attainable, decisions.within.attainable)
    return {
        "problem": table.problem,
        "answer": ranking.answer,
        "models": full_ids,
        "groups": {
            "families": len(set(table.families)),
            "kinds": len(set(table.own_series)),
            "series": len(set(table.series)),
            "developers": len(set(table.developers)),
            "orders": decisions.orders,
        },
        "attainable_p": None if math.isinf(attainable) else number(attainable),
        "without_target": list(table.without_target),
        "baseline": ranking.baseline.column.name if ranking.baseline else None,
        "best": ranking.best.column.name if ranking.best else None,
        "tried": table.tested,
        "tested": decisions.tested,
        "outdated": table.outdated,
        "document_lengths": {str(length): list(ids) for length, ids in table.lengths.items()},
        "preregistered": [result.record for result in ranking.registered],
        "tracks_target": [row.column.name for row in ranking.tracking],
        "not_distinguishable_from_best": [row.column.name for row in ranking.near_best],
        "incomplete": [r.column.name for r in left_out if r.n < len(full_ids)],
        "inadmissible": [r.column.name for r in left_out if not r.column.admissible],
        "least_spearman_that_excludes_0": number(decisions.overall.least_rho),
        "critical": number(decisions.overall.critical),
        "critical_within_families": number(decisions.within.critical),
        "design_effect": number(decisions.overall.design_effect),
        "choice": ranking.choice.record if ranking.choice else None,
        "noise_ceiling_pearson": number(ranking.noise_ceiling),
        "seed": ranking.seed,
        "resamples": ranking.resamples,
        "rows": [
            row_record(row) | _details(row, full_ids, (details or {}).get(id(row.column)))
            for row in rows
        ],
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
        "partial_given_log_parameters": number(row.partial),
        "new_family": row.new_family.record,
        "models_with_fewer_documents": row.fewer,
    }


def _details(row: RankedMetric, models: list[str], details: Details | None) -> dict[str, Any]:
    """What a row has in addition: of ideas, of documents and of the bootstrap."""
    record: dict[str, Any] = {"models_without_value": list(compress(models, ~row.column.present))}
    if row.column.kind != "variant":
        record |= {
            "definition": row.column.formula,
            "values": dict(zip(models, map(number, row.column.values), strict=True)),
            "alike": {other.name: number(rho) for other, rho in row.alike},
        }
    if details is None:
        return record
    if noise := details.documents:
        record |= {
            "documents": noise.documents,
            "spearman_ci95_new_documents": noise.interval.record,
            "reliability_over_documents": number(noise.reliability),
        }
    found = details.coefficients
    projection = projection_skipped(found.x, found.y, found.seed)
    return record | {
        "spearman_ci95": found.spearman.percentile.record,
        "spearman_ci95_bca": found.spearman.bca.record,
        "pearson": number(pearson(found.x, found.y)),
        "kendall": number(kendall(found.x, found.y)),
        "skipped_spearman": number(found.skipped_spearman.value),
        "skipped_spearman_ci95": found.skipped_spearman.percentile.record,
        "skipped_spearman_ci95_bca": found.skipped_spearman.bca.record,
        "skipped_kept": found.skipped.kept,
        "projection_skipped_spearman": number(projection.value),
        "projection_skipped_kept": projection.kept,
    }
