"""Rows of the ranking marts, from a results file or from the database that dbt built."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from plugins.benchmarks.model_sql import ModelSql
from plugins.merging.competition.pairs import tested_pairs, with_ranks
from plugins.merging.competition.ranking_table import RankingTable, read_ranking
from plugins.merging.competition.relative import relative_rows
from plugins.merging.competition.scales import mixed_columns
from plugins.merging.problem import OVERALL, MergeProblem
from plugins.merging.tables.rankings import MERGE_RUNS, RANKING_COLUMNS, RANKING_RESULTS
from warehouse.errors import TokenmartError, did_you_mean
from warehouse.paths import Workspace
from warehouse.sql.connection import connect_read_only
from warehouse.store.built_from import changed_since_build

MARTS = {
    "rankings": "round, rank nulls last, entry",
    "ranking_tasks": "round, task_group, rank nulls last, entry",
    "ranking_missing": "round, entry, task, metric",
    "ranking_pairs": "round, entry, other_entry",
    "ranking_stability": "round, other_round",
    "merge_costs": "entry, stage desc, round",
    "ranking_fronts": "round, seconds, entry",
}
"""Mart → the order of its rows."""

Row = dict[str, Any]

_NO_RUNS = pa.schema([pa.field("model_id", pa.string()), *MERGE_RUNS]).empty_table()


OPEN = "open"
"""The round whose items participants have and may tune on."""

BUILD = "tokenmart dbt run --select tag:benchmarks tag:rankings"
"""Builds the marts of rankings."""


@dataclass(frozen=True)
class Standings:
    """One ranking: the rows of each mart, in their order.

    Attributes:
        name: the ranking.
        marts: mart → rows as {column: value}; numbers have 12 digits, because further digits of
            DuckDB's sums are not reproducible. `mixed_scales` has the rows of `mixed_columns`, and
            `relative` those of `relative_rows`, if it was given the recipes.
        notes: assumptions about values that the file doesn't state, one line each.
    """

    name: str
    marts: dict[str, list[Row]]
    notes: tuple[str, ...] = ()

    @property
    def rounds(self) -> list[str]:
        """Its rounds: `open` first, the others by name; `overall`, if there is one, last."""
        found = {str(row["round"]) for row in self.marts["rankings"]}
        return sorted(found, key=lambda name: (name == OVERALL, name != OPEN, name))

    def only(self, round_name: str) -> Standings:
        """The same without anything that depends on another round: publishable if that is hidden.

        The overall ranking keeps what is noted on the results of the rounds that it consists of.

        Raises:
            TokenmartError: there is no such round.
        """
        if round_name not in self.rounds:
            raise TokenmartError(
                f"--round {round_name}: no such round; there are: {', '.join(self.rounds)}",
                code="unknown-round",
                where="--round",
            )
        # a merge belongs to no round
        marts = {
            mart: [
                row for row in rows if row["round"] in (round_name, "") and "other_round" not in row
            ]
            for mart, rows in self.marts.items()
        }
        if round_name == OVERALL:
            parts = {row["round"] for row in self.marts["rankings"] if row["round_weight"]}
            for name in ("ranking_missing", "mixed_scales"):
                marts[name] = [row for row in self.marts[name] if row["round"] in parts]
        return replace(self, marts=marts)


def rank_file(
    path: Path,
    workspace: Workspace,
    draws: int = 1000,
    seed: int = 0,
    round_name: str | None = None,
    recipes: MergeProblem | None = None,
) -> Standings:
    """Rank the entries of a results file with the SQL of the marts, without a stored database.

    Args:
        path: see `read_ranking`.
        workspace: the checkout with the SQL models.
        draws: number of bootstrap draws of each interval.
        seed: random seed of the draws.
        round_name: the only round that notes are about; None for all.
        recipes: also compare the merged entries with their experts.

    Raises:
        TokenmartError: the file is invalid, or `recipes` lacks an entry.
    """
    return rank_table(read_ranking(path, round_name), path.stem, workspace, draws, seed, recipes)


def rank_table(
    table: RankingTable,
    name: str,
    workspace: Workspace,
    draws: int = 1000,
    seed: int = 0,
    recipes: MergeProblem | None = None,
) -> Standings:
    """The same ranking for a table in memory."""
    with duckdb.connect() as connection:
        _build(connection, MARTS, table, name, workspace, draws, seed)
        return replace(_read(connection, name, recipes), notes=table.notes)


def check_results(table: RankingTable, name: str, workspace: Workspace) -> dict[str, list[Row]]:
    """Missing results of ranked entries, and columns on two scales, for a table in memory."""
    with duckdb.connect() as connection:
        _build(connection, ["ranking_missing", "rankings"], table, name, workspace, 0, 0)
        ranked = {
            (row["round"], row["entry"])
            for row in _rows(connection, "rankings", name)
            if row["score"] is not None
        }
        missing = [
            row
            for row in _rows(connection, "ranking_missing", name)
            if (row["round"], row["entry"]) in ranked
        ]
        return {"ranking_missing": missing, "mixed_scales": mixed_columns(connection, name)}


def _build(
    connection: duckdb.DuckDBPyConnection,
    marts: Iterable[str],
    table: RankingTable,
    name: str,
    workspace: Workspace,
    draws: int,
    seed: int,
) -> None:
    _lay(connection, "ranking_columns", name, table.columns.cast(RANKING_COLUMNS))
    _lay(connection, "ranking_results", name, table.results.cast(RANKING_RESULTS))
    _lay(connection, "merge_runs", name, _NO_RUNS)
    models = ModelSql(connection, workspace, {"ranking_draws": draws, "ranking_seed": seed})
    for mart in marts:
        models.build(mart)


def _lay(connection: duckdb.DuckDBPyConnection, table: str, problem: str, rows: pa.Table) -> None:
    connection.register("given_rows", rows)
    connection.execute(
        f"create table {table} as select cast(? as varchar) as problem, * from given_rows",
        [problem],
    )
    connection.unregister("given_rows")


def stored_standings(
    name: str, workspace: Workspace, recipes: MergeProblem | None = None
) -> Standings:
    """A ranking that dbt built; `recipes` as in `rank_file`.

    Raises:
        TokenmartError: the database has no such ranking, or `recipes` lacks an entry.
        StorageError: there is no database yet, or dbt is writing it.
    """
    with connect_read_only(workspace) as connection:
        try:
            rows = connection.execute("select distinct problem from rankings order by 1").fetchall()
        except duckdb.CatalogException as error:
            raise TokenmartError(
                f"{workspace.database}: has no rankings yet; run `{BUILD}`"
            ) from error
        known = [str(problem) for (problem,) in rows]
        if name not in known:
            raise TokenmartError(
                f"--problem {name}: no ranking of this name is built; {did_you_mean(name, known)}"
                f"there are: {', '.join(known) or 'none'} (new results: `{BUILD}`)"
            )
        return replace(_read(connection, name, recipes), notes=_outdated(name, workspace))


def _outdated(name: str, workspace: Workspace) -> tuple[str, ...]:
    """A note if results came after the last build."""
    if not changed_since_build(workspace, name, ("rankings",)):
        return ()
    return (f"warning: results of {name} are newer than this ranking; run `{BUILD}`",)


def _read(
    connection: duckdb.DuckDBPyConnection, name: str, recipes: MergeProblem | None
) -> Standings:
    marts = {mart: _rows(connection, mart, name) for mart in MARTS}
    marts["ranking_pairs"] = tested_pairs(marts)
    marts["rankings"] = with_ranks(marts["rankings"], marts["ranking_pairs"])
    marts["mixed_scales"] = mixed_columns(connection, name)
    if recipes is not None:
        rows = relative_rows(connection, name, recipes)
        marts["relative"] = [{key: _digits(value) for key, value in row.items()} for row in rows]
    return Standings(name, marts)


def _rows(connection: duckdb.DuckDBPyConnection, mart: str, name: str) -> list[Row]:
    rows = connection.sql(
        f"select * exclude (problem) from {mart} where problem = $1 order by {MARTS[mart]}",
        params=[name],
    ).to_arrow_table()
    return [{key: _digits(value) for key, value in row.items()} for row in rows.to_pylist()]


def _digits(value: Any) -> Any:
    return float(f"{value:.12g}") if isinstance(value, float) else value
