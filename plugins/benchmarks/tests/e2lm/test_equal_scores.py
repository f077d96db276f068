"""SQ over orders of equal scores.

The published scores are a third-party file: $E2LM_SCORES names a copy, without it they are skipped.
"""

from __future__ import annotations

import os
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from signal_oracle import autocorrelation

from plugins.benchmarks.e2lm.score import COLUMNS, SignalScores, open_table, score_table
from plugins.benchmarks.model_sql import ModelSql
from tokenmart import cli
from warehouse.paths import find_workspace

WORKSPACE = find_workspace(Path(__file__))
SHARED = Path(__file__).parents[5] / "shared" / "facts" / "e2lm_scores.csv"
SCORES = Path(os.environ.get("E2LM_SCORES", SHARED))

needs_scores = pytest.mark.skipif(
    not SCORES.is_file(), reason="the published scores are not here: set $E2LM_SCORES"
)


def table(path: Path, series: dict[str, list[float]]) -> Path:
    rows = [",".join(COLUMNS)]
    for benchmark, scores in series.items():
        rows += [f"m,1b,a,{at + 1},{benchmark},{score}" for at, score in enumerate(scores)]
    path.write_text("\n".join(rows) + "\n")
    return path


def every_order(scores: list[float]) -> list[float]:
    """SQ for each order of equal scores, by brute force."""
    places = [np.flatnonzero(np.array(scores) == value) for value in sorted(set(scores))]
    n, found = len(scores), []
    for orders in product(*(permutations(group) for group in places)):
        ranks = np.empty(n)
        ranks[np.concatenate(orders)] = np.arange(n)
        d = np.arange(n) - ranks
        found.append(max(0.0, 1 - 6 * float(d @ d) / (n * (n**2 - 1))))
    return [(value + autocorrelation(scores)) / 2 for value in found]


def test_the_range_is_that_of_all_orders_of_equal_scores(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    series = {f"b{number}": list(map(float, draw.integers(0, 4, 9))) for number in range(6)}
    series["distinct"] = [float(value) for value in draw.permutation(9)]
    found = score_table(table(tmp_path / "scores.csv", series), WORKSPACE).entries["m"]
    for benchmark, scores in series.items():
        values = every_order(scores)
        assert found[benchmark]["sq_low"] == pytest.approx(min(values), abs=1e-9)
        assert found[benchmark]["sq_high"] == pytest.approx(max(values), abs=1e-9)
        assert found[benchmark]["sq"] == found[benchmark]["sq_high"]
    assert found["distinct"]["sq_low"] == found["distinct"]["sq_high"]


def test_the_range_is_printed_where_it_matters(tmp_path: Path) -> None:
    series = {"tied": [1.0, 1, 2, 2, 3, 3, 4, 4], "distinct": [1.0, 3, 2, 4, 5, 6, 8, 7]}
    path = table(tmp_path / "scores.csv", series)
    shown = CliRunner().invoke(cli, ["e2lm", "score", "--scores", str(path)])
    entry = score_table(path, WORKSPACE).entries["m"]["tied"]
    said = " ".join(shown.stdout.split())
    assert "SQ of 1 row" in said
    assert f"m, tied, {entry['sq_low']:.4f} to {entry['sq_high']:.4f}" in said


@pytest.fixture(scope="module")
def published() -> SignalScores:
    return score_table(SCORES, WORKSPACE)


@pytest.fixture(scope="module")
def windows() -> dict[tuple[str, str], list[float]]:
    """The early window of each model and benchmark, in order of training."""
    with open_table(SCORES) as database:
        series = ModelSql(database, WORKSPACE).build("int_benchmark_series")
        rows = database.execute(
            f"select full_id, benchmark, list(score order by early_checkpoint) from {series}"
            " where early_checkpoint is not null group by all"
        ).fetchall()
    return {(model, benchmark): scores for model, benchmark, scores in rows}


@needs_scores
def test_numpys_default_sort_is_in_the_range(
    published: SignalScores, windows: dict[tuple[str, str], list[float]]
) -> None:
    """As the competition ranks: stable ties give our value, numpy's default one of the range."""
    assert len(windows) == 144
    for (model, benchmark), scores in windows.items():
        entry = published.entries[model][benchmark]
        for kind in ("stable", "quicksort", "heapsort"):
            ranks = np.argsort(np.argsort(scores, kind=kind))
            d, n = np.arange(len(scores)) - ranks, len(scores)
            sq = (max(0.0, 1 - 6 * float(d @ d) / (n * (n**2 - 1))) + autocorrelation(scores)) / 2
            assert entry["sq_low"] - 1e-9 <= sq <= entry["sq_high"] + 1e-9, (model, benchmark)
            if kind == "stable":
                assert sq == pytest.approx(entry["sq"], abs=1e-9), (model, benchmark)
