"""`tokenmart rank show` on narrow and wide terminals: no line is longer, no number is broken."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tokenmart import cli

ENTRIES = ("lab/an-entry-with-a-long-name-1B@step-120000", "lab/the-other-entry-with-a-long-name")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two rounds of four tasks with eight items."""
    path = tmp_path / "results.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("entry", "task", "value", "direction", "round", "item"))
        for name in ("open", "hidden"):
            for task in range(4):
                for item in range(8):
                    for place, entry in enumerate(ENTRIES):
                        right = int((item + task) % (3 + place) == 0)
                        rows.writerow((entry, f"t{task}", right, "higher", name, item))
    return path


def shown(*words: str | Path) -> str:
    done = CliRunner().invoke(cli, ["rank", "show", "--draws", "50", *map(str, words)])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("width", [80, 100, 160])
def test_a_ranking_fits_the_terminal(
    results: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    printed = shown("--results", results)
    assert max(map(len, printed.splitlines())) <= width
    assert ("not shown (--wide): geometric, product" in printed) == (width < 120)
    rankings = json.loads(shown("--results", results, "--json"))["rankings"]
    for row in rankings:
        assert f"{row['score_low']:.4g} to {row['score_high']:.4g}" in printed
    wide = shown("--results", results, "--wide")
    assert "geometric" in wide and "not shown" not in wide
