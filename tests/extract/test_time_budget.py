"""`extract --hours`: which pieces are begun, and that all models score the same documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tiny_runs import ok, run

from extract import run as runs
from extract.run import extract_within, next_documents
from tokenmart import cli
from warehouse.paths import Workspace
from warehouse.sql.dataframes import query


@pytest.mark.parametrize(
    ("done", "total", "left", "each", "expected"),
    [
        (0, 50, 10.0, 0.0, 1),  # the first, of which nothing is known
        (1, 50, 100.0, 10.0, 1),  # as many as before
        (8, 50, 1000.0, 10.0, 8),
        (8, 50, 35.0, 10.0, 3),  # what fits
        (8, 50, 9.9, 10.0, 0),
        (48, 50, 1000.0, 1.0, 2),  # the rest
    ],
)
def test_a_piece_is_what_fits(
    done: int, total: int, left: float, each: float, expected: int
) -> None:
    assert next_documents(done, total, left, each) == expected


@pytest.mark.parametrize(
    ("seconds", "hours", "pieces"),
    [
        (60, 10, [1, 1, 2, 4, 2]),  # all ten
        (60, 5.5 / 60, [1, 1, 2, 1]),  # the sixth would end half a minute late
        (60, 0.5 / 60, [1]),  # the first is always scored
    ],
)
def test_the_budget_of_the_clock_is_kept(
    monkeypatch: pytest.MonkeyPatch, seconds: float, hours: float, pieces: list[int]
) -> None:
    now = [0.0]
    begun: list[int] = []

    def score(documents: Sequence[Any]) -> int:
        begun.append(len(documents))
        now[0] += seconds * len(documents)
        return 6 * len(documents)

    monkeypatch.setattr(runs.time, "monotonic", lambda: now[0])
    done = extract_within(hours, [None] * 10, 6, score)  # type: ignore[list-item]
    assert begun == pieces and done == sum(pieces)


def test_all_models_have_scored_the_same_documents(
    tiny_problem: Callable[..., Path], workspace: Workspace
) -> None:
    path = tiny_problem(texts=3)
    # a first document that takes longer than the budget ends the run
    said = run(path, "--hours", "0.0000001")
    assert ok(said) and "took 1 of 3 documents within" in said.output
    counts = Counter(query("select doc_id from units where status = 'done'")["doc_id"].to_pylist())
    assert set(counts) == {0}
    more = run(path, "--hours", "1")
    assert ok(more) and "took 3 of 3 documents within 1 h" in more.output
    units = query("select model_id, doc_id from units where status = 'done'").to_pylist()
    per_model = {m: {u["doc_id"] for u in units if u["model_id"] == m} for m in
                 {u["model_id"] for u in units}}  # fmt: skip
    assert list(per_model.values()) == [{0, 1, 2}] * len(per_model)


def test_a_budget_is_kept_by_one_process(tiny_problem: Callable[..., Path]) -> None:
    asked = ["extract", "--problem", str(tiny_problem()), "--device", "cpu", "--hours", "1"]
    said = CliRunner().invoke(cli, [*asked, "--workers", "2"])
    assert said.exit_code == 2 and "add --workers 1, and leave out --on" in said.output
