"""Read and check tables of competition results: one row is one result of one entry."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from plugins.benchmarks.scores.metric_directions import direction_of
from plugins.merging.problem import OVERALL
from plugins.merging.tables.rankings import RANKING_COLUMNS, RANKING_RESULTS
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.store.parquet_files import write_table
from warehouse.table_file import read_rows
from warehouse.terminal import listed

MOST_NAMES = 10
SCORE = "score"
"""The metric of a file without the column `metric`."""

MEAN_WIN_RATE = "mean_win_rate"
"""The metric whose values are win rates computed by another program."""

Text = Annotated[str, Field(min_length=1)]


def _not_reserved(name: str) -> str:
    if name.lower() == OVERALL:
        raise ValueError(f"{OVERALL} is the name for all rounds; choose another")
    return name


class ResultRow(BaseModel):
    """A result. A missing value is a failed run; a missing `task_group` is the task."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        coerce_numbers_to_str=True,
        str_strip_whitespace=True,
    )

    entry: Text
    task: Text
    value: float | None = None
    round: Annotated[Text, AfterValidator(_not_reserved)] = "results"
    round_weight: float = Field(default=1, ge=0)
    task_group: Text | None = None
    metric: Text = SCORE
    direction: Literal["higher", "lower", "none"] | None = None
    item: int | None = Field(default=None, ge=0)
    cluster: Text | None = None

    @model_validator(mode="after")
    def _win_rate_of_a_task(self) -> ResultRow:
        is_rate = self.item is None and (self.value is None or 0 <= self.value <= 1)
        if self.metric == MEAN_WIN_RATE and not is_rate:
            raise ValueError(f"a {MEAN_WIN_RATE} is between 0 and 1, and has no item")
        return self

    @property
    def group(self) -> str:
        """Its group of tasks."""
        return self.task_group or self.task

    @property
    def better(self) -> str:
        """Its direction; without one, that of the metric's name, otherwise higher."""
        return self.direction or direction_of(self.metric) or "higher"


@dataclass(frozen=True)
class RankingTable:
    """Ranking criteria of entries, and their results, in the columns of the stored tables.

    notes: assumptions about values that the file doesn't state, one line each.
    """

    columns: pa.Table
    results: pa.Table
    notes: tuple[str, ...] = ()


def read_ranking(path: Path, noted: str | None = None) -> RankingTable:
    """The results of a competition.

    A column of `direction: none` is left out. Values of the metric `mean_win_rate` are win
    rates among entries that the table may not list, and are used as they are.

    Args:
        path: CSV, TSV, JSON, JSON lines or Parquet with the columns of `ResultRow`.
        noted: notes name columns of this round only, so that a hidden one stays hidden; with
            `overall`, columns of the rounds that it consists of.

    Raises:
        TokenmartError: the file can't be read, or a row is invalid, repeated (`repeated-row`) or
            contradicts another (`contradiction`), or no row is ranked (`nothing-ranked`).
    """
    rows = read_rows(path, ResultRow)
    _refuse_repeated(rows, path)
    for fact, key, wanted in _FACTS:
        _refuse_contradiction(rows, path, fact, key, wanted)
    if not any(row.value is not None and _is_ranked(row) for row in rows):
        raise TokenmartError(
            f"{path}: no row has both a value and a direction, so nothing is ranked",
            code="nothing-ranked",
            where=path,
        )
    columns = {
        (row.round, row.group, row.task, row.metric): {
            "round": row.round,
            "round_weight": row.round_weight,
            "task_group": row.group,
            "task": row.task,
            "metric": row.metric,
            "direction": None if row.better == "none" else row.better,
            "given": row.metric if row.metric == MEAN_WIN_RATE else "score",
        }
        for row in rows
    }
    results = [row.model_dump(include=set(RANKING_RESULTS.names)) for row in rows]
    return RankingTable(
        pa.Table.from_pylist([columns[key] for key in sorted(columns)], RANKING_COLUMNS),
        pa.Table.from_pylist(results, RANKING_RESULTS),
        _notes([row for row in rows if _is_of(row, noted)]),
    )


def store_ranking(table: RankingTable, workspace: Workspace, problem: str) -> None:
    """Write a table to the data folder, and replace an earlier one of the same name.

    Raises:
        StorageError: the disk is full or the folder can't be written.
    """
    folder = f"problem={problem}"
    write_table(workspace.store / "ranking_results" / folder / "results.parquet", table.results)
    write_table(workspace.store / "ranking_columns" / folder / "columns.parquet", table.columns)


def _is_ranked(row: ResultRow) -> bool:
    return row.metric == MEAN_WIN_RATE or row.direction != "none"


def _is_of(row: ResultRow, round_name: str | None) -> bool:
    return round_name in (None, row.round) or (round_name == OVERALL and row.round_weight > 0)


def _notes(rows: Sequence[ResultRow]) -> tuple[str, ...]:
    """Notes on directions that the rows don't state, and on what is left out."""
    lower, higher, left_out = set(), set(), set()
    for row in rows:
        name = row.task if row.metric == SCORE else f"{row.task} ({row.metric})"
        if row.direction == "none":
            left_out.add(name)
        elif row.direction is None and row.better == "lower":
            lower.add(row.metric)
        elif row.direction is None and row.metric != MEAN_WIN_RATE:
            higher.add(name)
    return tuple(
        sentence.format(listed(sorted(names), MOST_NAMES))
        for names, sentence in (
            (lower, "no direction given: lower is better for {}, by the metric's name"),
            (higher, "no direction given: higher is better for {} (for a cost, write `lower`)"),
            (left_out, "direction none: {} left out of the ranking"),
        )
        if names
    )


def _refuse_repeated(rows: Sequence[ResultRow], path: Path) -> None:
    first: dict[Hashable, int] = {}
    for number, row in enumerate(rows, start=1):
        key = row.entry, row.task, row.metric, row.round, row.item
        if (other := first.setdefault(key, number)) != number:
            raise TokenmartError(
                f"{path}: rows {other} and {number} both give {row.metric} of {row.entry} on "
                f"{row.task} in round {row.round}, item {row.item}; remove one",
                code="repeated-row",
                where=f"{path}: row {number}",
            )


def _column(row: ResultRow) -> Hashable:
    return row.round, row.task, row.metric


_FACTS: tuple[tuple[Callable[[ResultRow], Any], Callable[[ResultRow], Hashable], str], ...] = (
    (lambda row: row.round_weight, lambda row: row.round, "one round_weight in a round"),
    (lambda row: row.better, _column, "one direction in a column"),
    (lambda row: row.group, _column, "one task_group in a column"),
    (
        lambda row: row.metric == MEAN_WIN_RATE,
        lambda row: (row.round, row.group),
        "scores or win rates in a group, not both",
    ),
    (
        lambda row: row.item is None,
        lambda row: row.round,
        "items in all rows of a round or in none",
    ),
)
"""Fact, rows that must agree on it, and what is expected."""


def _refuse_contradiction(
    rows: Sequence[ResultRow],
    path: Path,
    fact: Callable[[ResultRow], Any],
    key: Callable[[ResultRow], Hashable],
    wanted: str,
) -> None:
    first: dict[Hashable, tuple[int, Any]] = {}
    for number, row in enumerate(rows, start=1):
        other, value = first.setdefault(key(row), (number, fact(row)))
        if value != fact(row):
            raise TokenmartError(
                f"{path}: rows {other} and {number} contradict each other, expected {wanted}",
                code="contradiction",
                where=f"{path}: row {number}",
            )
