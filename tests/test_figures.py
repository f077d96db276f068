"""Figures in README and benchmarks/RESULTS.md are those of committed files that a command wrote."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from made_up_marts import Marts

from tokenmart import cli

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
RESULTS = (ROOT / "benchmarks" / "RESULTS.md").read_text("utf-8")


@pytest.fixture
def demo_figures(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import demo_figures

    yield demo_figures
    sys.modules.pop("demo_figures")


@pytest.fixture
def winners(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import statistics_winners

    yield statistics_winners
    sys.modules.pop("statistics_winners")


def test_the_readme_shows_the_committed_figures_of_the_demo(demo_figures: Any) -> None:
    figures = json.loads((ROOT / "docs" / "demo_figures.json").read_text("utf-8"))
    assert demo_figures.readme_block(figures) in README
    assert demo_figures.times_text(figures["seconds"]) in README
    assert figures["command"] in README


def test_the_readme_says_what_the_first_picture_shows() -> None:
    problems = json.loads((ROOT / "docs" / "e2lm_readings.json").read_text("utf-8"))
    first = next(each for each in problems if each["problem"] == "ladder")["stages"][0]
    found = {each["reading"]: each["decision_accuracy"] for each in first["readings"]}
    assert first["stage"] == "5%"
    assert next(iter(found)) == "bpb" and max(found.values()) == found["bpb"]
    text = " ".join(README.split())
    assert f"scores of {first['runs']} OLMo runs: after 5% of a training" in text
    assert f"order {found['bpb']:.0%} of the pairs" in text
    assert f"at the same moment, {found['accuracy']:.0%}." in text
    assert (ROOT / "docs" / "images" / "decisions.svg").is_file()


def test_the_rehearsals_minutes_are_those_of_its_output() -> None:
    output = (ROOT / "benchmarks" / "rehearsal.txt").read_text("utf-8")
    assert "17 of 17 models" in output and "FAILED" not in output
    minutes = output.strip().splitlines()[-1]
    assert minutes.endswith(" minutes") and f"({minutes} on two cores" in README
    assert f"**{minutes}**" in RESULTS


def test_the_figures_of_the_demo_are_what_the_commands_print(
    minilong: Marts, demo_figures: Any
) -> None:
    found = demo_figures.demo_figures(minilong.workspace)
    ranked, chosen = (
        json.loads(CliRunner().invoke(cli, [name, "--problem", "minilong", "--json"]).stdout)
        for name in ("correlate", "select")
    )
    of_row = {(row["metric"], row["variant"]): row for row in ranked["rows"]}
    for row in found["rows"]:
        printed = of_row[row["metric"], row["variant"]]
        interval = printed["spearman_ci95_after_choice"]
        assert row["held_out"] == printed["held_out"]
        assert row["spearman"] == printed["spearman"]
        assert (row["low"], row["high"]) == (interval["low"], interval["high"])
        assert row["p_adjusted"] == printed["p_adjusted"]
    assert found["winner"] == chosen["winner"]
    assert found["left_out_models"] == chosen["held_out"]["leave_one_model_out"]
    assert found["tries"] == chosen["tried"]["all"]
    assert found["luck_reaches"] == ranked["null_95_of_best"]


def test_another_run_replaces_what_the_readme_says(demo_figures: Any) -> None:
    figures = json.loads((ROOT / "docs" / "demo_figures.json").read_text("utf-8"))
    other = figures | {"tries": 4711, "seconds": figures["seconds"] | {"second_run": 4711}}
    changed = demo_figures.with_figures(README, other)
    assert "p, 4711 tries" in changed and "took 78 min 31 s" in " ".join(changed.split())
    assert demo_figures.with_figures(changed, figures) == README


def test_the_tables_of_the_simulation_are_the_committed_ones(winners: Any) -> None:
    tables = json.loads((ROOT / "benchmarks" / "statistics_winners.json").read_text("utf-8"))
    assert winners.results_block(tables) in RESULTS
    worlds = {world.name for world in winners.WORLDS}
    for name, signals in (("coverage", winners.SIGNALS), ("winners", winners.POWER_SIGNALS)):
        settings = {(row["world"], row["signal"]) for row in tables[name]}
        assert settings == {(world, signal) for world in worlds for signal in signals}


def test_the_simulation_keeps_its_promises(winners: Any) -> None:
    """Coverage of at least 90%, false winners in at most 5% of studies, in half an hour."""
    tables = json.loads((ROOT / "benchmarks" / "statistics_winners.json").read_text("utf-8"))
    for row in tables["coverage"]:
        assert row["covers"] >= 0.9, row
        assert row["new_family_covers"] is None or row["new_family_covers"] >= 0.9, row
    for row in tables["winners"]:
        assert row["wrong"] <= 0.05, row
    assert tables["cpu_seconds"] <= 2 * 30 * 60
