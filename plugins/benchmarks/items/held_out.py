"""Held-out value of a choice of items: SQ, CS and decision accuracy on held-out models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from plugins.benchmarks.e2lm.scores import open_scores
from plugins.benchmarks.model_sql import ModelSql
from plugins.benchmarks.schema import BENCHMARK_SCORES, BENCHMARK_TABLES
from warehouse.paths import Workspace

DECISIONS = Path(__file__).with_name("chosen_decisions.sql")
DRAWS = 200
"""Random choices of as many items as are chosen."""

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

    Random items are drawn `DRAWS` times, as many as are chosen.

    Args:
        database: contains `items`, and `signal_0` … of each fold.
        workspace: the checkout with the SQL models.
        folds: the folds of these tables.
        weights: of SQ and CS in `weighted`.

    Returns:
        Statistic → means over folds (and models) of the variants; `random` is the mean of the
        draws, `random_low` and `random_high` the interval that has 95% of them. `cs` and `weighted`
        are None without models of both recipes, `decision_accuracy` without two models in a fold.
    """
    series = _series(database, folds)
    with open_scores("items", series, _facts()) as scores:
        models = ModelSql(scores, workspace)
        order, gap = models.build("int_series_order"), models.build("int_recipe_gap")
        values: dict[str, dict[Key, float]] = {name: {} for name in (*OF_RUNS, *OF_FOLDS)}
        rows = scores.execute(f"select benchmark, model_id, {', '.join(OF_RUNS)} from {order}")
        for benchmark, model, *of_runs in rows.fetchall():
            for name, value in zip(OF_RUNS, of_runs, strict=True):
                _put(values[name], benchmark, model, value)
        for benchmark, value in scores.execute(f"select benchmark, cs from {gap}").fetchall():
            _put(values["cs"], benchmark, "", value)
        decided = scores.execute(DECISIONS.read_text(encoding="utf-8")).fetchall()
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
    weighted = {}
    for key, value in cs.items():
        of_fold = [one for (*fold, _), one in sq.items() if tuple(fold) == key[:3]]
        if of_fold:
            weighted[key] = weights[0] * sum(of_fold) / len(of_fold) + weights[1] * value
    return weighted


def _series(database: duckdb.DuckDBPyConnection, folds: Sequence[Fold]) -> pa.Table:
    """Mean scores over training of each variant in each fold: benchmark `fold:place:variant`.

    Variants are `all`, `chosen`, and, held out, a number for each random draw.
    """
    _draw_items(database, len(folds))
    parts = []
    for number, fold in enumerate(folds):
        of_fold = f"fold = {number}"
        for where, place, variants in (
            (fold.chosen_on, "in", f"{of_fold} and variant in ('all', 'chosen')"),
            (fold.tried_on, "out", of_fold),
        ):
            parts.append(
                f"""
                select
                    '{number}:{place}:' || variants.variant as benchmark,
                    items.model,
                    any_value(items.recipe) as recipe,
                    any_value(items.shape) as shape,
                    items.progress,
                    avg(items.score) as score
                from items
                inner join variants using (item)
                where ({where}) and {variants}
                group by variants.variant, items.model, items.progress
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


def _draw_items(database: duckdb.DuckDBPyConnection, folds: int) -> None:
    """Make the table `variants`: fold, variant, and each item of it."""
    rows = database.sql("select distinct item from items order by item").fetchall()
    names = np.array([name for (name,) in rows], dtype=object)
    draw = np.random.default_rng(0)
    pieces = []
    for fold in range(folds):
        query = f"select item from signal_{fold} where is_chosen"
        chosen = np.array([name for (name,) in database.sql(query).fetchall()], dtype=object)
        drawn = [draw.choice(names, len(chosen), replace=False) for _ in range(DRAWS)]
        for variant, items in (("all", names), ("chosen", chosen), *enumerate(drawn)):
            columns = {"item": items, "variant": [str(variant)] * len(items)}
            pieces.append(pa.table({**columns, "fold": [fold] * len(items)}))
    database.register("given_variants", pa.concat_tables(pieces))
    database.execute("create or replace temp table variants as from given_variants")
    database.unregister("given_variants")


def _facts() -> pa.Table:
    facts = {"path": "", "sha256": "", "licence": "unknown", "predict_from": "[]"}
    return pa.Table.from_pylist([facts], BENCHMARK_TABLES)


def _compared(values: Mapping[Key, float]) -> dict[str, Any]:
    """Means over the models and folds for which all and the chosen items have a value."""
    whole = [
        (fold, place, model)
        for fold, place, variant, model in sorted(values)
        if variant == "chosen" and (fold, place, "all", model) in values
    ]
    out = [key for key in whole if key[1] == "out"]

    def mean(variant: str, place: str) -> float | None:
        of_place = [values.get((f, p, variant, m)) for f, p, m in whole if p == place]
        known = [value for value in of_place if value is not None]
        return round(sum(known) / len(known), 6) if known and len(known) == len(of_place) else None

    held_out, in_sample = mean("chosen", "out"), mean("chosen", "in")
    defined = held_out is not None and in_sample is not None
    random = [value for n in range(DRAWS) if (value := mean(str(n), "out")) is not None]
    low, high = np.quantile(random, [0.025, 0.975]).tolist() if random else (None, None)
    return {
        "all": mean("all", "out"),
        "random": round(sum(random) / len(random), 6) if random else None,
        "random_low": low if low is None else round(low, 6),
        "random_high": high if high is None else round(high, 6),
        "chosen": held_out,
        "in_sample": in_sample,
        "optimism": round(in_sample - held_out, 6) if defined else None,  # type: ignore[operator]
        "better": sum(values[f, p, "chosen", m] > values[f, p, "all", m] for f, p, m in out),
        "compared": len(out),
    }
