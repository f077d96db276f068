"""Read plain tables of scores over training, check every row, and convert them to one schema.

A row is one score of one run at one checkpoint: CSV, JSON lines or Parquet with the columns of
`COLUMNS`. A table with an invalid row is refused; the error describes the first one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from plugins.benchmarks.scores.metric_directions import Direction, direction_of
from plugins.benchmarks.tables.benchmarks import BENCHMARK_SCORES, MODEL_SCORES
from warehouse.errors import TokenmartError
from warehouse.importers.plain_table import read_plain

REQUIRED = ("model", "benchmark", "score")
COLUMNS = {
    "model": "varchar",
    "family": "varchar",
    "size": "varchar",
    "architecture": "varchar",
    "recipe": "varchar",
    "parameters": "bigint",
    "step": "bigint",
    "tokens": "double",
    "benchmark": "varchar",
    "metric": "varchar",
    "direction": "varchar",
    "score": "double",
    "stderr": "double",
}
"""Column → type. The default of `metric` is `score`; the default direction is that of the name: of
the metric, or of the benchmarks if the metric is `score`."""

ONE_DIRECTION = (
    "a metric has one direction: name the losses in the column 'metric' (loss, perplexity, …), or "
    "write one file per direction (a problem of kind table reads several metrics from one file, "
    "`tokenmart e2lm score` that of --metric)"
)

OTHER_NAMES = {"arch": ("architecture", "{}"), "tokens_bt": ("tokens", "{} * 1e9")}
"""Alternative column name → the column, and the function that converts its values."""

MOST_TOKENS = 1e14
"""More billions of tokens than any model is trained on: `tokens_bt` then contains tokens."""

_RUN = ("family", "size", "architecture", "recipe", "parameters")
_PLACE = ("tokens", "step")
_POINT = ("model", "benchmark", "metric", *_PLACE)
_MODEL_POINT = ("model", "benchmark", "metric", "document")
_SLUG = "replace(model, '/', '--')"


def read_scores(
    path: Path,
    required: Sequence[str] = REQUIRED,
    assumed: dict[str, Direction] | None = None,
) -> pa.Table:
    """A plain table of scores, in the columns of `BENCHMARK_SCORES`, sorted.

    Args:
        path: CSV, TSV, JSON lines or Parquet.
        required: required columns, under any of their names.
        assumed: receives metric → direction for the directions that are not in the table.

    Raises:
        TokenmartError: the file can't be read, has other columns, or a row is invalid; the message
            has file, row, column, value and remedy.
    """
    with duckdb.connect() as connection:
        read_plain(connection, path, COLUMNS, required, OTHER_NAMES)
        _refuse_plain_counts(connection, path)
        connection.execute("alter table plain rename to scores")
        connection.execute("update scores set metric = coalesce(metric, 'score')")
        directions = _check_rows(connection, path, _POINT)
        if assumed is not None:
            assumed |= directions
        return _stored(connection)


def direction_notes(assumed: Mapping[str, Direction]) -> tuple[str, ...]:
    """A note on each metric whose direction is not in its table."""
    return tuple(
        f"{metric}: {direction} is taken as better, by name, because the table's column "
        "'direction' is missing or empty; if that is wrong, fill it (higher or lower)"
        for metric, direction in sorted(assumed.items())
    )


def tokens_notes(most: float | None) -> tuple[str, ...]:
    """A note if `most` tokens of any checkpoint are so few that they may be billions."""
    if not most or most >= MOST_TOKENS / 1e9:
        return ()
    return (
        f"tokens: {most:.15g} at most, taken as single tokens; if these are billions, name the "
        "column 'tokens_bt'",
    )


def read_model_scores(path: Path, assumed: dict[str, Direction] | None = None) -> pa.Table:
    """A plain table of models' scores, in the columns of `MODEL_SCORES`, sorted.

    Like `read_scores`, but a model has one score per benchmark and metric, or one per document
    (column `document`).

    Raises:
        TokenmartError: as `read_scores`; or only some scores of a benchmark and metric have a
            document.
    """
    with duckdb.connect() as connection:
        columns = {**COLUMNS, "document": "varchar"}
        read_plain(connection, path, columns, REQUIRED, OTHER_NAMES)
        _refuse_plain_counts(connection, path)
        connection.execute("alter table plain rename to scores")
        connection.execute("update scores set metric = coalesce(metric, 'score')")
        directions = _check_rows(connection, path, _MODEL_POINT)
        if assumed is not None:
            assumed |= directions
        mixed = connection.execute(
            "select min(row_number) filter (where document is null),"
            " min(row_number) filter (where document is not null), metric, benchmark from scores"
            " group by metric, benchmark having min(document is null) != max(document is null)"
            " order by 1 limit 1"
        ).fetchone()
        if mixed:
            raise TokenmartError(
                f"{path}: row {mixed[0]} gives {mixed[2]} of {mixed[3]} without a document and row "
                f"{mixed[1]} with one; name a document in all of them or in none"
            )
        table: pa.Table = connection.sql(
            f"select {_SLUG} as model_id, model as full_id, coalesce(family, model) as family,"
            " parameters, benchmark, metric, document, false as each_document, direction, score"
            " from scores order by metric, benchmark, document, model_id"
        ).to_arrow_table()
        return table.cast(MODEL_SCORES)


def _check_rows(
    connection: duckdb.DuckDBPyConnection, path: Path, point: Sequence[str]
) -> dict[str, Direction]:
    """Add missing directions and refuse invalid rows; `point`: columns that identify a score.

    Returns:
        The added directions by metric.
    """
    assumed = _complete_directions(connection, path)
    _refuse_rows(connection, path, point)
    _refuse_runs(connection, path, assumed)
    refuse_two_orders(connection, path, "scores")
    return assumed


def refuse_two_orders(connection: duckdb.DuckDBPyConnection, path: Path, table: str) -> None:
    """Refuse checkpoints that tokens and steps put into different orders.

    Args:
        connection: with the table.
        path: for the message.
        table: with row_number, model, tokens and step.

    Raises:
        TokenmartError: more steps have fewer tokens; the message names two rows.
    """
    found = connection.execute(
        f"""
        with points as (
            select
                model,
                try_cast(step as double) as step,
                try_cast(tokens as double) as tokens,
                min(row_number) as row
            from {table}
            group by all
        ),

        pairs as (
            select
                model,
                row,
                tokens,
                lag(row) over by_step as row_before,
                lag(tokens) over by_step as tokens_before
            from points
            where step is not null and tokens is not null
            window by_step as (partition by model order by step, tokens)
        )

        select model, row_before, row from pairs where tokens < tokens_before order by row limit 1
        """
    ).fetchone()
    if found:
        model, before, row = found
        raise TokenmartError(
            f"{path}: row {row} of {model} has more steps and fewer tokens than row {before}; "
            "correct one of them"
        )


def _refuse_plain_counts(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Refuse numbers of tokens in the column for billions of tokens."""
    bad = connection.execute(
        f"select row_number, tokens / 1e9 from plain where tokens > {MOST_TOKENS}"
        " order by row_number limit 1"
    ).fetchone()
    names = {str(row[0]) for row in connection.execute("describe given").fetchall()}
    if bad and "tokens_bt" in names:
        raise TokenmartError(
            f"{path}: row {bad[0]}: tokens_bt is {bad[1]:.15g}, expected billions of tokens; "
            "divide by 1e9, or name the column 'tokens'"
        )


def _complete_directions(connection: duckdb.DuckDBPyConnection, path: Path) -> dict[str, Direction]:
    """Set a missing direction from the metric's name, or from the benchmarks' if it is `score`.

    Raises:
        TokenmartError: a name without a direction, or benchmarks of two directions.
    """
    assumed: dict[str, Direction] = {}
    rows = connection.execute(
        "select metric, min(row_number) from scores where direction is null group by all order by 2"
    ).fetchall()
    for metric, row in rows:
        direction = _direction_of_benchmarks(connection, path) if metric == "score" else None
        direction = direction or direction_of(metric)
        if direction is None:
            raise TokenmartError(
                f"{path}: row {row}: direction is missing, and doesn't follow from the name "
                f"{metric!r}; write higher or lower into the column 'direction'"
            )
        connection.execute(
            "update scores set direction = ? where direction is null and metric = ?",
            [direction, metric],
        )
        assumed[metric] = direction
    return assumed


def _direction_of_benchmarks(connection: duckdb.DuckDBPyConnection, path: Path) -> Direction | None:
    """Direction of scores without a metric, if their benchmarks are named after a loss."""
    rows = connection.execute(
        "select benchmark, min(row_number) from scores where direction is null"
        " and metric = 'score' and benchmark is not null group by all order by 2"
    ).fetchall()
    of_loss = [(name, row) for name, row in rows if direction_of(name) == "lower"]
    others = [(name, row) for name, row in rows if direction_of(name) != "lower"]
    if of_loss and others:
        (lower, row), (other, other_row) = of_loss[0], others[0]
        raise TokenmartError(
            f"{path}: row {row}: of {lower!r} lower is better by its name, and of {other!r} (row "
            f"{other_row}) higher; {ONE_DIRECTION}. If a name misleads, fill the column 'direction'"
        )
    return "lower" if of_loss else None


def _refuse_rows(connection: duckdb.DuckDBPyConnection, path: Path, point: Sequence[str]) -> None:
    """Refuse the first row with an impossible value or a duplicate score."""
    for column, wrong, wanted in (
        ("model", "model is null", "a name"),
        ("benchmark", "benchmark is null", "a name"),
        ("score", "score is null or not isfinite(score)", "a finite number"),
        ("stderr", "not isfinite(stderr) or stderr < 0", "a finite number of at least 0"),
        ("tokens", "not isfinite(tokens) or tokens < 0", "a finite number of at least 0"),
        ("step", "step < 0", "a whole number of at least 0"),
        ("parameters", "parameters <= 0", "a whole number above 0"),
        ("direction", "direction not in ('higher', 'lower')", "higher or lower"),
    ):
        bad = connection.execute(
            f"select row_number, {column} from scores where {wrong} order by row_number limit 1"
        ).fetchone()
        if bad:
            found = "is missing" if bad[1] is None else f"is {bad[1]}"
            raise TokenmartError(
                f"{path}: row {bad[0]}: {column} {found}, expected {wanted}; correct the row or "
                "remove it"
            )
    twice = connection.execute(
        f"select min(row_number), max(row_number), {', '.join(point)} from scores"
        f" group by {', '.join(point)} having count(*) > 1 order by 1 limit 1"
    ).fetchone()
    if twice:
        first, last, model, benchmark, metric, *rest = twice
        over_training = tuple(point) == _POINT
        where = " at one checkpoint" if over_training else f", document {rest[0]}" * bool(rest[0])
        way_out = " (or give the checkpoints different tokens or steps)" if over_training else ""
        raise TokenmartError(
            f"{path}: rows {first} and {last} both give {metric} of {model} on {benchmark}{where}; "
            f"remove one{way_out}"
        )


def _refuse_runs(
    connection: duckdb.DuckDBPyConnection, path: Path, assumed: Mapping[str, Direction]
) -> None:
    """Refuse rows that contradict each other on a model, a metric or a folder."""
    facts = [(column, "model", f"one {column}") for column in _RUN]
    facts += [(f"{name} is null", "model", f"{name} in every row or in none") for name in _PLACE]
    facts += [("direction", "metric", "one direction"), ("model", _SLUG, "one spelling")]
    for fact, key, wanted in facts:
        unequal = connection.execute(
            f"select {key} from scores group by {key}"
            f" having count(distinct {fact}) + bool_or({fact} is null)::int > 1"
            " order by min(row_number) limit 1"
        ).fetchone()
        if unequal:
            first, other = connection.execute(
                f"select min(row_number), min(row_number) filter (where {fact} is distinct from"
                f" (select {fact} from scores where {key} = $1 order by row_number limit 1))"
                f" from scores where {key} = $1",
                [unequal[0]],
            ).fetchall()[0]
            value, other_value = (_value(connection, fact, row) for row in (first, other))
            remedy = "correct them"
            if fact == "direction":
                direction = assumed.get(unequal[0])
                empty = f" (an empty one is {direction}, by name)" * (direction is not None)
                wanted, remedy = wanted + empty, ONE_DIRECTION
            raise TokenmartError(
                f"{path}: rows {first} ({value}) and {other} ({other_value}) contradict each other "
                f"on {unequal[0]}, expected {wanted}; {remedy}"
            )


def _value(connection: duckdb.DuckDBPyConnection, fact: str, row: int) -> str:
    """The value of a row for an error message; `fact` is a column, or `COLUMN is null`."""
    ((value,),) = connection.execute(
        f"select {fact} from scores where row_number = ?", [row]
    ).fetchall()
    column = fact.removesuffix(" is null")
    if column != fact:
        return f"{'no ' * value}{column}"
    return f"no {column}" if value is None else str(value)


def _stored(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    rows = connection.sql(
        f"select {_SLUG} as model_id, model as full_id,"
        " coalesce(family, recipe, model) as family, size, architecture, recipe, parameters,"
        " step, tokens, benchmark, metric, direction, score, stderr from scores"
        " order by benchmark, metric, model_id, tokens, step"
    )
    table: pa.Table = rows.to_arrow_table()
    return table.cast(BENCHMARK_SCORES)
