"""A ranking in a terminal and as a page."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
from click.testing import CliRunner
from result_files import Rows, items, plain, write

from plugins.merging.competition.standings import rank_file
from plugins.merging.competition.standings_view import standings_page
from tokenmart import cli
from warehouse.paths import find_workspace

WORKSPACE = find_workspace(Path(__file__))


def test_the_page_has_every_number_and_needs_no_network(tmp_path):
    draw = np.random.default_rng(0)
    rows: Rows = []
    for name, weight in (("open", 1), ("hidden", 2)):
        for entry, chance in {"strong<b>": 0.8, "alike": 0.78, "weak": 0.2}.items():
            answers = (draw.random(60) < chance).astype(int).tolist()
            rows += items({entry: answers}, round=name, round_weight=weight)
    rows += items({"failed": [""]}, round="open", round_weight=1)
    path = write(tmp_path / "r.csv", rows)
    found = rank_file(path, WORKSPACE, draws=100)
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
    cells = set(re.sub("<[^>]*>", "", text).split())
    marts = found.marts
    scores = {row["score"] for row in (*marts["rankings"], *marts["task_scores"])} - {None}
    numbers = {f"{score:.3g}" for score in scores}
    assert {*numbers, "2.00", "61.5", "0.50", "ties"} <= cells
    shown = CliRunner().invoke(cli, ["rank", "show", "--results", str(path), "--explain"])
    assert {f"{row['score']:.3g}" for row in marts["task_scores"] if row["score"]} <= set(
        shown.stdout.split()
    )


def test_a_score_that_is_0_in_every_draw_has_no_interval(tmp_path):
    table = {f"t{n}": {"a": 0.9, "b": 0.8, "last": 0.1} for n in range(8)}
    path = write(tmp_path / "r.csv", plain(table))
    *_, row = rank_file(path, WORKSPACE, draws=50).marts["rankings"]
    assert (row["entry"], row["score"], row["score_high"]) == ("last", 0, 0)
    shown = CliRunner().invoke(cli, ["rank", "show", "--results", str(path)]).stdout
    assert "score 0 of last" in shown and "0 to 0" not in shown
