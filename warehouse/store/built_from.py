"""Which files the tables of the database were built from: no time stamp is compared.

The dbt plugin writes the state of each problem's files to `main.store_states` when a run begins; at
its end, the macro `record_build` copies them to `main.built_from` for each model that was built.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from warehouse.paths import Workspace
from warehouse.store.stored_files import state_of, states


def write_states(connection: duckdb.DuckDBPyConnection, workspace: Workspace) -> None:
    """Write the present state of every problem's files."""
    connection.execute("create or replace table main.store_states (problem varchar, state varchar)")
    if rows := sorted(states(workspace).items()):
        connection.executemany("insert into main.store_states values (?, ?)", rows)


def changed_since_build(workspace: Workspace, problem: str, models: Sequence[str]) -> bool:
    """Whether files of a problem changed after one of these dbt models was built.

    False where the build isn't recorded, or can't be read because another program writes.
    """
    try:
        with duckdb.connect(str(workspace.database), read_only=True) as connection:
            rows = connection.execute(
                "select model, any_value(state) filter (where problem = $1) from main.built_from"
                " where list_contains($2, model) group by model",
                [problem, list(models)],
            ).fetchall()
    except duckdb.Error:
        return False
    now = state_of(workspace, problem)
    return any((state or "") != now for _, state in rows)
