"""Which items of a benchmark carry signal, chosen on some models and tried on others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from plugins.benchmarks.e2lm.items import ItemScores
from plugins.benchmarks.e2lm.scores import open_scores
from warehouse.errors import TokenmartError
from warehouse.metrics.model_sql import ModelSql
from warehouse.paths import Workspace
from warehouse.store.schema import BENCHMARK_SCORES, BENCHMARK_TABLES

SQL = Path(__file__).parents[1] / "dbt" / "analyses" / "item_signal.sql"
FEWEST_CHECKPOINTS = 8
"""SQ is undefined for fewer."""

MOST_FOLDS = 5
VARIANTS = ("all", "random", "chosen")
STATISTICS = ("sq", "monotonicity", "autocorrelation")

_HALF = 2 * FEWEST_CHECKPOINTS


@dataclass(frozen=True)
class Fold:
    """Where items are chosen and where they are tried: SQL conditions on `items`."""

    name: str
    chosen_on: str
    tried_on: str


def curate(
    scores: ItemScores, workspace: Workspace, fewest: int, most: int, seed: int
) -> dict[str, Any]:
    """Choose items by what they contribute to a rise over training.

    The items are chosen on all models; what the choice is worth is told on models that had no part
    in one (and on checkpoints that had none, where each model has 16), in up to five folds.

    Args:
        scores: of single items.
        workspace: whose SQL models are used.
        fewest: items of a choice.
        most: items of a choice.
        seed: of the random items beside the chosen ones.

    Returns:
        JSON-ready: `items` (the chosen ones, best first), `signal` of every item, `held_out` by
        statistic, `by_subject` and `by_length`, and how they were found.

    Raises:
        TokenmartError: too few items, checkpoints or models.
    """
    if scores.items <= fewest:
        fewer = f", or choose fewer with --fewest {scores.items // 2}" if scores.items > 3 else ""
        raise TokenmartError(
            f"{scores.path}: {scores.items} items have a score everywhere, no choice for --fewest "
            f"{fewest}; add items{fewer}"
        )
    short = {name: n for name, n in scores.checkpoints.items() if n < FEWEST_CHECKPOINTS}
    if short:
        name, count = next(iter(short.items()))
        raise TokenmartError(
            f"{name} has {count} checkpoints; signal quality needs {FEWEST_CHECKPOINTS}: leave the "
            "model out, or add checkpoints"
        )
    folds = _folds(scores)
    sql = SQL.read_text(encoding="utf-8")
    database = scores.database
    limits = {"fewest_items": fewest, "most_items": most}
    signal = _choose(database, workspace, sql, limits, "true", "signal_all")
    for number, fold in enumerate(folds):
        _choose(database, workspace, sql, limits, fold.chosen_on, f"signal_{number}")
    held_out = _held_out(database, workspace, folds, seed)
    chosen = [row for row in signal if row["is_chosen"]]
    return {
        "items": [row["item"] for row in chosen],
        "of": scores.items,
        "models": len(scores.models),
        "folds": [fold.name for fold in folds],
        "held_out": held_out,
        "by_subject": _grouped(database, "subject"),
        "by_length": _grouped(
            database,
            "case when characters < 10 then '0 to 9' when characters < 20 then '10 to 19'"
            " when characters < 40 then '20 to 39' when characters < 80 then '40 to 79'"
            " when characters >= 80 then '80 and more' end",
        ),
        "signal": signal,
    }


def print_curation(found: dict[str, Any]) -> None:
    """What the choice is worth, by statistic, and where the chosen items lie."""
    console = Console(markup=False, emoji=False, width=110)
    view = Table(box=None, pad_edge=False, header_style="bold")
    view.add_column("on models not used for choosing")
    headings = ("all items", "random ones", "chosen", "chosen, where chosen", "optimism", "better")
    for heading in headings:
        view.add_column(heading, justify="right", no_wrap=True)
    for name, row in found["held_out"].items():
        values = (row["all"], row["random"], row["chosen"], row["in_sample"])
        view.add_row(
            name,
            *("–" if value is None else f"{value:.3f}" for value in values),
            "–" if row["optimism"] is None else f"{row['optimism']:+.3f}",
            f"{row['better']} of {row['compared']}",
        )
    console.print(view)
    for key, heading in (("by_subject", "subject"), ("by_length", "answer, characters")):
        if len(found[key]) < 2:
            continue
        view = Table(box=None, pad_edge=False, header_style="bold")
        view.add_column(heading)
        for column in ("items", "chosen", "mean score", "rise", "wobble"):
            view.add_column(column, justify="right")
        for row in found[key]:
            figures = (f"{row[name]:.3f}" for name in ("score", "rise", "wobble"))
            view.add_row(row["group"], str(row["items"]), f"{row['share_chosen']:.0%}", *figures)
        console.print()
        console.print(view)


def _folds(scores: ItemScores) -> list[Fold]:
    """Each model held out once, several at a time; halves of the checkpoints where there are 16."""
    halves = min(scores.checkpoints.values()) >= _HALF
    even, odd = ("checkpoint % 2 = 0", "checkpoint % 2 = 1") if halves else ("true", "true")
    models = scores.models
    if len(models) == 1:
        if not halves:
            raise TokenmartError(
                f"one model with {scores.checkpoints[models[0]]} checkpoints; to try a choice on "
                f"what had no part in it takes 2 models, or {_HALF} checkpoints"
            )
        return [Fold("odd checkpoints", even, odd), Fold("even checkpoints", odd, even)]
    count = min(MOST_FOLDS, len(models))
    folds = []
    for number in range(count):
        out = models[number::count]
        listed = ", ".join("'" + name.replace("'", "''") + "'" for name in out)
        folds.append(
            Fold(
                ", ".join(out) + (", odd checkpoints" if halves else ""),
                f"model not in ({listed}) and {even}",
                f"model in ({listed}) and {odd}",
            )
        )
    return folds


def _choose(
    database: duckdb.DuckDBPyConnection,
    workspace: Workspace,
    sql: str,
    limits: dict[str, int],
    where: str,
    name: str,
) -> list[dict[str, Any]]:
    """Make the table `name`: the signal of each item where a condition holds."""
    database.execute(
        "create or replace temp table item_scores as"
        f" select model, checkpoint, item, score from items where {where}"
    )
    text = ModelSql(database, workspace, limits).render(sql)
    database.execute(f"create or replace table {name} as {text}")
    rows = database.execute(f"select * from {name} order by place")
    columns = [column[0] for column in rows.description or []]
    return [dict(zip(columns, row, strict=True)) for row in rows.fetchall()]


def _held_out(
    database: duckdb.DuckDBPyConnection, workspace: Workspace, folds: list[Fold], seed: int
) -> dict[str, dict[str, Any]]:
    """SQ and its parts of all, random and chosen items, where they were and were not chosen."""
    parts = []
    for number, fold in enumerate(folds):
        for where, place in ((fold.chosen_on, "in"), (fold.tried_on, "out")):
            parts.append(
                f"""
                select
                    '{number}:{place}:' || named.variant as benchmark,
                    items.model,
                    items.progress,
                    avg(items.score) filter (where named.is_in) as score
                from items
                inner join (
                    select
                        *,
                        row_number() over (order by hash(item || '{seed}'), item)
                        <= count(*) filter (where is_chosen) over () as is_drawn
                    from signal_{number}
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
        " model as full_id, model as family, progress as tokens, score from ("
        + " union all ".join(parts)
        + ") order by all"
    ).to_arrow_table()
    for field in BENCHMARK_SCORES:
        if field.name not in table.column_names:
            table = table.append_column(field.name, pa.nulls(len(table), field.type))
    facts = {"path": "", "sha256": "", "licence": "unknown", "predict_from": ""}
    with open_scores(
        "items",
        table.select(BENCHMARK_SCORES.names),
        pa.Table.from_pylist([facts], BENCHMARK_TABLES),
    ) as series:
        order = ModelSql(series, workspace).build("int_series_order")
        rows = series.execute(
            f"select benchmark, model_id, {', '.join(STATISTICS)} from {order}"
        ).fetchall()
    values = {(*row[0].split(":"), row[1]): row[2:] for row in rows}
    return {
        name: _compared({key: row[at] for key, row in values.items() if row[at] is not None})
        for at, name in enumerate(STATISTICS)
    }


def _compared(values: dict[tuple[str, ...], float]) -> dict[str, Any]:
    """Means over models and folds; only where all three variants are defined."""
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

    held_out, in_sample = mean("chosen", "out"), mean("chosen", "in")
    defined = held_out is not None and in_sample is not None
    return {
        "all": mean("all", "out"),
        "random": mean("random", "out"),
        "chosen": held_out,
        "in_sample": in_sample,
        "optimism": round(in_sample - held_out, 6) if defined else None,  # type: ignore[operator]
        "better": sum(values[f, p, "chosen", m] > values[f, p, "all", m] for f, p, m in out),
        "compared": len(out),
    }


def _grouped(database: duckdb.DuckDBPyConnection, group: str) -> list[dict[str, Any]]:
    """Mean signal of the items of each group; groups without a name are left out."""
    rows = database.execute(
        f"""
        with groups as (
            select distinct item, {group} as label
            from items
        )

        select
            label as "group",
            count(*) as items,
            avg(case when is_chosen then 1 else 0 end) as share_chosen,
            avg(score) as score,
            avg(rise) as rise,
            avg(wobble) as wobble
        from signal_all
        inner join groups using (item)
        where label is not null
        group by label
        order by avg(merit) desc, label
        """
    )
    columns = [column[0] for column in rows.description or []]
    return [dict(zip(columns, row, strict=True)) for row in rows.fetchall()]
