"""Read plain tables of scores, check every row, and convert them to one schema.

A row is one score of one run at one checkpoint, or of one model: see `ScoreRow`. A table with an
invalid row is refused; the error has the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import duckdb
import pyarrow as pa
from pydantic import Field, model_validator

from plugins.benchmarks.refusal import refused
from plugins.benchmarks.schema import BENCHMARK_SCORES, MODEL_SCORES
from plugins.benchmarks.scores.metric_directions import Direction, direction_of
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

_RUN = ("family", "size", "architecture", "recipe", "parameters")
_SLUG = "replace(model, '/', '--')"
FEWEST_TOKENS = 1e5
"""Fewer tokens than any model is trained on: they are probably billions."""


class ScoreRow(PlainRow):
    """One score of a run at a checkpoint, or of a model on a document.

    The default direction is that of the metric's name, or of the benchmarks' names if the metric is
    `score`. `arch` and `tokens_bt` (billions) are other names of `architecture` and `tokens`.
    """

    model: Name
    family: str | None = None
    size: str | None = None
    architecture: Architecture = None
    recipe: str | None = None
    parameters: Annotated[int, Field(gt=0)] | None = None
    step: Count | None = None
    tokens: Least0 | None = None
    benchmark: Name
    metric: str = "score"
    direction: Direction | None = None
    score: Finite
    stderr: Least0 | None = None
    document: str | None = None
    tokens_bt: Annotated[float, Field(ge=0, lt=FEWEST_TOKENS)] | None = None

    @model_validator(mode="after")
    def _one_name_each(self) -> ScoreRow:
        if self.tokens_bt is not None and self.tokens is not None:
            raise ValueError("tokens_bt and tokens are the same; remove one")
        return self


_TYPES = {name: pa.string() for name in ScoreRow.model_fields}
_TYPES |= dict.fromkeys(("tokens", "score", "stderr", "tokens_bt"), pa.float64())
_TYPES |= dict.fromkeys(("parameters", "step"), pa.int64())


def read_scores(path: Path, assumed: dict[str, Direction] | None = None) -> pa.Table:
    """A plain table of scores, in the columns of `BENCHMARK_SCORES`, sorted.

    Args:
        path: CSV, TSV, JSON lines or Parquet.
        assumed: receives metric → direction for the directions that are not in the table.

    Raises:
        TokenmartError: the file can't be read, has other columns, or a row is invalid; with file
            and row.
    """
    with duckdb.connect() as connection:
        _load(
            connection,
            path,
            lambda row: (row.model, row.benchmark, row.metric, row.tokens, row.step),
            assumed,
        )
        table: pa.Table = connection.sql(
            f"select {_SLUG} as model_id, model as full_id,"
            " coalesce(family, recipe, model) as family, size, architecture, recipe, parameters,"
            " step, tokens, benchmark, metric, direction, score, stderr from scores"
            " order by benchmark, metric, model_id, tokens, step"
        ).to_arrow_table()
        return table.cast(BENCHMARK_SCORES)


def read_model_scores(path: Path, assumed: dict[str, Direction] | None = None) -> pa.Table:
    """A plain table of models' scores, in the columns of `MODEL_SCORES`, sorted.

    Like `read_scores`, but a model has one score per benchmark and metric, or one per document
    (column `document`).

    Raises:
        TokenmartError: as `read_scores`; or only some scores of a benchmark and metric have a
            document.
    """
    with duckdb.connect() as connection:
        _load(
            connection,
            path,
            lambda row: (row.model, row.benchmark, row.metric, row.document),
            assumed,
        )
        table: pa.Table = connection.sql(
            f"select {_SLUG} as model_id, model as full_id, coalesce(family, model) as family,"
            " parameters, benchmark, metric, document, false as each_document, direction, score"
            " from scores order by metric, benchmark, document, model_id"
        ).to_arrow_table()
        return table.cast(MODEL_SCORES)


def _load(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    key: Callable[[ScoreRow], Hashable],
    assumed: dict[str, Direction] | None,
) -> None:
    """Make the table `scores` of a file's rows; `key`: what identifies a score."""
    rows = rows_of(path, ScoreRow)
    better = _directions(path, rows)
    if assumed is not None:
        assumed |= better
    named = [
        row.model_copy(
            update={
                "tokens": row.tokens if row.tokens_bt is None else row.tokens_bt * 1e9,
                "direction": row.direction or better[row.metric],
            }
        )
        for row in rows
    ]
    refuse_contradictions(path, enumerate(named, start=1), key, _facts)
    refuse_two_orders(path, enumerate(named, start=1))
    connection.register("given", as_table(named, pa.schema(list(_TYPES.items()))))
    connection.execute("create table scores as select * exclude (tokens_bt) from given")


def _facts(row: ScoreRow) -> Iterator[Fact]:
    yield from ((column, row.model, getattr(row, column)) for column in _RUN)
    yield "a row without tokens", row.model, row.tokens is None
    yield "a row without step", row.model, row.step is None
    yield "direction", row.metric, row.direction
    yield "model", row.model.replace("/", "--"), row.model
    yield "a row without document", (row.metric, row.benchmark), row.document is None


def _directions(path: Path, rows: Sequence[ScoreRow]) -> dict[str, Direction]:
    """Metric → direction by name, of the metrics that have a row without one.

    Raises:
        TokenmartError: a name has no direction, or benchmarks of a metric `score` have two.
    """
    missing: dict[str, dict[str, int]] = {}
    for number, row in enumerate(rows, start=1):
        if row.direction is None:
            missing.setdefault(row.metric, {}).setdefault(row.benchmark, number)
    directions: dict[str, Direction] = {}
    for metric, benchmarks in missing.items():
        lower = {name for name in benchmarks if direction_of(name) == "lower"}
        direction = direction_of(metric)
        if metric == "score" and lower:
            direction = "lower" if len(lower) == len(benchmarks) else None
        if direction is None:
            raise refused(
                f"{path}: row {min(benchmarks.values())}",
                f"direction: doesn't follow from the names of {metric} and its benchmarks; write "
                "higher or lower, and a metric's losses as a metric of their own",
                "no-direction",
            )
        directions[metric] = direction
    return directions


def refuse_without_tokens(path: Path, scores: pa.Table) -> None:
    """Stop at a table of runs without tokens.

    Raises:
        TokenmartError: with the first run.
    """
    if scores["tokens"].null_count:
        rows = scores.filter(scores["tokens"].is_null())
        raise refused(
            f"{path}: tokens",
            f"missing for {rows['full_id'][0]}, and the early window is one of tokens; write those "
            "of each checkpoint (steps × tokens of a step)",
            "no-tokens",
        )
