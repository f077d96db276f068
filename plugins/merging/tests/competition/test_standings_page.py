"""The page of a ranking: what it shows, that it is sound, and how a browser lays it out."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import evaluate
from click.testing import CliRunner

from plugins.merging.competition.standings import Standings, rank_file
from plugins.merging.competition.standings_page import standings_page
from tokenmart import cli
from warehouse.paths import find_workspace
from warehouse.progress import no_progress

CHANCES = {"strong<b>": 0.8, "alike": 0.78, "weak": 0.2}
COSTS = {"strong<b>": (30.0, 2.0e9), "alike": (20.0, 3.0e9), "weak": (10.0, 4.0e9)}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("standings") / "results.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["entry", "round", "round_weight", "task", "item", "value"])
        for round_, weight in (("open", 1), ("hidden", 2)):
            for entry, chance in CHANCES.items():
                for item in range(60):
                    rows.writerow([entry, round_, weight, "qa", item, int(draw.random() < chance)])
        rows.writerow(["failed", "open", 1, "qa", 0, ""])
    return path


def with_costs(standings: Standings) -> Standings:
    """The same with runs that were measured; strong is best, weak cheapest in time alone."""
    costs: list[dict[str, Any]] = []
    fronts: list[dict[str, Any]] = []
    scores = {r["entry"]: r["score"] for r in standings.marts["rankings"] if r["round"] == "hidden"}
    for entry, (seconds, peak) in COSTS.items():
        run = {"entry": entry, "stage": "merge", "round": "", "method": "ties", "parameters": 9}
        run |= {"size_class": "up to 1B", "checkpoint_bytes": 5 * 10**8, "seconds": seconds}
        run |= {"peak_bytes": int(peak), "gpu_bytes": None, "disk_bytes": 10**9}
        over = entry == "weak"
        costs.append(
            run
            | {"within_limits": not over, "over_limits": ["seconds"] if over else [], "ended": None}
        )
        fronts.append(
            {"entry": entry, "round": "hidden", "score": scores[entry], "seconds": seconds}
            | {"peak_bytes": int(peak), "checkpoint_bytes": 1, "within_limits": not over}
            | {"on_time_front": True, "on_space_front": entry == "strong<b>"}
        )
    return Standings("made up", {**standings.marts, "merge_costs": costs, "ranking_fronts": fronts})


@pytest.fixture(scope="module")
def page(results: Path) -> Path:
    found = with_costs(rank_file(results, find_workspace(Path(__file__)), draws=300))
    out = results.with_name("page.html")
    out.write_text(standings_page(found, no_progress))
    return out


def test_it_shows_scores_intervals_rivals_costs_and_fronts(page: Path) -> None:
    text = page.read_text().replace("<wbr>", "")
    assert "strong&lt;b&gt;" in text and "strong<b>" not in text
    assert "Overall: weighted mean of the rounds" in text and "overall score" in text
    assert "Mean win rates by group of tasks" in text and "final score" not in text
    assert re.search(r"has the highest score, [0-9.]+ \(none above it in \d+% of 300", text)
    assert re.search(r"not distinguishable from (alike|strong&lt;b&gt;)\.", text)
    assert "not ranked: no win rate in qa" in text  # of the entry whose run failed
    assert "rank 3" in text and "up to 1B" in text and ">seconds</td>" in text
    assert "strong&lt;b&gt;: score" in text and "2.00 GB, on the front" in text
    # ranks of three rounds and two fronts of one, each drawn for wide columns and for phones
    assert len(re.findall(r'<svg[^>]*class="figure"', text)) == 2 * (3 + 2)
    assert "Spearman" in text


def test_it_needs_no_network(page: Path) -> None:
    text = page.read_text()
    assert "default-src 'none'" in text and not re.findall(r"@import|url\(", text)
    identities = re.findall(r' id="([^"]+)"', text)
    assert len(set(identities)) == len(identities)
    assert not re.findall(r"#0[12]0[12]0\d", text), "a placeholder of a colour was left"


def test_the_command_writes_it_and_replaces_only_its_own(results: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    words = ["rank", "report", "--results", str(results), "--draws", "0", "--out", str(out)]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0 and "no bootstrap draws" in out.read_text(), done.output
    assert CliRunner().invoke(cli, words).exit_code == 0
    out.write_text("mine")
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 1 and out.read_text() == "mine"
    done = CliRunner().invoke(cli, ["rank", "report", "--out", str(tmp_path / "x.html")])
    assert done.exit_code == 1


def test_the_only_ranked_entry_is_compared_with_none(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("entry,task,value\na,qa,1\na,nli,1\nb,qa,1\nc,nli,2\n")
    text = standings_page(rank_file(path, find_workspace(Path(__file__))), no_progress)
    assert "distinguishable from every" not in text


@pytest.mark.slow
def test_a_browser_lays_it_out_on_a_phone_and_shows_a_point(page: Path, tmp_path: Path) -> None:
    script = """
      const point = document.querySelector('svg.figure [aria-roledescription="point"]');
      point.dispatchEvent(new PointerEvent('pointermove', {clientX: 9, clientY: 9}));
      const tip = document.getElementById('tip');
      const root = document.documentElement;
      const drawn = [...document.querySelectorAll('svg.figure')].filter(s => s.clientWidth > 0);
      return [drawn.length, tip.textContent.includes(': rank 1'),
              getComputedStyle(tip).visibility, root.scrollWidth <= root.clientWidth,
              drawn.every(s => s.getBoundingClientRect().right <= root.clientWidth)].join(' ');
    """
    for width in (500, 1280):
        laid_out = evaluate(page, tmp_path, script, f"--window-size={width},900")
        assert laid_out == "5 true visible true true", width
