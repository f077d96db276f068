"""Open-to-hidden drops: of each entry, with an interval, and of a first that was only lucky."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from plugins.merging.competition.standings import rank_file
from tokenmart import cli
from warehouse.paths import find_workspace

WORKSPACE = find_workspace(Path(__file__))
ENTRIES = [f"e{number}" for number in range(8)]
TASKS = ("qa", "sums")


def results(path: Path, rounds: Sequence[str], items: int = 60) -> Path:
    """Entries of equal skill: the first of the open round is lucky."""
    draw = np.random.default_rng(4)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["round", "entry", "task", "item", "value"])
        for round_ in rounds:
            for task in TASKS:
                for entry in ENTRIES:
                    right = draw.random(items) < 0.5
                    rows.writerows([round_, entry, task, item, int(right[item])]
                                   for item in range(items))  # fmt: skip
    return path


@pytest.fixture(scope="module")
def two_rounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return results(tmp_path_factory.mktemp("drops") / "results.csv", ("open", "hidden"))


def test_drops_are_differences_of_scores_and_cancel_out(two_rounds: Path) -> None:
    found = rank_file(two_rounds, WORKSPACE, draws=200)
    scores = {(row["round"], row["entry"]): row for row in found.marts["rankings"]}
    rows = found.drops["hidden"]
    assert [row["entry"] for row in rows] == sorted(
        ENTRIES, key=lambda entry: scores["open", entry]["rank"]
    )
    for row in rows:
        own, other = (scores[name, row["entry"]]["score"] for name in ("open", "hidden"))
        assert (row["score"], row["other_score"]) == (own, other)
        assert row["drop"] == pytest.approx(own - other, abs=1e-11)
        assert row["drop_low"] < row["drop_high"] and row["entries"] == len(ENTRIES)
    assert rows[0]["rank"] == 1 and rows[0]["drop"] > 0
    # of win rates themselves the sum is fixed; geometric means are only near it
    assert abs(np.mean([row["drop"] for row in rows])) < 0.05


def test_they_are_printed_and_shown(two_rounds: Path, tmp_path: Path) -> None:
    words = ["--results", str(two_rounds), "--draws", "50"]
    more = ["--explain", "--out", str(tmp_path / "s.json")]
    shown = CliRunner().invoke(cli, ["rank", "show", *words, *more])
    assert shown.exit_code == 0, shown.output
    assert "From open to hidden" in shown.output and "8 entries were compared" in shown.output
    assert len(json.loads((tmp_path / "s.json").read_text())["ranking_drops"]) == 16
    out = tmp_path / "standings.html"
    done = CliRunner().invoke(cli, ["rank", "report", *words, "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "From the open round to hidden" in out.read_text()


def test_without_an_open_round_there_are_none(tmp_path: Path) -> None:
    found = rank_file(results(tmp_path / "r.csv", ("first", "second"), 5), WORKSPACE, draws=0)
    assert found.drops == {} and len(found.marts["ranking_drops"]) == 16
