"""A ranking in a terminal and as a page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from result_files import Rows, items, write

from plugins.merging.competition.standings import rank_file
from plugins.merging.competition.standings_page import standings_page
from tokenmart import cli
from warehouse.paths import find_workspace

WORKSPACE = find_workspace(Path(__file__))
ENTRIES = [f"lab/an-entry-with-a-long-name-{size}B@step-120000" for size in range(1, 31)]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Thirty entries in two rounds of four tasks with eight items; one failed, one is percent."""
    draw = np.random.default_rng(0)
    rows: Rows = []
    for name in ("open", "hidden"):
        for task in range(4):
            for place, entry in enumerate(ENTRIES):
                right = (draw.random(8) < 0.1 + place / 40) * (100 if place == 3 else 1)
                given = [""] * 8 if (place, task) == (5, 0) else right.tolist()
                if (place, task) != (7, 1):
                    rows += items({entry: given}, task=f"t{task}", task_group="all", round=name)
                if place == 9:
                    rows += items({entry: [1] * 8}, task=f"u{task}", task_group="all", round=name)
    return write(tmp_path / "results.csv", rows)


def shown(*words: str | Path) -> str:
    done = CliRunner().invoke(cli, ["rank", "show", "--draws", "50", *map(str, words)])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_ranking_is_25_lines_of_80_characters(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for words in ([], ["--round", "open"]):
        printed = shown("--results", results, *words).splitlines()
        assert len(printed) <= 25 and max(map(len, printed)) <= 80
    best = json.loads(shown("--results", results, "--json"))["rankings"]
    assert sum(row["round"] == "overall" for row in best) == 30


def test_the_page_is_whole_and_needs_no_network(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    rows: Rows = []
    for name, weight in (("open", 1), ("hidden", 2)):
        for entry, chance in {"strong<b>": 0.8, "alike": 0.78, "weak": 0.2}.items():
            answers = (draw.random(60) < chance).astype(int).tolist()
            rows += items({entry: answers}, round=name, round_weight=weight)
    rows += items({"failed": [""]}, round="open", round_weight=1)
    found = rank_file(write(tmp_path / "r.csv", rows), WORKSPACE, draws=100)
    cost = {"entry": "weak", "stage": "merge", "round": "", "method": "ties", "parameters": 9}
    cost |= {"size_class": "up to 1B", "checkpoint_bytes": 5 * 10**8, "seconds": 61.5}
    cost |= {"peak_bytes": 2 * 10**9, "gpu_bytes": None, "disk_bytes": 10**9, "ended": None}
    cost |= {"within_limits": False, "over_limits": ["seconds"]}
    front = {"entry": "weak", "round": "hidden", "score": 0.25, "seconds": 61.5}
    front |= {"peak_bytes": 2 * 10**9, "on_time_front": True, "on_space_front": False}
    marts = {**found.marts, "merge_costs": [cost], "ranking_fronts": [front]}
    text = standings_page(replace(found, marts=marts))
    assert "strong&lt;b&gt;" in text and "strong<b>" not in text
    assert "default-src 'none'" in text and not re.search(r"@import|url\(|src=|href=", text)
    cells = [
        re.sub("<[^>]*>", "", row).split("\n") for row in re.findall("<tr>.*?</tr>", text, re.S)
    ]
    shown = "\n".join("".join(row) for row in cells)
    for row in found.marts["rankings"]:
        if row["score"] is not None:
            assert f"{row['score']:.3g}" in shown
    assert "up to 1B" in shown and "2.00 GB" in shown and "61.5" in shown
    assert text.count('<td class="bar"><i') == 3 * 3  # ranked entries of three rankings
