"""Per-document parts of a variant, and what drawing other documents does to its correlation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np

from analysis.ranking.metric_table import MetricColumn, MetricTable
from analysis.statistics.document_noise import Aggregation, DocumentParts, TwoSources, two_sources
from analysis.statistics.pairwise import (
    PairCounts,
    count_pairs,
    p_from_documents,
    p_from_errors,
    soft_pairwise_accuracy,
)

if TYPE_CHECKING:
    from warehouse.paths import Workspace

DOCUMENT_RESAMPLES = 10_000
MINIMUM_DOCUMENTS = 2

_TURNED: dict[Aggregation, Aggregation] = {"q10": "q90", "q90": "q10"}
"""The same documents once values are negated: the highest decile becomes the lowest."""

PartsOf = Callable[[MetricColumn], DocumentParts | None]

_PARTS = """
    select model_id, doc_id, numerator, denominator, weight
    from metric_parts
    where problem = ? and metric = ? and variant = ?
"""


@dataclass(frozen=True)
class DocumentNoise:
    """Effect of sampling documents on one variant's correlation, over the models with a value.

    documents: how many.
    sources: intervals by what is resampled.
    soft_pairs: soft pairwise accuracy; NaN without standard errors of the target.
    pairs: pairs of models that the target separates, near-ties, ties; None likewise.
    """

    documents: int
    sources: TwoSources
    soft_pairs: float
    pairs: PairCounts | None


def parts_reader(workspace: Workspace, table: MetricTable) -> PartsOf | None:
    """A function from a column to its parts; None where no build has made `metric_parts`.

    It gives None for ideas, whose numbers have no documents, and for variants of one document.
    """
    from warehouse.sql.connection import connect_read_only

    with connect_read_only(workspace) as connection:
        found = connection.execute(
            "select 1 from information_schema.tables where table_name = 'metric_parts'"
        ).fetchone()
    if found is None:
        return None

    def read(column: MetricColumn) -> DocumentParts | None:
        if column.kind != "variant":
            return None
        with connect_read_only(workspace) as connection:
            asked = [table.problem, column.metric, column.variant]
            rows = connection.execute(_PARTS, asked).fetchall()
        return _parts(table, column, rows)

    return read


def document_noise(
    parts: DocumentParts | None, table: MetricTable, column: MetricColumn, seed: int
) -> DocumentNoise | None:
    """Resample documents and models, compare pairs of models; None without parts.

    Args:
        parts: of the column, over all models of the table.
        table: of the problem.
        column: a variant.
        seed: of resamples and swaps.
    """
    if parts is None:
        return None
    here = column.present & parts.present.any(axis=1)
    if here.sum() < 3:
        return None
    own = parts.pick(np.flatnonzero(here), np.arange(parts.documents))
    scores, errors = table.target[here], table.target_errors[here]
    series = list(compress(table.series, here))
    clusters = series if len(set(series)) < len(series) else None
    sources = two_sources(own, scores, seed, DOCUMENT_RESAMPLES, clusters)
    if not np.isfinite(errors).all():
        return DocumentNoise(parts.documents, sources, float("nan"), None)
    p_target = p_from_errors(scores, errors)
    return DocumentNoise(
        documents=parts.documents,
        sources=sources,
        soft_pairs=soft_pairwise_accuracy(p_target, p_from_documents(own, seed)),
        pairs=count_pairs(scores, p_target, column.oriented[here]),
    )


def _parts(
    table: MetricTable, column: MetricColumn, rows: list[tuple[Any, ...]]
) -> DocumentParts | None:
    """Rows of the mart as oriented parts; None for fewer than two documents."""
    aggregation = column.parameters.get("aggregation", "micro")
    documents = {doc_id: place for place, doc_id in enumerate(sorted({row[1] for row in rows}))}
    if len(documents) < MINIMUM_DOCUMENTS or aggregation not in get_args(Aggregation):
        return None
    models = {model.model_id: place for place, model in enumerate(table.models)}
    parts = np.full((3, len(models), len(documents)), np.nan)
    for model_id, doc_id, *values in rows:
        if model_id in models:
            parts[:, models[model_id], documents[doc_id]] = [
                np.nan if value is None else value for value in values
            ]
    known = cast("Aggregation", aggregation)
    weight = parts[2] if np.isfinite(parts[2]).any() else None
    if column.direction == "lower":
        return DocumentParts(-parts[0], parts[1], _TURNED.get(known, known), weight)
    return DocumentParts(parts[0], parts[1], known, weight)
