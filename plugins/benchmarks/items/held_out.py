"""Held-out value of a choice of items: SQ, CS and decision accuracy on held-out models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from plugins.benchmarks.e2lm.scores import open_scores
from plugins.benchmarks.model_sql import ModelSql
from plugins.benchmarks.schema import BENCHMARK_SCORES, BENCHMARK_TABLES
from warehouse.paths import Workspace

DECISIONS = Path(__file__).parents[1] / "dbt" / "analyses" / "chosen_decisions.sql"
VARIANTS = ("all", "random", "chosen")
OF_RUNS = ("sq", "monotonicity", "autocorrelation")
OF_FOLDS = ("cs", "weighted", "decision_accuracy")

Key = tuple[str, str, str, str]
"""Fold, `in` or `out` of it, variant, and model ('' for a statistic of all models of a fold)."""


@dataclass(frozen=True)
class Fold:
    """SQL conditions on `items`: the rows for choosing items, and the rows for evaluating them."""

    name: str
    chosen_on: str
    tried_on: str


def held_out(
    database: duckdb.DuckDBPyConnection,
    workspace: Workspace,
    folds: Sequence[Fold],
    weights: tuple[float, float],
) -> dict[str, dict[str, Any]]:
    """Statistics of all, random and chosen items, in sample and held out.

    Args:
        database: contains `items`, and `signal_0` … of each fold.
        workspace: the checkout with the SQL models.
        folds: the folds of these tables.
        weights: of SQ and CS in `weighted`.

    Returns:
        Statistic → means over folds (and models) of the variants. `cs` and `weighted` are None
        without models of both recipes, `decision_accuracy` without two models in a fold.
    """
    series = _series(database, folds)
    with open_scores("items", series, _facts()) as scores:
        models = ModelSql(scores, workspace)
        order, gap = models.build("int_series_order"), models.build("int_recipe_gap")
        values: dict[str, dict[Key, float]] = {name: {} for name in (*OF_RUNS, *OF_FOLDS)}
        rows = scores.execute(f"select benchmark, model_id, {', '.join(OF_RUNS)} from {order}")
        for benchmark, model, *found in rows.fetchall():
            for name, value in zip(OF_RUNS, found, strict=True):
                _put(values[name], benchmark, model, value)
        for benchmark, value in scores.execute(f"select benchmark, cs from {gap}").fetchall():
            _put(values["cs"], benchmark, "", value)
        decided = scores.execute(models.render(DECISIONS.read_text(encoding="utf-8"))).fetchall()
        for part, variant, _, value in decided:
            _put(values["decision_accuracy"], f"{part}:{variant}", "", value)
    values["weighted"] = _weighted(values["sq"], values["cs"], weights)
    return {name: _compared(found) for name, found in values.items()}


def _put(values: dict[Key, float], benchmark: str, model: str, value: float | None) -> None:
    if value is not None:
        fold, place, variant = benchmark.split(":")
        values[fold, place, variant, model] = value


def _weighted(
    sq: Mapping[Key, float], cs: Mapping[Key, float], weights: tuple[float, float]
) -> dict[Key, float]:
    """For each fold, the weighted sum of its mean SQ and its CS."""
    found = {}
    for key, value in cs.items():
        of_fold = [one for (*fold, _), one in sq.items() if tuple(fold) == key[:3]]
        if of_fold:
            found[key] = weights[0] * sum(of_fold) / len(of_fold) + weights[1] * value
    return found


def _series(database: duckdb.DuckDBPyConnection, folds: Sequence[Fold]) -> pa.Table:
    """Mean scores over training of each variant in each fold: benchmark `fold:place:variant`."""
    parts = []
    for number, fold in enumerate(folds):
        for where, place in ((fold.chosen_on, "in"), (fold.tried_on, "out")):
            parts.append(
                f"""
                select
                    '{number}:{place}:' || named.variant as benchmark,
                    items.model,
                    any_value(items.recipe) as recipe,
                    any_value(items.shape) as shape,
                    items.progress,
                    avg(items.score) filter (where named.is_in) as score
                from items
                inner join (
                    select
                        drawn.item,
                        coalesce(signal.is_chosen, false) as is_chosen,
                        row_number() over (order by hash(drawn.item || '0'), drawn.item)
                        <= count(*) filter (where signal.is_chosen) over () as is_drawn
                    from (select distinct item from items) as drawn
                    left join signal_{number} as signal on drawn.item = signal.item
                ) as signal
                    on items.item = signal.item
                cross join lateral (
                    values ('all', true), ('random', signal.is_drawn), ('chosen', signal.is_chosen)
                ) as named (variant, is_in)
                where {where}
                group by all
                """
            )
    table = database.sql(
        "select benchmark, 'mean' as metric, 'higher' as direction, model as model_id,"
        " model as full_id, model as family, recipe, shape as size, progress as tokens, score"
        " from (" + " union all ".join(parts) + ") order by all"
    ).to_arrow_table()
    for field in BENCHMARK_SCORES:
        if field.name not in table.column_names:
            table = table.append_column(field.name, pa.nulls(len(table), field.type))
    return table.select(BENCHMARK_SCORES.names)


def _facts() -> pa.Table:
    facts = {"path": "", "sha256": "", "licence": "unknown", "predict_from": ""}
    return pa.Table.from_pylist([facts], BENCHMARK_TABLES)


def _compared(values: Mapping[Key, float]) -> dict[str, Any]:
    """Means over models and folds for which all three variants are defined."""
    keys = sorted({(fold, place, model) for fold, place, _, model in values})
    whole = [
        (fold, place, model)
        for fold, place, model in keys
        if all((fold, place, variant, model) in values for variant in VARIANTS)
    ]
    out = [key for key in whole if key[1] == "out"]

    def mean(variant: str, place: str) -> float | None:
        found = [values[f, p, variant, m] for f, p, m in whole if p == place]
        return round(sum(found) / len(found), 6) if found else None

    tried, in_sample = mean("chosen", "out"), mean("chosen", "in")
    defined = tried is not None and in_sample is not None
    return {
        "all": mean("all", "out"),
        "random": mean("random", "out"),
        "chosen": tried,
        "in_sample": in_sample,
        "optimism": round(in_sample - tried, 6) if defined else None,  # type: ignore[operator]
        "better": sum(values[f, p, "chosen", m] > values[f, p, "all", m] for f, p, m in out),
        "compared": len(out),
    }
