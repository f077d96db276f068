"""The examples of docs/how_to/write_a_plugin.md, put into a scratch folder and used together."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tiny_models import make_checkpoint

from warehouse.paths import Workspace
from warehouse.sql.views import connect_to_targets
from warehouse.store.token_files import published_path

CHECKOUT = Path(__file__).parents[1]
PAGE = CHECKOUT / "docs" / "how_to" / "write_a_plugin.md"
PARTS = {"__init__", "probes", "documents", "weights", "importers", "list_documents"}
PROBLEM = """\
name: mine
title: Every part brought along
documents: {kind: paragraphs, path: notes.txt}
models: [{full_id: me/model, family: me, dtype: float32, source: {kind: shelf}}]
probes: [{kind: last_tokens, name: tail, count: 3}]
target: {kind: imported}
"""


def examples() -> dict[str, str]:
    """Path in the scratch folder → code, of each block of the page that begins with a path."""
    blocks = re.findall(r"```python\n(# (\S+\.py)\n.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    return {name: code for code, name in blocks}


@pytest.fixture
def tokenmart(tmp_path: Path, workspace: Workspace):
    """Run the command with the page's examples as plugins."""
    plugins = tmp_path / "plugins"
    for name, code in examples().items():
        (plugins / name).parent.mkdir(parents=True, exist_ok=True)
        (plugins / name).write_text(code, encoding="utf-8")

    def run(*arguments: str, code: int = 0, folder: str = str(plugins / "mine")) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "tokenmart", *arguments],
            env={**os.environ, "TOKENMART_PLUGINS": folder},
            cwd=CHECKOUT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    return run


def test_the_page_has_an_example_of_each_part():
    assert {Path(name).stem for name in examples()} == PARTS


@pytest.mark.slow
def test_the_examples_work_together(tokenmart, workspace, tmp_path):
    (workspace.problems / "mine.yml").write_text(PROBLEM)
    (workspace.root / "notes.txt").write_text("the warehouse reads every token in place")
    shelf = workspace.root / "shelf" / "me"
    shelf.mkdir(parents=True)
    shutil.move(make_checkpoint(tmp_path / "model"), shelf / "model")
    assert "documents: 1" in tokenmart("data", "fetch", "--problem", "mine", "--only", "documents")
    asked = ("extract", "--problem", "mine", "--device", "cpu")
    assert "extracted 1 unit " in tokenmart(*asked)
    file = published_path(workspace, "mine", "me--model", "tail")
    first, second, third = pq.read_table(file, partitioning=None)["position"].to_pylist()
    assert (second, third) == (first + 1, first + 2)
    # check and gc know what the probe promises; without it nothing is removed
    for command in ("check", "gc"):
        looked = tokenmart("data", command, "--problem", "mine")
        assert "not in the problem file" not in looked
    assert "last_tokens" in tokenmart(*asked, code=1, folder="")
    tokenmart("data", "gc", "--problem", "mine", "--yes", code=1, folder="")
    assert file.is_file()
    scores = workspace.root / "scores.txt"
    scores.write_text("0 1\n1 0.5\n")
    imported = tokenmart(
        "data", "import", "--problem", "mine", "--model", "me/model", "--format", "pairs",
        str(scores),
    )  # fmt: skip
    assert "2 items" in imported
    with connect_to_targets(workspace) as connection:
        means = connection.execute("select avg(score) from downstream").fetchall()
    assert means == [(0.75,)]
    listed = tokenmart("documents", "--problem", "mine")
    assert listed == "paragraph 0\n"
    assert "\n  documents  " in tokenmart("--help")
