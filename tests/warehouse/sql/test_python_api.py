"""`import tokenmart as tm` in a notebook's folder: rows as Arrow, pandas and polars."""

from __future__ import annotations

import re
import subprocess
import sys

from sql_samples import build_mart

NOTEBOOK = """
import sys
import tokenmart as tm
assert "duckdb" not in sys.modules, "what isn't asked for isn't imported"
print(tm.query("from metric_values order by model_id", "pandas")["value"].astype(float).tolist())
print(tm.query("select count(*) as n from units where status = $s", s="failed").to_pylist())
print(tm.cookbook("read_tokens", model="good", from_position=3, tokens=2)["token"].to_pylist())
print([name for name in ("torch", "transformers", "dbt", "analysis") if name in sys.modules])
"""


def test_a_notebook_in_a_folder_of_its_own(filled, tmp_path):
    """Its folder may contain another package `analysis`."""
    build_mart(filled)
    folder = tmp_path / "notebook"
    (folder / "analysis").mkdir(parents=True)
    (folder / "analysis" / "__init__.py").write_text("raise RuntimeError('not ours')\n")
    command = [sys.executable, "-c", NOTEBOOK]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    (warned,) = re.findall("UserWarning: (.*)", done.stderr)
    assert warned == "read_tokens: problem=minilong condition=full"
    assert done.stdout.splitlines() == ["[7.5, 1.5]", "[{'n': 1}]", "['d', 'e']", "[]"]
