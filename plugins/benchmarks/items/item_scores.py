"""Scores of single items over training, read from a long table and checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
from pydantic import model_validator

from plugins.benchmarks.refusal import refused, unknown
from plugins.benchmarks.scores.plain_rows import (
    Architecture,
    Count,
    Fact,
    Finite,
    Least0,
    Name,
    PlainRow,
    as_table,
    refuse_contradictions,
    refuse_two_orders,
    rows_of,
)


class ItemRow(PlainRow):
    """The score of one item of a benchmark for a model at a checkpoint.

    characters: of the right answer.
    """

    model: Name
    item: Name
    score: Finite
    tokens: Least0 | None = None
    step: Count | None = None
    subject: str | None = None
    characters: Count | None = None
    metric: str | None = None
    recipe: str | None = None
    size: str | None = None
    architecture: Architecture = None

    @model_validator(mode="after")
    def _has_progress(self) -> ItemRow:
        if self.tokens is None and self.step is None:
            raise ValueError("tokens or step must be given")
        return self

    @property
    def progress(self) -> float | None:
        """Where it is in training: tokens, else the step."""
        return self.step if self.tokens is None else self.tokens


_TYPES = {name: pa.string() for name in ItemRow.model_fields}
_TYPES |= {"score": pa.float64(), "tokens": pa.float64(), "step": pa.int64()}
_TYPES |= {"characters": pa.int64()}


_COMPLETE_ITEMS = """
    create table items as
    with points as (
        select
            model,
            progress,
            row_number() over (partition by model order by progress) - 1 as checkpoint
        from (select distinct model, progress from scores)
    ),

    whole as (
        select item
        from scores
        group by item
        having count(*) = (select count(*) from points)
    )

    select
        scores.model,
        points.checkpoint,
        scores.progress,
        scores.item,
        scores.score,
        scores.subject,
        scores.characters,
        scores.recipe,
        scores.shape
    from scores
    inner join points
        on scores.model = points.model and scores.progress = points.progress
    semi join whole
        on scores.item = whole.item
"""


@dataclass(frozen=True)
class ItemScores:
    """A database with `items`: a row per model, checkpoint and item.

    Columns: model, checkpoint, progress, item, score, subject, characters, recipe, shape (size and
    architecture). Every item has a row for every checkpoint of every model.

    path: where they were read. metric: its name, if the table gives one. models: their names.
        checkpoints: how many each has. shapes: model → its shape. recipes: those of the models.
        notes: what was left out.
    """

    path: Path
    metric: str | None
    database: duckdb.DuckDBPyConnection
    models: tuple[str, ...]
    checkpoints: dict[str, int]
    shapes: dict[str, str]
    recipes: frozenset[str]
    items: int
    notes: tuple[str, ...]


def read_items(path: Path, metric: str | None) -> ItemScores:
    """A table with a row per model, checkpoint and item.

    Args:
        path: CSV, Parquet or JSON lines with the fields of `ItemRow`.
        metric: scoring method to use, if the table has several.

    Raises:
        TokenmartError: the table has other columns, an invalid value, a duplicate row, or no
            complete item.
    """
    rows = rows_of(path, ItemRow)
    known = sorted({row.metric for row in rows if row.metric is not None})
    chosen = metric or (known[0] if len(known) == 1 else None)
    if (chosen and chosen not in known) or (known and chosen is None):
        raise unknown("--metric", str(metric), known)
    numbered = [(number, row) for number, row in enumerate(rows, start=1) if row.metric == chosen]
    refuse_contradictions(path, numbered, lambda row: (row.model, row.item, row.progress), _facts)
    refuse_two_orders(path, numbered)
    database = duckdb.connect()
    table = as_table((row for _, row in numbered), pa.schema(list(_TYPES.items())))
    database.register("read", table)
    database.execute(
        "create table scores as select *, coalesce(tokens, step) as progress,"
        " concat_ws(' ', size, architecture) as shape from read"
    )
    return _complete(database, path, chosen)


def _facts(row: ItemRow) -> Iterator[Fact]:
    yield "recipe, size, architecture", row.model, (row.recipe, row.size, row.architecture)
    yield "a row without tokens", row.model, row.tokens is None


def _complete(database: duckdb.DuckDBPyConnection, path: Path, metric: str | None) -> ItemScores:
    """Keep the items that every model answered at each of its checkpoints."""
    database.execute(_COMPLETE_ITEMS)
    ((given, kept),) = database.execute(
        "select (select count(distinct item) from scores), (select count(distinct item) from items)"
    ).fetchall()
    if not kept:
        what = "no item was scored at every checkpoint of every model"
        raise refused(path, what, "no-complete-item")
    rows = database.execute(
        "select model, count(distinct checkpoint), any_value(shape), any_value(recipe) from items"
        " group by 1 order by 1"
    ).fetchall()
    notes = []
    if kept < given:
        notes.append(
            f"{given - kept} of {given} items lack a score at some checkpoint and are left out"
        )
    return ItemScores(
        path=path,
        metric=metric,
        database=database,
        models=tuple(row[0] for row in rows),
        checkpoints={row[0]: row[1] for row in rows},
        shapes={row[0]: row[2] for row in rows},
        recipes=frozenset(row[3] for row in rows if row[3]),
        items=int(kept),
        notes=tuple(notes),
    )
