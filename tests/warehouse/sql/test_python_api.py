"""`import tokenmart as tm` in a notebook's folder: rows as Arrow, pandas and polars."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from sql_samples import build_mart

import tokenmart as tm
from warehouse.paths import Workspace

NOTEBOOK = """
import sys
import tokenmart as tm
assert "duckdb" not in sys.modules, "what isn't asked for isn't imported"
print(tm.tokens("minilong", "good").num_rows, tm.tokens("minilong", condition=None).num_rows)
print(tm.metric_values("minilong", into="pandas")["value"].astype(float).tolist())
print(tm.query("select count(*) as n from units where status = $s", s="failed").to_pylist())
print(tm.cookbook("read_tokens", model="good", from_position=3, tokens=2)["token"].to_pylist())
print([name for name in ("torch", "transformers", "dbt", "analysis") if name in sys.modules])
"""


def test_a_notebook_in_a_folder_of_its_own(filled: Workspace, tmp_path: Path) -> None:
    """Its folder may contain another package `analysis`."""
    build_mart(filled)
    folder = tmp_path / "notebook"
    (folder / "analysis").mkdir(parents=True)
    (folder / "analysis" / "__init__.py").write_text("raise RuntimeError('not ours')\n")
    command = [sys.executable, "-c", NOTEBOOK]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    (warned,) = re.findall("UserWarning: (.*)", done.stderr)
    assert warned == "read_tokens: problem=minilong condition=full"
    assert done.stdout.splitlines() == ["8 32", "[7.5, 1.5]", "[{'n': 1}]", "['d', 'e']", "[]"]


def test_tokens(filled: Workspace) -> None:
    table = tm.tokens("minilong", "good", condition="window_512")
    assert isinstance(table, pa.Table)
    assert table["position"].to_pylist() == [4, 5, 6, 7]
    assert table["nll"].to_pylist() == pytest.approx([3.1, 0.1, 0.3, 0.1])
    every = tm.tokens("minilong", condition=None, into="pandas")
    keys = every[["model_id", "condition", "doc_id", "position"]]
    assert len(keys) == 32
    assert keys.equals(keys.sort_values(list(keys)).reset_index(drop=True))


def test_metric_values(filled: Workspace) -> None:
    build_mart(filled)
    rows = tm.metric_values("minilong", "perplexity", "per_token").to_pylist()
    assert [(row["model_id"], row["value"]) for row in rows] == [("bad", 7.5), ("good", 1.5)]
    assert tm.metric_values("minilong", variant="other").num_rows == 0


def test_large_numbers_in_a_column_with_nulls_are_not_rounded(filled: Workspace) -> None:
    rows = "(values (9007199254740993, 18446744073709551615::ubigint, 1), (null, null, null))"
    frame = tm.query(f"select * from {rows} as v(a, b, c)", "pandas")
    found = (int(frame["a"][0]), int(frame["b"][0]))
    assert found == (9007199254740993, 18446744073709551615)
    assert frame["a"].isna().tolist() == [False, True] and frame["c"].dtype == "float64"
