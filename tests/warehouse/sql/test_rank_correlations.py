"""The macros for rank correlation against scipy, ties and missing values included."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from warehouse.paths import Workspace
from warehouse.sql.connection import connect_to_parquet


def test_spearman_and_kendall_are_scipys(workspace: Workspace) -> None:
    """Groups of 3 to 40 rows, half of them with many ties, some with null and NaN."""
    generator = np.random.default_rng(3)
    rows: list[tuple[int, float | None, float | None]] = []
    expected = {}
    for group in range(40):
        count = int(generator.integers(3, 40))
        x, y = generator.normal(size=(2, count))
        if group % 2:
            x, y = np.round(x), np.round(y * 2)
        rows += [(group, float(a), float(b)) for a, b in zip(x, y, strict=True)]
        if group % 3 == 0:
            rows += [(group, None, 1.0), (group, 1.0, math.nan), (group, math.inf, 0.0)]
        if np.ptp(x) > 0 and np.ptp(y) > 0:
            expected[group] = (
                scipy.stats.spearmanr(x, y).statistic,
                scipy.stats.kendalltau(x, y).statistic,
            )
    with connect_to_parquet(workspace) as connection:
        connection.execute("create table pairs(number int, x double, y double)")
        connection.executemany("insert into pairs values (?, ?, ?)", rows)
        found = connection.execute(
            "select number, spearman(x, y), kendall(x, y) from pairs group by number"
        ).fetchall()
    assert {number for number, *_ in found} == set(range(40)) and len(expected) > 35
    for number, spearman, kendall in found:
        if number in expected:
            assert (spearman, kendall) == pytest.approx(expected[number], abs=1e-12)
        else:
            assert spearman is None and kendall is None


def test_two_rows_and_constant_columns_have_no_correlation(workspace: Workspace) -> None:
    with connect_to_parquet(workspace) as connection:
        for values in ("(1, 2), (2, 3)", "(1, 2), (1, 3), (1, 4)", "(1, null), (2, 3), (3, 4)"):
            query = f"select spearman(x, y), kendall(x, y) from (values {values}) t(x, y)"
            assert connection.execute(query).fetchall() == [(None, None)]
        whole = "select spearman(x, y), kendall(x, -y) from (values (1, 5), (2, 6), (9, 7)) t(x, y)"
        assert connection.execute(whole).fetchall() == [(pytest.approx(1), pytest.approx(-1))]
