"""Columns of a ranking that mix fractions and percent."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import duckdb

from plugins.benchmarks.scores.mixed_scales import mixed_scales

PERCENT, FRACTIONS = "percent", "fractions"


def mixed_columns(connection: duckdb.DuckDBPyConnection, problem: str) -> list[dict[str, Any]]:
    """Columns whose values are partly fractions and partly percent, where higher values are better.

    Args:
        connection: has the table `int_ranking_columns`; the value of an entry is its mean over
            items.
        problem: the ranking.

    Returns:
        Rows with round, task, metric, entries (those on the rarer scale) and scale (theirs).
    """
    values = connection.execute(
        "select round, task, metric, entry, score from int_ranking_columns where problem = $1"
        " and draw = 0 and direction = 'higher' and isfinite(score) order by all",
        [problem],
    ).fetchall()
    found = []
    for (round_name, task, metric), rows in groupby(values, key=lambda row: row[:3]):
        scores = {entry: score for *_, entry, score in rows}
        if entries := mixed_scales(scores.items()):
            scale = FRACTIONS if scores[entries[0]] <= 1 else PERCENT
            column = {"round": round_name, "task": task, "metric": metric}
            found.append({**column, "entries": sorted(entries), "scale": scale})
    return found
