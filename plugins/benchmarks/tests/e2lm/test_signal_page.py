"""The page of a table of scores: the data that it shows, and how a browser lays it out."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from browser import evaluate
from click.testing import CliRunner, Result

from plugins.benchmarks.e2lm.reasons import REASONS
from plugins.benchmarks.page.signal_page import SignalData, gather_page
from tokenmart import cli
from warehouse.errors import TokenmartError
from warehouse.paths import find_workspace

WORKSPACE = find_workspace(Path(__file__))
BENCHMARKS = ("rises<b>", "wavers", "constant")
TOKENS = [4.194304, 10.110550016, *(4.665546069333 + 16.777216 * k for k in range(1, 15))]


def data_of(path: Path) -> SignalData:
    return gather_page(None, path, None, WORKSPACE)


def invoke(scores: Path, out: Path, *more: str) -> Result:
    words = ["e2lm", "report", "--scores", str(scores), "--out", str(out), *more]
    return CliRunner().invoke(cli, words)


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    generator = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("signal") / "scores.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["model", "size", "arch", "tokens_bt", "benchmark", "score", "stderr"])
        for number in range(6):
            for at, tokens in enumerate(TOKENS):
                run = [f"m{number}", f"{number + 1}b", "a", tokens]
                rise = 0.2 + (0.02 + 0.004 * number) * at
                rows.writerow([*run, BENCHMARKS[0], rise, 0.01])
                rows.writerow([*run, BENCHMARKS[1], 0.5 + generator.normal(0, 0.05), ""])
                rows.writerow([*run, BENCHMARKS[2], 0.25, ""])
    return path


@pytest.fixture(scope="module")
def page(scores: Path) -> Path:
    out = scores.with_name("signal.html")
    assert invoke(scores, out).exit_code == 0
    return out


def test_data_of_the_page(scores):
    data = data_of(scores)
    assert (data.all_runs, data.unit) == (6, "tokens")
    assert data.runs == [f"m{number}" for number in range(6)]
    assert list(data.curves) == ["constant", "rises<b>", "wavers"]
    rises = next(row for row in data.signal if row["benchmark"] == BENCHMARKS[0])
    assert rises["sq"] == pytest.approx(1) and rises["sq_range"] == pytest.approx([1, 1])
    assert (rises["decision_accuracy"], rises["decision_pairs"]) == (1, 15)
    points = data.curves["rises<b>"]
    (last,) = [p for p in points if p["run"] == "m5" and p["progress"] > 235e9]
    assert last["score"] == pytest.approx(0.2 + 0.04 * 15)
    assert last["error"] == pytest.approx(1.959964 * 0.01)
    half = {each["benchmark"]: each for each in data.decisions if each["stage"] == "50%"}
    assert (half["rises<b>"]["agreement"], half["rises<b>"]["pairs"]) == (1.0, 15)
    accuracy = [row["decision_accuracy"] or 0 for row in data.signal]
    assert accuracy == sorted(accuracy, reverse=True)
    constant = next(row for row in data.signal if row["benchmark"] == "constant")
    assert constant["sq"] is None and data.reasons["sq"] == [REASONS["constant_scores"]]


def test_the_page_needs_no_network_and_escapes_names(page):
    text = page.read_text()
    assert text.count('<div class="figure"') == 3 + 1
    assert "rises<b>" not in text
    assert "default-src 'none'" in text and not re.findall(r"@import|url\(", text)
    identities = re.findall(r' id="([^"]+)"', text)
    assert len(set(identities)) == len(identities)
    assert not re.findall(r"#0[12]0[12]0\d", text), "a placeholder of a colour was left"


def test_another_page_may_be_replaced_and_nothing_else(scores, tmp_path):
    mine = tmp_path / "mine.html"
    mine.write_text("mine")
    assert invoke(scores, mine).exit_code == 1 and mine.read_text() == "mine"
    with pytest.raises(TokenmartError) as caught:
        gather_page(None, scores, "scor", WORKSPACE)
    assert caught.value.code == "unknown-metric"
    assert CliRunner().invoke(cli, ["e2lm", "report"]).exit_code == 2


@pytest.mark.slow
def test_a_browser_lays_it_out_on_a_phone_and_shows_a_point(page, tmp_path):
    script = """
      const panels = document.querySelectorAll('.panels > div');
      const point = document.querySelector('.panels [aria-roledescription="point"] title');
      const root = document.documentElement;
      return [panels.length, point.textContent.includes('after 4.19B tokens'),
              root.scrollWidth <= root.clientWidth,
              [...panels].every(p => p.getBoundingClientRect().right <= root.clientWidth)]
              .join(' ');
    """
    for width in (500, 1280):
        laid_out = evaluate(page, tmp_path, script, f"--window-size={width},900")
        assert laid_out == "3 true true true", width


def table(path: Path, header: str, rows: list[str]) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n")
    assert invoke(path, path.with_suffix(".html")).exit_code == 0
    return path


def test_a_decision_accuracy_on_few_pairs_is_not_shown(scores, tmp_path):
    header, *lines = scores.read_text().splitlines()
    kept = [line for line in lines if not re.match("m[45]", line)]
    data = data_of(table(tmp_path / "few.csv", header, kept))
    assert data.decisions == []
    assert all(row["decision_pairs"] == 6 for row in data.signal)
    assert all(row["decision_accuracy"] is None for row in data.signal)
    assert [row["benchmark"] for row in data.signal] == ["constant", "rises<b>", "wavers"]


def test_runs_with_lines_are_one_of_each_size_architecture_and_recipe(tmp_path):
    rows = [
        f"{recipe}-{name},1b,a,{recipe},{at},q,0.{at}"
        for recipe in ("web", "science")
        for name, places in {"short": (1, 2), "long": (1, 2, 3)}.items()
        for at in places
    ]
    header = "model,size,arch,recipe,tokens_bt,benchmark,score"
    data = data_of(table(tmp_path / "recipes.csv", header, rows))
    assert (data.all_runs, data.runs) == (4, ["science-long", "web-long"])


@pytest.mark.parametrize("places", [(4, 8), (8,)])
def test_short_runs_have_a_page(tmp_path, places):
    header = "model,size,arch,tokens_bt,benchmark,score"
    rows = [f"m{n},1b,a,{tokens},only,0.{n}{tokens}" for n in (1, 2) for tokens in places]
    data = data_of(table(tmp_path / "short.csv", header, rows))
    assert data.decisions == []
    assert "decision_accuracy" in data.reasons
    assert [row["sq"] for row in data.signal] == [None]
