"""Rankings in the database: `tokenmart rank show` follows `tokenmart dbt`."""

from __future__ import annotations

import duckdb


def next_steps(connection: duckdb.DuckDBPyConnection) -> dict[str, list[str]]:
    """Ranking → the command that shows it."""
    rows = connection.execute("select distinct problem from rankings").fetchall()
    return {name: [f"tokenmart rank show --problem {name}"] for (name,) in rows}
