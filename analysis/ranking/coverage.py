"""Models whose value rests on fewer documents than that of another: compared on unlike texts."""

from __future__ import annotations

from itertools import compress

from analysis.ranking.metric_table import MetricColumn, MetricTable

_NAMED = 3


def fewer_documents(table: MetricTable, column: MetricColumn) -> dict[str, int]:
    """Full id → documents, of the models with fewer than another; empty where all have as many."""
    counts = dict(compress(_counts(table, column), column.present))
    return {full_id: count for full_id, count in counts.items() if count < max(counts.values())}


def fewer_text(table: MetricTable, column: MetricColumn) -> str:
    """The same in words; empty where all have as many."""
    fewer = fewer_documents(table, column)
    most = max(column.documents, default=0)
    named = [f"{full_id} {count} of {most}" for full_id, count in list(fewer.items())[:_NAMED]]
    more = f" and {len(fewer) - _NAMED} more models" if len(fewer) > _NAMED else ""
    return f"{', '.join(named)}{more}"


def _counts(table: MetricTable, column: MetricColumn) -> list[tuple[str, int]]:
    ids = [model.full_id for model in table.models]
    return list(zip(ids, column.documents, strict=True)) if column.documents else []
