"""The growth script: every piece measured once, and none again by a resumed run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "growth.py"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_it_measures_what_is_not_there_yet(tmp_path):
    output = tmp_path / "growth.json"
    words = ["--rows", "20000", "--limits", "1"]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *words, "--folder", str(tmp_path), "--output", str(output)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pieces = json.loads(output.read_text())["pieces"]
    assert pieces.keys() == {"write 20000", "build 20000 at 1 GiB", "added 20000"}
    build = pieces["build 20000 at 1 GiB"]
    assert build["rows"] == pieces["write 20000"]["rows"] > 0
    assert build["peak_bytes"] > 1e8 and build["seconds"] > 1
    assert pieces["added 20000"]["new_rows"] > 0
    # the store is as it was before a model was added
    models = list((tmp_path / "rows_20000" / "data" / "tokens").glob("problem=*/model_id=*"))
    assert len(models) == pieces["write 20000"]["models"]
