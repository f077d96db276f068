"""Scores of single items over training, read from a long table and checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb

from plugins.benchmarks.scores.score_table import refuse_two_orders
from warehouse.errors import TokenmartError, did_you_mean
from warehouse.importers.plain_table import check_columns
from warehouse.table_file import load_rows

REQUIRED = ("model", "item", "score")
PROGRESS = ("tokens", "step")
OF_MODELS = ("recipe", "size", "architecture")
OPTIONAL = ("subject", "characters", "metric", *OF_MODELS)


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
        path: CSV, Parquet or JSON lines with `model`, `item`, `score`, and `tokens` or `step`;
            `subject`, `characters` (of the right answer), `metric`, `recipe`, `size` and
            `architecture` are optional.
        metric: scoring method to use, if the table has several.

    Raises:
        TokenmartError: the table has other columns, an invalid value, a duplicate row, or no
            complete item.
    """
    database = duckdb.connect()
    columns = load_rows(database, path, "given")
    if database.execute("select count(*) from given").fetchall() == [(0,)]:
        raise TokenmartError(f"{path}: contains no row; nothing to choose from")
    progress = _check_columns(path, columns)
    metric = _one_metric(database, path, metric, columns)
    _type(database, path, progress, columns)
    if set(PROGRESS) <= set(columns):
        refuse_two_orders(database, path, "given")
    return _complete(database, path, metric)


def _check_columns(path: Path, columns: list[str]) -> str:
    known = [*REQUIRED, *PROGRESS, *OPTIONAL]
    check_columns(path, columns, known, REQUIRED)
    progress = [name for name in PROGRESS if name in columns]
    if not progress:
        raise TokenmartError(f"{path}: neither a column 'tokens' nor 'step'; add one")
    return progress[0]


def _one_metric(
    database: duckdb.DuckDBPyConnection, path: Path, wanted: str | None, columns: list[str]
) -> str | None:
    """Keep the rows of one scoring method; its name, if the table has it."""
    if "metric" not in columns:
        if wanted is not None:
            raise TokenmartError(f"--metric {wanted}: {path} has no column 'metric'; leave it out")
        return None
    rows = database.execute("select distinct metric from given order by 1").fetchall()
    known = [str(name) for (name,) in rows]
    if wanted is None and len(known) > 1:
        raise TokenmartError(
            f"{path}: read in several ways; choose with --metric: {', '.join(known)}"
        )
    if wanted is not None and wanted not in known:
        raise TokenmartError(
            f"--metric {wanted}: not in {path}; {did_you_mean(wanted, known)}it has "
            f"{', '.join(known)}"
        )
    if wanted is not None:
        database.execute("delete from given where metric is distinct from ?", [wanted])
    return wanted or known[0]


def _type(
    database: duckdb.DuckDBPyConnection, path: Path, progress: str, columns: list[str]
) -> None:
    for name, wanted, least in (
        ("score", "a finite number", ""),
        (progress, "a number of at least 0", f" or try_cast({progress} as double) < 0"),
    ):
        bad = database.execute(
            f"select row_number, {name} from given where try_cast({name} as double) is null"
            f" or not isfinite(try_cast({name} as double)){least} order by 1 limit 1"
        ).fetchone()
        if bad:
            raise TokenmartError(
                f"{path}: row {bad[0]}: {name} is {bad[1]!r}, expected {wanted}; correct the row"
            )
    for name in ("model", "item"):
        bad = database.execute(
            f"select row_number from given where nullif(cast({name} as varchar), '') is null"
            " order by 1 limit 1"
        ).fetchone()
        if bad:
            raise TokenmartError(f"{path}: row {bad[0]}: {name} is missing; correct the row")
    subject = "cast(subject as varchar)" if "subject" in columns else "cast(null as varchar)"
    length = "try_cast(characters as integer)" if "characters" in columns else "cast(null as int)"
    words = {
        name: f"nullif(cast({name} as varchar), '')" if name in columns else "cast(null as varchar)"
        for name in OF_MODELS
    }
    database.execute(
        f"""
        create table scores as
        select
            row_number,
            cast(model as varchar) as model,
            cast({progress} as double) as progress,
            cast(item as varchar) as item,
            cast(score as double) as score,
            {subject} as subject,
            {length} as characters,
            {words["recipe"]} as recipe,
            concat_ws(' ', {words["size"]}, {words["architecture"]}) as shape
        from given
        """
    )
    several = database.execute(
        "select model, min(row_number) from scores group by model"
        " having count(distinct (recipe, shape)) > 1 order by 2 limit 1"
    ).fetchone()
    if several:
        raise TokenmartError(
            f"{path}: {several[0]} has rows with different recipe, size or architecture; correct "
            "them, or give each model a name of its own"
        )
    twice = database.execute(
        "select min(row_number), max(row_number), model, item from scores"
        " group by model, progress, item having count(*) > 1 order by 1 limit 1"
    ).fetchone()
    if twice:
        raise TokenmartError(
            f"{path}: rows {twice[0]} and {twice[1]} both score item {twice[3]!r} for {twice[2]} "
            "at one checkpoint; remove one"
        )


def _complete(database: duckdb.DuckDBPyConnection, path: Path, metric: str | None) -> ItemScores:
    """Keep the items that every model answered at each of its checkpoints."""
    database.execute(
        """
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
    )
    ((given, kept),) = database.execute(
        "select (select count(distinct item) from scores), (select count(distinct item) from items)"
    ).fetchall()
    if not kept:
        raise TokenmartError(
            f"{path}: no item was scored at every checkpoint of every model; complete the table"
        )
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
