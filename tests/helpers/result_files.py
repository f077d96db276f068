"""Files of competition results."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from plugins.merging.competition.standings import Standings

Rows = list[dict[str, Any]]


def write(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """A CSV of rows, whose columns are all of their keys."""
    rows = list(rows)
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, names)
        table.writeheader()
        table.writerows(rows)
    return path


def plain(table: Mapping[str, Mapping[str, Any]], **fields: Any) -> Rows:
    """Rows of task → entry → value, without items."""
    return [
        {"entry": entry, "task": task, "value": value, **fields}
        for task, scores in table.items()
        for entry, value in scores.items()
    ]


def items(scores: Mapping[str, Sequence[float]], **fields: Any) -> Rows:
    """Rows of entry → a value for each item of the task `qa`, unless `fields` names another."""
    return [
        {"entry": entry, "task": "qa", "item": place, "value": value, **fields}
        for entry, values in scores.items()
        for place, value in enumerate(values)
    ]


def column_of(standings: Standings, round_name: str, name: str = "score") -> dict[str, Any]:
    """Entry → its value in a column of `rankings`."""
    rows = standings.marts["rankings"]
    return {row["entry"]: row[name] for row in rows if row["round"] == round_name}
