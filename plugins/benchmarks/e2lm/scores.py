"""Load tables of scores into an in-memory database, for the SQL models."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa

from plugins.benchmarks.model_sql import ModelSql
from plugins.benchmarks.refusal import refused, unknown
from plugins.benchmarks.schema import BENCHMARK_SCORES, BENCHMARK_TABLES
from plugins.benchmarks.scores.score_store import BroughtScores, read_table
from plugins.benchmarks.scores.table_problem import find_table
from warehouse.paths import Workspace

FEWEST_PAIRS = 10
"""Minimum number of pairs of a decision accuracy; with fewer it is mostly chance."""


def open_scores(problem: str, scores: pa.Table, facts: pa.Table) -> duckdb.DuckDBPyConnection:
    """A database with `benchmark_scores` and `benchmark_tables` of one problem.

    Args:
        problem: name of the problem, the first column of both tables.
        scores: rows with the columns of `BENCHMARK_SCORES`.
        facts: one row with the columns of `BENCHMARK_TABLES`.
    """
    connection = duckdb.connect()
    for name, table, schema in (
        ("benchmark_scores", scores, BENCHMARK_SCORES),
        ("benchmark_tables", facts, BENCHMARK_TABLES),
    ):
        connection.register("given", table.cast(schema))
        connection.execute(
            f"create table {name} as select cast(? as varchar) as problem, * from given", [problem]
        )
        connection.unregister("given")
    return connection


def open_problem(problem: str, brought: BroughtScores) -> duckdb.DuckDBPyConnection:
    """The same database for a table problem."""
    return open_scores(problem, brought.scores, brought.facts)


def problem_signal(
    name: str, workspace: Workspace, statistic: str | None = None
) -> list[dict[str, Any]]:
    """Rows of `benchmark_signal` of a table problem, from its file.

    Args:
        name: name or path of the problem.
        workspace: the checkout.
        statistic: only this one; the highest value first.

    Raises:
        TokenmartError: not a table of scores over training, or no such statistic.
    """
    problem = find_table(name, workspace)
    if problem is None or problem.predict.metrics:
        raise refused("--problem", f"{name} is no table of scores over training", "other-problem")
    with open_problem(problem.name, read_table(problem, workspace)) as database:
        signal = ModelSql(database, workspace).build("benchmark_signal")
        rows = database.execute(
            f"select benchmark, metric, model, statistic, value, reason from {signal} order by all"
        ).fetchall()
        columns = [column[0] for column in database.description or []]
    found = [dict(zip(columns, row, strict=True)) for row in rows]
    if statistic is None:
        return found
    known = sorted({row["statistic"] for row in found})
    if statistic not in known:
        raise unknown("--statistic", statistic, known)
    chosen = [row for row in found if row["statistic"] == statistic]
    return sorted(chosen, key=lambda row: (row["value"] is None, -(row["value"] or 0)))
