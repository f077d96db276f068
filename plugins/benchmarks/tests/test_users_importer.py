"""The importer of the plugin's page, dropped into a folder of $TOKENMART_PLUGINS."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from warehouse.paths import Workspace

PAGE = Path(__file__).parents[1] / "README.md"
ROOT = Path(__file__).parents[3]
PROBLEM = """\
name: mine
title: Answers made elsewhere
documents: {kind: json, path: corpus.json}
models: [{full_id: me/model, family: me, source: {kind: hub}}]
probes: [{kind: full}]
"""


def test_the_importer_of_the_page_works(workspace: Workspace, tmp_path: Path) -> None:
    for code, name in re.findall(r"```python\n(# (\S+\.py)\n.*?)```", PAGE.read_text(), re.DOTALL):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(code)
    (workspace.problems / "mine.yml").write_text(PROBLEM)
    choices = tmp_path / "choices.txt"
    choices.write_text("0 0 no -2.5\n0 1 yes -1.5\n")

    def tokenmart(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "tokenmart", *words],
            env={**os.environ, "TOKENMART_PLUGINS": str(tmp_path / "choices")},
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    words = ("data", "import", "--problem", "mine", "--model", "me/model")
    said = tokenmart(*words, "--format", "choices", str(choices))
    assert "1 item of 1 task: qa (1); next: tokenmart dbt run --select tag:benchmarks\n" in said
    query = "select max(loglikelihood) as best from eval_answers"
    assert tokenmart("sql", query, "--format", "csv").split() == ["best", "-1.5"]
