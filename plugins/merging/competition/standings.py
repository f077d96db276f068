"""Rows of the ranking marts, from a results file or from the database that dbt built."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from analysis.statistics.monte_carlo import MOST_DRAWS, stages
from plugins.benchmarks.model_sql import ModelSql, dicts
from plugins.benchmarks.scores.mixed_scales import mixed_scales
from plugins.merging.competition.pairs import UNDECIDED, tested_pairs, with_ranks
from plugins.merging.competition.ranking_table import read_ranking
from plugins.merging.competition.relative import drawn_scores, relative_rows
from plugins.merging.entries import stored_entries
from plugins.merging.problem import OVERALL, MergeProblem, load_merge_problem
from plugins.merging.tables import MERGE_ENTRIES, MERGE_RUNS
from warehouse.errors import ProblemFileError, TokenmartError, did_you_mean
from warehouse.paths import Workspace
from warehouse.progress import progress_bar
from warehouse.sql.connection import connect_in_memory, connect_read_only
from warehouse.sql.problem_state import read_states

MARTS = {
    "rankings": "round, rank nulls last, entry",
    "ranking_tasks": "round, task_group, rank nulls last, entry",
    "ranking_missing": "round, entry, task, metric",
    "ranking_pairs": "round, entry, other_entry",
    "merge_costs": "entry, stage desc, round",
    "ranking_fronts": "round, seconds, entry",
}
"""Mart → the order of its rows."""

OPEN = "open"
"""The round whose items participants have and may tune on."""

DRAWS = 1000
"""At first, and at a time where there are many results: draws take memory of all items."""
RESULTS_AT_ONCE = 5_000_000
"""Results times draws."""

BUILD = "tokenmart dbt run --select tag:benchmarks tag:rankings"
"""Builds the marts of rankings."""

Row = dict[str, Any]

_NO_RUNS = pa.schema([pa.field("model_id", pa.string()), *MERGE_RUNS]).empty_table()
_NO_ENTRIES = MERGE_ENTRIES.empty_table()
_SCORES = """
    select
        round, task, metric, entry, items, direction,
        if(isfinite(score), score, null) as score
    from int_ranking_columns where problem = $1 and draw = 0 order by all
"""


@dataclass(frozen=True)
class Standings:
    """One ranking: the rows of each mart, in their order.

    Attributes:
        name: the ranking.
        marts: mart → rows as {column: value}; numbers have 12 digits, because further digits of
            DuckDB's sums are not reproducible. Besides the marts: `task_scores`, the score of each
            entry in each column, the mean over its items; `mixed_scales`; and `relative`, the rows
            of `relative_rows`, if it was given the recipes.
        notes: assumptions about values that the file doesn't state, one line each.
    """

    name: str
    marts: dict[str, list[Row]]
    notes: tuple[str, ...] = ()

    @property
    def rounds(self) -> list[str]:
        """Its rounds: `open` first, the others by name; `overall`, if there is one, last."""
        names = {str(row["round"]) for row in self.marts["rankings"]}
        return sorted(names, key=lambda name: (name == OVERALL, name != OPEN, name))

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
            mart: [row for row in rows if row["round"] in (round_name, "")]
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
    draws: int = DRAWS,
    round_name: str | None = None,
    recipes: MergeProblem | None = None,
    most_draws: int = MOST_DRAWS,
    seed: int = 0,
) -> Standings:
    """Rank the entries of a results file with the SQL of the marts, without a stored database.

    Args:
        path: see `read_ranking`.
        workspace: the checkout with the SQL models.
        draws: number of bootstrap draws of each interval, and of pairs at first.
        round_name: the only round that notes are about; None for all.
        recipes: also compare the merged entries with their experts.
        most_draws: up to which they are added while the verdict on a pair depends on them.
        seed: of the draws.

    Raises:
        TokenmartError: the file is invalid, or `recipes` lacks an entry.
    """
    table = read_ranking(path, round_name)
    name = path.stem
    with connect_in_memory(workspace) as connection:
        for source, rows in (
            ("ranking_columns", table.columns),
            ("ranking_results", table.results),
            ("merge_entries", _NO_ENTRIES),
            ("merge_runs", _NO_RUNS),
        ):
            connection.register("given_rows", rows)
            connection.execute(
                f"create table {source} as select cast(? as varchar) as problem, * from given_rows",
                [name],
            )
        variables = {"ranking_draws": draws, "ranking_seed": seed}
        models = ModelSql(connection, workspace, variables)
        with progress_bar(len(MARTS), "tables") as progress:
            for mart in MARTS:
                models.build(mart)
                progress(f"building: {mart}", 1)
        standings = _read(connection, name, recipes, workspace, most_draws, seed)
        return replace(standings, notes=table.notes)


def stored_standings(
    name: str,
    workspace: Workspace,
    recipes: MergeProblem | None = None,
    most_draws: int = MOST_DRAWS,
    seed: int = 0,
) -> Standings:
    """A ranking that dbt built; the others as in `rank_file`, `seed` of added draws only.

    Raises:
        TokenmartError: the database has no such ranking (`not-built`), or `recipes` lacks an entry.
        StorageError: dbt is writing the database.
    """
    known: list[str] = []
    if workspace.database.is_file():
        with connect_read_only(workspace) as connection:
            try:
                rows = connection.execute("select distinct problem from rankings order by 1")
                known = [str(problem) for (problem,) in rows.fetchall()]
            except duckdb.CatalogException:
                pass
            if name in known:
                standings = _read(connection, name, recipes, workspace, most_draws, seed)
                notes = [f"warning: {note}" for note in _changes(name, workspace)]
                return replace(standings, notes=tuple(notes))
    raise TokenmartError(
        f"--problem {name}: no ranking of this name is built; {did_you_mean(name, known)}"
        f"there are: {', '.join(known) or 'none'} (new results: `{BUILD}`)",
        code="not-built",
        where=name,
    )


def _changes(name: str, workspace: Workspace) -> Iterator[str]:
    """What has changed since the ranking was built, and its entries were evaluated."""
    if read_states(workspace, name, ("rankings",)).changed:
        yield f"results of {name} are newer than this ranking; run `{BUILD}`"
    before = stored_entries(name, workspace)
    try:
        now = {merge.name: merge for merge in load_merge_problem(name, workspace).merges}
    except ProblemFileError:  # imported results, or the file is elsewhere
        return
    known = {entry for entry in now.keys() & before.keys()
             if before[entry]["recipe_sha256"] == now[entry].recipe_sha256}  # fmt: skip
    if before and (changed := sorted((now.keys() | before.keys()) - known)):
        yield (
            f"the problem file of {name} was changed since ({', '.join(changed)}); run `tokenmart "
            f"merge run`, `tokenmart merge eval` and `{BUILD}`"
        )


def _read(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    recipes: MergeProblem | None,
    workspace: Workspace,
    most_draws: int,
    seed: int,
) -> Standings:
    marts = {
        mart: _rows(
            connection,
            f"select * exclude (problem) from {mart} where problem = $1 order by {order}",
            name,
        )
        for mart, order in MARTS.items()
    }
    query = "select * from int_ranking_values where problem = $1"
    values = connection.sql(query, params=[name]).to_arrow_table()
    more = MoreDraws(values, workspace, most_draws, seed)
    marts["ranking_pairs"] = _pairs(marts, more)
    marts["rankings"] = with_ranks(marts["rankings"], marts["ranking_pairs"])
    marts["task_scores"] = _rows(connection, _SCORES, name)
    marts["mixed_scales"] = _mixed_columns(marts["task_scores"])
    if recipes is not None:
        rows = _relative(connection, name, recipes, more)
        marts["relative"] = [{key: _digits(value) for key, value in row.items()} for row in rows]
    return Standings(name, marts)


@dataclass(frozen=True)
class MoreDraws:
    """Draws that are added to those of a ranking.

    values: the rows of `int_ranking_values`.
    most: number of draws up to which they are added.
    """

    values: pa.Table
    workspace: Workspace
    most: int
    seed: int

    def of(self, model: str, made: int, total: int) -> Iterator[duckdb.DuckDBPyConnection]:
        """Databases with a model of the draws from `made` + 1 to `total`, a part of them each."""
        at_once = max(DRAWS, RESULTS_AT_ONCE // max(self.values.num_rows, 1))
        with progress_bar(total, "draws") as progress:
            progress(model, made, computed=False)
            for first in range(made + 1, total + 1, at_once):
                draws = min(at_once, total + 1 - first)
                numbers = {"ranking_first_draw": first, "ranking_draws": draws}
                with connect_in_memory(self.workspace) as connection:
                    connection.register("int_ranking_values", self.values)
                    given = ["int_ranking_values"]
                    variables = numbers | {"ranking_seed": self.seed}
                    ModelSql(connection, self.workspace, variables, given).build(model)
                    yield connection
                progress(model, draws)


def _pairs(marts: dict[str, list[Row]], more: MoreDraws) -> list[Row]:
    """`tested_pairs` with draws added while a verdict depends on them."""
    pairs = tested_pairs(marts)
    made = max((row["draws"] for row in pairs), default=0)
    for total in stages(made, more.most):
        if not any(row["verdict"] == UNDECIDED for row in pairs):
            break
        for connection in more.of("ranking_pairs", made, total):
            pairs = _with_shares(pairs, connection)
        made = max(made, total)
        pairs = tested_pairs(marts | {"ranking_pairs": pairs})
    return pairs


def _with_shares(pairs: list[Row], connection: duckdb.DuckDBPyConnection) -> list[Row]:
    """The pairs with the shares of the draws of this database, too."""
    query = "select round, entry, other_entry, draws, above_share from ranking_pairs"
    added = {row[:3]: row[3:] for row in connection.execute(query).fetchall()}
    extended = []
    for row in pairs:
        count, share = added[row["round"], row["entry"], row["other_entry"]]
        if count:
            total = row["draws"] + count
            share = (row["above_share"] * row["draws"] + share * count) / total
            row = row | {"draws": total, "above_share": _digits(share)}
        extended.append(row)
    return extended


def _relative(
    connection: duckdb.DuckDBPyConnection, name: str, recipes: MergeProblem, more: MoreDraws
) -> list[Row]:
    """`relative_rows` with draws added while an interval's exclusion of 0 depends on them."""
    drawn = drawn_scores(connection, name)
    rows = relative_rows(drawn, recipes)
    made = drawn.draws
    for total in stages(made, more.most):
        if not any(row["over_base_undecided"] or row["over_best_undecided"] for row in rows):
            break
        for one in more.of("int_ranking_columns", made, total):
            drawn = drawn.extended(drawn_scores(one, name))
        made = max(made, total)
        rows = relative_rows(drawn, recipes)
    return rows


def _mixed_columns(scores: list[Row]) -> list[Row]:
    """Columns whose scores are partly fractions and partly percent, where higher is better.

    Rows have round, task, metric, entries (those on the rarer scale) and scale (theirs).
    """
    mixed = []
    for (round_name, task, metric), rows in groupby(
        scores, key=lambda row: (row["round"], row["task"], row["metric"])
    ):
        values = {
            row["entry"]: row["score"]
            for row in rows
            if row["direction"] == "higher" and row["score"] is not None
        }
        if entries := mixed_scales(values.items()):
            scale = "fractions" if values[entries[0]] <= 1 else "percent"
            column = {"round": round_name, "task": task, "metric": metric}
            mixed.append({**column, "entries": sorted(entries), "scale": scale})
    return mixed


def _rows(connection: duckdb.DuckDBPyConnection, query: str, name: str) -> list[Row]:
    rows = dicts(connection, query, [name])
    return [{key: _digits(value) for key, value in row.items()} for row in rows]


def _digits(value: Any) -> Any:
    return float(f"{value:.12g}") if isinstance(value, float) else value
