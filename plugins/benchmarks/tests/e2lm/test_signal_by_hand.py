"""SQL of statistics over training on examples worked by hand (signal_by_hand.yml)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import yaml

from plugins.benchmarks.model_sql import ModelSql
from warehouse.paths import find_workspace

CASES: list[dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("signal_by_hand.yml").read_text(encoding="utf-8")
)["unit_tests"]


class OnGivenInputs(ModelSql):
    """A model on the inputs of its test, which are in the database by their names."""

    def build(self, name: str) -> str:
        (known,) = self._connection.execute(
            "select count(*) from duckdb_tables() where table_name = ?", [name]
        ).fetchall()
        return f'"{name}"' if known[0] else super().build(name)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_signal_by_hand(case):
    with duckdb.connect() as connection:
        for given in case["given"]:
            rows = given["rows"]
            if given.get("format") != "sql":
                connection.register("rows", pa.Table.from_pylist(rows))
                rows = "from rows"
            connection.execute(f"create table {given['input'].split(chr(39))[-2]} as {rows}")
        built = OnGivenInputs(connection, find_workspace(Path(__file__))).build(case["model"])
        expected = case["expect"]["rows"]
        names = list(expected[0])
        found = connection.execute(f"select {', '.join(names)} from {built}").fetchall()
    right = [tuple(row[name] for name in names) for row in expected]
    for row, other in zip(sorted(found, key=str), sorted(right, key=str), strict=True):
        for value, known in zip(row, other, strict=True):
            is_number = isinstance(known, float)
            assert value == (pytest.approx(known, rel=1e-9) if is_number else known)
