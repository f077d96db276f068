"""Checks of results: values on another scale, missing ones, and what one round shows of others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from result_files import Rows, items, plain, write

from tokenmart import cli

VALUES = {"anna": 0.412, "bert": 0.4, "cleo": 0.39, "dora": 0.3}
ROUNDS = {"open": 1, "hidden": 2, "trial": 0}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Three rounds; anna's qa is percent in open and trial, and dora has no code in them."""
    rows: Rows = []
    for name, weight in ROUNDS.items():
        other = name != "hidden"
        percent = VALUES | ({"anna": 41.2} if other else {})
        code = {entry: value for entry, value in VALUES.items() if not (other and entry == "dora")}
        fields = {"task_group": "all", "round": name, "round_weight": weight}
        rows += plain({"qa": percent, "code": code}, direction="higher", **fields)
        rows += plain({"loss": percent}, direction="lower", **fields)
    return write(tmp_path / "results.csv", rows)


def shown(results: Path, *more: str) -> dict[str, Any]:
    words = ["rank", "show", "--results", str(results), "--json", *more]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    return dict(json.loads(done.stdout))


def test_percent_beside_fractions(results):
    """Not of a loss: where lower is better, any size may be right."""
    column = {"task": "qa", "metric": "score", "entries": ["anna"], "scale": "percent"}
    found = [{"round": name, **column} for name in ("open", "trial")]
    assert shown(results)["mixed_scales"] == found


def test_a_single_fraction_beside_percent_is_the_one_named(tmp_path):
    """With items, the value of an entry is its mean: 0.5 beside 50."""
    scores = {entry: [0, scale] * 4 for entry, scale in (("a", 100), ("b", 1), ("c", 100))}
    (found,) = shown(write(tmp_path / "r.csv", items(scores)))["mixed_scales"]
    assert (found["entries"], found["scale"]) == (["b"], "fractions")


@pytest.mark.parametrize(
    ("round_name", "lacking", "mixed"),
    [("overall", ["open"], ["open"]), ("hidden", [], []), ("trial", ["trial"], ["trial"])],
)
def test_a_round_has_its_checks_and_overall_those_of_its_rounds(
    results, round_name, lacking, mixed
):
    """Trial has no weight, so it is no part of the overall ranking."""
    found = shown(results, "--round", round_name)
    missing = [(row["round"], row["entry"], row["task"]) for row in found["ranking_missing"]]
    assert missing == [(name, "dora", "code") for name in lacking]
    assert [row["round"] for row in found["mixed_scales"]] == mixed
    assert {row["round"] for row in found["rankings"]} == {round_name}


def test_a_result_without_another_to_compare_with(tmp_path):
    table = {"x": {"a": 1, "b": 2}, "y": {"a": 1, "b": 2}, "z": {"a": 9}}
    (row,) = shown(write(tmp_path / "r.csv", plain(table, task_group="all")))["ranking_missing"]
    assert (row["entry"], row["task"], row["code"]) == ("a", "z", "alone")


def test_entries_without_an_overall_score_name_their_rounds(tmp_path):
    rows = plain({"t": {"a": 1, "b": 2, "Bob": 3, "c": 9}}, round="open", round_weight=1)
    rows += plain({"t": {"a": 1, "b": 2, "bob": 3, "c": ""}}, round="hidden", round_weight=2)
    rows += plain({"t": {"a": 1, "d": 2}}, round="trial", round_weight=0)
    rankings = shown(write(tmp_path / "r.csv", rows))["rankings"]
    overall = [row for row in rankings if row["round"] == "overall"]
    assert [(row["entry"], row["rank"]) for row in overall if row["rank"]] == [("b", 1), ("a", 2)]
    assert {row["entry"]: row["missing"] for row in overall if row["score"] is None} == {
        "Bob": ["hidden"], "bob": ["open"], "c": ["hidden"], "d": ["hidden", "open"],
    }  # fmt: skip


def test_names_that_unicode_holds_for_equal_are_one(tmp_path):
    """As a file of macOS and one of Linux write them; letters of either case are two."""
    table = {"qa": {"caf\u00e9": 1, "Caf\u00e9": 2}, "nli": {"cafe\u0301": 3, "Cafe\u0301": 2}}
    rows = shown(write(tmp_path / "r.csv", plain(table)))["rankings"]
    assert {row["entry"]: row["mean_win_rate"] for row in rows} == {
        "caf\u00e9": 0.5,
        "Caf\u00e9": 0.5,
    }


def test_a_round_of_weight_0_is_no_part_of_the_overall_intervals_and_pairs(tmp_path):
    """Its results have no items: items of the two others are resampled, and compare the pairs."""
    scores = {entry: [int(item % 4 >= n) for item in range(40)] for n, entry in enumerate("ab")}
    rows = items(scores, round="open") + items(scores, round="hidden")
    rows += plain({"qa": {"a": 0, "b": 1}}, round="trial", round_weight=0)
    found = shown(write(tmp_path / "r.csv", rows), "--round", "overall")
    assert [(r["resampled"], r["draws"]) for r in found["rankings"]] == [("items", 1000)] * 2
    (pair,) = found["ranking_pairs"]
    assert (pair["verdict"], pair["p"]) == ("distinguishable", pytest.approx(2 / 2**20))
    # without items: b is better in all 6 groups of the two rounds (p = 2 / 2^6), worse in trial's
    rows = []
    for name, weight in (("open", 1), ("hidden", 1), ("trial", 0)):
        table = {f"t{n}": {"a": 1 - weight, "b": weight} for n in range(3)}
        rows += plain(table, round=name, round_weight=weight)
    (pair,) = shown(write(tmp_path / "r.csv", rows), "--round", "overall")["ranking_pairs"]
    assert (pair["verdict"], pair["p"]) == ("distinguishable", 2 / 2**6)


@pytest.mark.parametrize("how", ["json", "text", "page"])
def test_one_round_shows_nothing_of_another(tmp_path, how):
    """Organisers publish the open round while the other one is secret, directions included."""
    rows: Rows = []
    for name in ("open", "secret"):
        table = {f"{name}_{task}": {"a": 0.1, "b": 0.2} for task in ("qa", "nli")}
        rows += plain(table, round=name)
        rows += plain({f"{name}_lm": {"a": 3, "b": 2}}, round=name, metric=f"{name}_perplexity")
    path, page = write(tmp_path / "r.csv", rows), tmp_path / "page.html"
    words = ["rank", "report" if how == "page" else "show", "--results", str(path)]
    words += ["--round", "open"]
    words += {"json": ["--json"], "text": ["--explain"], "page": ["--out", str(page)]}[how]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    text = done.output + (page.read_text() if how == "page" else "")
    assert "open_qa" in text and "open_perplexity" in text and "secret" not in text


def test_imported_results_are_replaced_on_request_only(tmp_path, results, monkeypatch):
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("TOKENMART_DATA", str(tmp_path / "data"))
    words = ["rank", "import", "--problem"]
    for more, code in (
        (["mixed", str(results)], 0),
        (["mixed", str(results)], 1),
        (["mixed", "--force", str(results)], 0),
        (["Mixed", str(results)], 1),
        (["minilong", str(results)], 1),  # the name of a problem file
    ):
        assert CliRunner().invoke(cli, [*words, *more]).exit_code == code, more
