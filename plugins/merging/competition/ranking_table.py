"""Read and check tables of competition results: one row is one result of one entry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from plugins.benchmarks.scores.metric_directions import direction_of
from plugins.benchmarks.scores.plain_rows import Fact, Name, refuse_contradictions
from plugins.merging.problem import OVERALL
from plugins.merging.tables import RANKING_COLUMNS, RANKING_RESULTS
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.store.parquet_files import write_table
from warehouse.table_file import read_rows
from warehouse.terminal import listed

SCORE = "score"
"""The metric of a file without the column `metric`."""

MEAN_WIN_RATE = "mean_win_rate"
"""The metric whose values are win rates computed by another program."""


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

    entry: Name
    task: Name
    value: float | None = None
    round: Annotated[Name, AfterValidator(_not_reserved)] = "results"
    round_weight: float = Field(default=1, ge=0)
    task_group: Name | None = None
    metric: Name = SCORE
    direction: Literal["higher", "lower"] | None = None
    item: int | None = Field(default=None, ge=0)
    cluster: Name | None = None

    @model_validator(mode="after")
    def _win_rate_of_a_task(self) -> ResultRow:
        is_rate = self.item is None and (self.value is None or 0 <= self.value <= 1)
        if self.is_win_rate and not is_rate:
            raise ValueError(f"a {MEAN_WIN_RATE} is between 0 and 1, and has no item")
        return self

    @property
    def is_win_rate(self) -> bool:
        """Whether its value is used as a win rate."""
        return self.metric == MEAN_WIN_RATE

    @property
    def column(self) -> dict[str, Any]:
        """Its ranking criterion, as a row of `RANKING_COLUMNS`.

        Without a direction, it is that of the metric's name, otherwise higher.
        """
        return {
            "round": self.round,
            "round_weight": self.round_weight,
            "task_group": self.task_group or self.task,
            "task": self.task,
            "metric": self.metric,
            "direction": self.direction or direction_of(self.metric) or "higher",
            "given": MEAN_WIN_RATE if self.is_win_rate else "score",
        }


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

    Values of the metric `mean_win_rate` are win rates among entries that the table may not list,
    and are used as they are.

    Args:
        path: CSV, TSV, JSON, JSON lines or Parquet with the columns of `ResultRow`.
        noted: notes name columns of this round only, so that a hidden one stays hidden; with
            `overall`, columns of the rounds that it consists of.

    Raises:
        TokenmartError: the file can't be read, a row is invalid repeats one (`repeated`) or
            contradicts one (`contradiction`), or no row has a value (`nothing-ranked`).
    """
    rows = read_rows(path, ResultRow)
    refuse_contradictions(
        path,
        enumerate(rows, start=1),
        lambda row: (row.round, row.task, row.metric, row.entry, row.item),
        _facts,
    )
    if all(row.value is None for row in rows):
        raise TokenmartError(f"{path}: no row has a value", code="nothing-ranked", where=path)
    columns = {(row.round, row.task, row.metric): row.column for row in rows}
    shown = [
        row
        for row in rows
        if noted in (None, row.round) or (noted == OVERALL and row.round_weight > 0)
    ]
    return RankingTable(
        pa.Table.from_pylist([columns[key] for key in sorted(columns)], RANKING_COLUMNS),
        pa.Table.from_pylist(
            [row.model_dump(include=set(RANKING_RESULTS.names)) for row in rows], RANKING_RESULTS
        ),
        _assumed_directions(shown),
    )


def store_ranking(table: RankingTable, workspace: Workspace, problem: str) -> None:
    """Write a table to the data folder, and replace an earlier one of the same name.

    Raises:
        StorageError: the disk is full or the folder can't be written.
    """
    folder = f"problem={problem}"
    write_table(workspace.store / "ranking_results" / folder / "results.parquet", table.results)
    write_table(workspace.store / "ranking_columns" / folder / "columns.parquet", table.columns)


def column_name(row: dict[str, Any]) -> str:
    """A column of a ranking by task and metric: `qa`, `nli (f1)`."""
    return row["task"] if row["metric"] == SCORE else f"{row['task']} ({row['metric']})"


def _assumed_directions(rows: Sequence[ResultRow]) -> tuple[str, ...]:
    assumed: dict[str, set[str]] = {}
    for row in rows:
        if row.direction is None and not row.is_win_rate:
            assumed.setdefault(row.column["direction"], set()).add(column_name(row.column))
    return tuple(
        f"no direction given: {direction} is better for {listed(sorted(names), 10)}"
        for direction, names in sorted(assumed.items())
    )


def _facts(row: ResultRow) -> Iterator[Fact]:
    name = row.round, row.task, row.metric
    yield "round_weight", row.round, row.round_weight
    yield "a row without item", row.round, row.item is None
    yield "direction", name, row.column["direction"]
    yield "task_group", name, row.column["task_group"]
    yield "scores or win rates", (row.round, row.column["task_group"]), row.column["given"]
