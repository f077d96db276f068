"""Models that a row leaves out, or compares on fewer documents than others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
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


def without_texts(table: MetricTable, columns: Sequence[MetricColumn]) -> Iterator[str]:
    """A line for each set of models that some of these columns leave out."""
    alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
    ids = [model.full_id for model in table.models]
    for column in columns:
        alike[tuple(compress(ids, ~column.present))].append(column.name)
    for models, names in alike.items():
        if models:
            more = f" and {len(names) - 1} more rows" if len(names) > 1 else ""
            rest = f" and {len(models) - _NAMED} more models" if len(models) > _NAMED else ""
            yield f"{names[0]}{more}: no value for {', '.join(models[:_NAMED])}{rest}"


def _counts(table: MetricTable, column: MetricColumn) -> list[tuple[str, int]]:
    ids = [model.full_id for model in table.models]
    return list(zip(ids, column.documents, strict=True)) if column.documents else []
