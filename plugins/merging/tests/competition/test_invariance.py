"""Rankings do not depend on the order of rows, on names, and give equal entries one place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from result_files import column_of, items, write

from plugins.merging.competition.standings import rank_file
from warehouse.paths import find_workspace

WORKSPACE = find_workspace(Path(__file__))
answers = st.lists(st.integers(0, 1), min_size=4, max_size=4)
tables = st.lists(st.tuples(answers, answers), min_size=2, max_size=4)
"""Of each entry: its answers in two tasks."""


def ranked(folder: Path, rows: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Scores and ranks by entry."""
    found = rank_file(write(folder / "results.csv", rows), WORKSPACE, draws=20)
    return tuple(column_of(found, "open", name) for name in ("score", "rank"))  # type: ignore[return-value]


@settings(max_examples=5, deadline=None, derandomize=True)
@given(table=tables, seed=st.randoms(use_true_random=False))
def test_order_names_and_copies(table, seed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rankings")
    rows = [
        row
        for number, tasks in enumerate([*table, table[0]])  # the last is a copy of the first
        for task, values in zip(("qa", "maths"), tasks, strict=True)
        for row in items({f"e{number}": values}, task=task, round="open")
    ]
    scores, ranks = ranked(folder, rows)
    copy = f"e{len(table)}"
    assert scores[copy] == pytest.approx(scores["e0"], abs=1e-12) and ranks[copy] == ranks["e0"]
    assert ranks == {
        entry: 1 + sum(round(other, 9) > round(score, 9) for other in scores.values())
        for entry, score in scores.items()
    }
    names = {entry: f"n{number}" for number, entry in enumerate(sorted(scores, reverse=True))}
    shuffled = [row | {"entry": names[row["entry"]]} for row in rows]
    seed.shuffle(shuffled)
    again, places = ranked(folder, shuffled)
    assert again == pytest.approx({names[entry]: score for entry, score in scores.items()})
    assert places == {names[entry]: rank for entry, rank in ranks.items()}
