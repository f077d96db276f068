"""Load tables of scores into an in-memory database, for the SQL models."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from plugins.benchmarks.schema import BENCHMARK_SCORES, BENCHMARK_TABLES
from plugins.benchmarks.scores.score_store import BroughtScores

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
