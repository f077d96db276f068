"""Which problem a command takes where none is named."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest
from refusal import refuses

from warehouse.options import FiniteRange, problem_or_newest


def test_the_problem_extracted_last_may_wait_for_publishing(workspace):
    """A run that was killed has units in `pending/` only."""

    def stored(file: Path, seconds: int) -> None:
        file.parent.mkdir(parents=True)
        file.touch()
        os.utime(file, (seconds, seconds))

    with refuses("no-problem", "--problem"):
        problem_or_newest(None, workspace)
    unit = Path("model_id=m", "condition=full")
    stored(workspace.tokens / "problem=earlier" / unit / "tokens.parquet", 1_000)
    assert problem_or_newest(None, workspace) == "earlier.yml"
    stored(workspace.pending / "problem=later" / unit / "doc-0.parquet", 2_000)
    assert problem_or_newest(None, workspace) == "later.yml"
    # as one that is published, and so removed, meanwhile
    (workspace.pending / "problem=earlier" / unit).mkdir(parents=True)
    (workspace.pending / "problem=earlier" / unit / "doc-1.parquet").symlink_to("gone")
    assert problem_or_newest(None, workspace) == "later.yml"


@pytest.mark.parametrize("given", ["nan", "inf", "-inf", "-0.1", "x"])
def test_a_number_in_a_range_is_finite(given):
    with pytest.raises(click.BadParameter):
        FiniteRange(0).convert(given, None, None)
    assert FiniteRange(0).convert("0.5", None, None) == 0.5
