"""Read and check tables of competition results.

A row is one result of one entry: CSV, JSON lines or Parquet with the columns of `COLUMNS`. A table
with an invalid row is refused; the error describes the first one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from plugins.benchmarks.scores.metric_directions import direction_of
from plugins.merging.competition.plain_table import read_plain
from plugins.merging.tables.rankings import RANKING_COLUMNS, RANKING_RESULTS
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.store.parquet_files import write_table
from warehouse.terminal import listed

REQUIRED = ("entry", "task", "value")
COLUMNS = {
    "entry": "varchar",
    "round": "varchar",
    "round_weight": "double",
    "task_group": "varchar",
    "task": "varchar",
    "metric": "varchar",
    "direction": "varchar",
    "item": "bigint",
    "cluster": "varchar",
    "value": "double",
}
"""Column → type. Defaults: `round` is `results`, `task_group` is the task, `metric` is `score`, and
`direction` is that of the metric's name, otherwise `higher`. An empty value is a failed run."""

OVERALL = "overall"
MOST_NAMES = 10
SCORE = "score"
"""The metric of a file without the column `metric`."""

MEAN_WIN_RATE = "mean_win_rate"
"""The metric whose values are win rates computed by another program."""

_DEFAULTS = {
    "round": "'results'",
    "round_weight": "1",
    "task_group": "task",
    "metric": f"'{SCORE}'",
    "direction": "'higher'",
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

    A column of `direction: none` is left out. Values of the metric `mean_win_rate` are win
    rates among entries that the table may not list, and are used as they are.

    Args:
        path: CSV, TSV, JSON lines or Parquet.
        noted: notes name columns of this round only, so that a hidden one stays hidden; with
            `overall`, columns of the rounds that it consists of.

    Raises:
        TokenmartError: the file can't be read, has other columns, or a row is invalid; the message
            has file, row, column, value and remedy.
    """
    with duckdb.connect() as connection:
        read_plain(connection, path, COLUMNS, REQUIRED)
        lower = _take_directions_of_names(connection, noted)
        notes = (*lower, *_notes(connection, noted))
        for column, default in _DEFAULTS.items():
            connection.execute(f"update plain set {column} = coalesce({column}, {default})")
        _refuse_rows(connection, path)
        _refuse_contradictions(connection, path)
        _refuse_nothing_ranked(connection, path)
        columns = connection.sql(
            f"""
            select distinct round, round_weight, task_group, task, metric,
                nullif(direction, 'none') as direction,
                if(metric = '{MEAN_WIN_RATE}', metric, 'score') as given,
                null as eval_problem, null as condition, null as filter
            from plain order by round, task_group, task, metric
            """
        ).to_arrow_table()
        results = connection.sql(
            "select round, entry, task, metric, item, cluster, value from plain"
            " order by round, task, metric, entry, item"
        ).to_arrow_table()
    return RankingTable(columns.cast(RANKING_COLUMNS), results.cast(RANKING_RESULTS), notes)


def store_ranking(table: RankingTable, workspace: Workspace, problem: str) -> None:
    """Write a table to the data folder, and replace an earlier one of the same name.

    Raises:
        StorageError: the disk is full or the folder can't be written.
    """
    folder = f"problem={problem}"
    write_table(workspace.store / "ranking_results" / folder / "results.parquet", table.results)
    write_table(workspace.store / "ranking_columns" / folder / "columns.parquet", table.columns)


_OF_ROUND = (
    f"($1 is null or coalesce(round, {_DEFAULTS['round']}) = $1"
    f" or ($1 = '{OVERALL}' and coalesce(round_weight, {_DEFAULTS['round_weight']}) > 0))"
)


def _take_directions_of_names(
    connection: duckdb.DuckDBPyConnection, noted: str | None
) -> tuple[str, ...]:
    """Set the direction of a metric to `lower` if its name is that of an error or a perplexity.

    Returns:
        A note that names these metrics.
    """
    rows = connection.execute(
        f"select metric, bool_or({_OF_ROUND}) from plain "
        "where direction is null and metric is not null group by metric order by metric",
        [noted],
    ).fetchall()
    of_names = [(metric, shown) for metric, shown in rows if direction_of(metric) == "lower"]
    for metric, _ in of_names:
        connection.execute(
            "update plain set direction = 'lower' where direction is null and metric = ?", [metric]
        )
    lower = [metric for metric, shown in of_names if shown]
    if not lower:
        return ()
    return (
        f"no direction given: lower is better for {listed(lower, MOST_NAMES)}, by the metric's "
        "name (otherwise write `higher` in the column `direction`)",
    )


def _notes(connection: duckdb.DuckDBPyConnection, noted: str | None) -> tuple[str, ...]:
    """Notes on the columns with the default direction, and on those left out."""
    name = "if(metric is null, task, concat(task, ' (', metric, ')'))"
    notes = []
    for which, said in (
        (
            f"direction is null and metric is distinct from '{MEAN_WIN_RATE}'",
            "no direction given: higher is better for {} (for a cost, write `lower` in the column "
            "`direction`)",
        ),
        ("direction = 'none'", "direction none: {} left out of the ranking"),
    ):
        rows = connection.execute(
            f"select distinct {name} from plain where task is not null and {which} and {_OF_ROUND} "
            "order by 1",
            [noted],
        ).fetchall()
        if rows:
            notes.append(said.format(listed([str(row[0]) for row in rows], MOST_NAMES)))
    return tuple(notes)


def _refuse_nothing_ranked(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    ranking = f"direction != 'none' or metric = '{MEAN_WIN_RATE}'"
    if not connection.execute(f"select 1 from plain where {ranking} limit 1").fetchall():
        raise TokenmartError(
            f"{path}: direction is none in every row, so nothing is ranked; write higher or lower "
            "for what entries are ranked by",
            code="nothing-ranked",
            where=path,
        )


def _refuse_rows(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    for column, wrong, wanted in (
        ("entry", "entry is null", "a name"),
        ("task", "task is null", "a name"),
        ("round", f"lower(round) = '{OVERALL}'", "another name, that one is for all rounds"),
        ("round_weight", "not (round_weight >= 0 and isfinite(round_weight))", "0 or more"),
        ("direction", "direction not in ('higher', 'lower', 'none')", "higher, lower or none"),
        ("item", "item < 0", "0 or more"),
        ("value", "not isfinite(value)", "a finite number, or nothing where the run failed"),
        (
            "value",
            f"metric = '{MEAN_WIN_RATE}' and value not between 0 and 1",
            "a win rate between 0 and 1",
        ),
        (
            "item",
            f"metric = '{MEAN_WIN_RATE}' and item is not null",
            "nothing in a row of a win rate",
        ),
    ):
        bad = connection.execute(
            f"select row_number, cast({column} as varchar) from plain where {wrong}"
            " order by row_number limit 1"
        ).fetchone()
        if bad:
            found = "is missing" if bad[1] is None else f"is {bad[1]!r}"
            raise TokenmartError(
                f"{path}: row {bad[0]}: {column} {found}, expected {wanted}; correct the row or "
                "remove it",
                code="bad-value",
                where=f"{path}:{bad[0]}: {column}",
            )
    twice = connection.execute(
        "select min(row_number), max(row_number), entry, task, metric, round, item from plain"
        " group by entry, task, metric, round, item having count(*) > 1 order by 1 limit 1"
    ).fetchone()
    if twice:
        first, last, entry, task, metric, round_, item = twice
        what = "" if item is None else f", item {item},"
        raise TokenmartError(
            f"{path}: rows {first} and {last} both give {metric} of {entry} on {task}{what} in "
            f"round {round_}; remove one",
            code="repeated-row",
            where=f"{path}:{last}",
        )


def _refuse_contradictions(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Refuse rows that contradict each other on a round or a column."""
    column = "concat_ws('\x1f', round, task, metric)"
    group = "concat_ws('\x1f', round, task_group)"
    for fact, key, wanted in (
        ("round_weight", "round", "one round_weight in a round"),
        ("direction", column, "one direction in a column"),
        ("task_group", column, "one task_group in a column"),
        ("(item is null)", column, "items in all rows of a column or in none"),
        (f"(metric = '{MEAN_WIN_RATE}')", group, "scores or win rates in a group, not both"),
        ("(item is null)", "round", "items in all rows of a round or in none"),
    ):
        unequal = connection.execute(
            f"select min(row_number), arg_min({fact}, row_number), {key} from plain group by {key}"
            f" having count(distinct {fact}) > 1 order by 1 limit 1"
        ).fetchone()
        if unequal:
            first, value, place = unequal
            (other,) = connection.execute(
                f"select min(row_number) from plain where {key} = $1 and {fact} != $2",
                [place, value],
            ).fetchall()[0]
            raise TokenmartError(
                f"{path}: rows {first} and {other} contradict each other, expected {wanted}; "
                "correct them",
                code="contradiction",
                where=f"{path}:{other}",
            )
