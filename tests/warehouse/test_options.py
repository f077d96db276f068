"""Which problem a command takes where none is named."""

from __future__ import annotations

import os
from pathlib import Path

from warehouse.options import newest_problem
from warehouse.paths import Workspace


def test_the_problem_extracted_last_may_wait_for_publishing(workspace: Workspace) -> None:
    """A run that was killed has units in `pending/` only."""

    def stored(file: Path, seconds: int) -> None:
        file.parent.mkdir(parents=True)
        file.touch()
        os.utime(file, (seconds, seconds))

    assert newest_problem(workspace) is None
    unit = Path("model_id=m", "condition=full")
    stored(workspace.tokens / "problem=earlier" / unit / "tokens.parquet", 1_000)
    assert newest_problem(workspace) == "earlier.yml"
    stored(workspace.pending / "problem=later" / unit / "doc-0.parquet", 2_000)
    assert newest_problem(workspace) == "later.yml"
