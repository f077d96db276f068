"""Rankings in SQL against brute force, worked examples and published scores."""

from __future__ import annotations

import csv
import gzip
import json
import math
import os
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from dbt_harness import Warehouse
from result_files import Rows, column_of, items, plain, write
from win_rate_oracle import geometric_mean, rank_of, win_rates

from plugins.merging.competition.standings import rank_file, stored_standings
from tokenmart import cli
from warehouse.errors import TokenmartError
from warehouse.paths import find_workspace

ROOT = Path(__file__).parents[4]
WORKSPACE = find_workspace(ROOT)
PUBLISHED = Path(os.environ.get("EFFICIENCY_CHALLENGE_RESULTS", ""))
"""The published results (round, entry, measure, value; gzipped CSV), which state no licence."""


@pytest.mark.parametrize("seed", range(6))
def test_random_tables_with_ties_and_gaps_equal_brute_force(tmp_path, seed):
    draw = np.random.default_rng(seed)
    entries = [f"e{k}" for k in range(int(draw.integers(2, 9)))]
    rows: Rows = []
    table: dict[tuple[str, str], tuple[str, dict[str, float | None]]] = {}
    for group in ("g", "h", "i"):
        for column in range(3):
            direction = str(draw.choice(["higher", "lower"], p=[0.65, 0.35]))
            scores: dict[str, float | None] = {}
            for entry in entries:
                value = None if draw.random() < 0.15 else round(float(draw.normal()), 1)
                scores[entry] = value
                fields = {"task": f"{group}{column}", "task_group": group, "direction": direction}
                rows.append({"entry": entry, "value": value, **fields})
            table[group, f"{group}{column}"] = direction, scores
    found = rank_file(write(tmp_path / "r.csv", rows), WORKSPACE, draws=0)
    rates: dict[tuple[str, str], list[float]] = defaultdict(list)
    for (group, _), (direction, scores) in table.items():
        for entry, rate in win_rates(scores, direction).items():
            rates[group, entry].append(rate)
    for row in found.marts["ranking_tasks"]:
        expected = rates.get((row["task_group"], row["entry"]))
        if expected is None:
            assert row["mean_win_rate"] is None and row["rank"] is None
        else:
            assert row["mean_win_rate"] == pytest.approx(np.mean(expected), abs=1e-11)
    whole = {
        entry: [float(np.mean(rates[group, entry])) for group in "ghi"]
        for entry in entries
        if all((group, entry) in rates for group in "ghi")
    }
    expected_scores = {entry: geometric_mean(values) for entry, values in whole.items()}
    for row in found.marts["rankings"]:
        if row["entry"] not in whole:
            assert row["score"] is None and row["rank"] is None and row["missing"]
            continue
        assert row["mean_win_rate"] == pytest.approx(np.mean(whole[row["entry"]]), abs=1e-11)
        assert row["score"] == pytest.approx(expected_scores[row["entry"]], abs=1e-11)
        products = {entry: round(math.prod(values), 15) for entry, values in whole.items()}
        assert row["product_rank"] == rank_of(products, row["entry"])
        assert row["rank"] == rank_of(expected_scores, row["entry"])


def test_intervals_are_those_of_a_bootstrap_over_items(tmp_path):
    draw = np.random.default_rng(1)
    answers = {
        name: [float(x) for x in draw.random(120) < chance]
        for name, chance in (("weak", 0.2), ("fair", 0.55), ("good", 0.56))
    }
    found = rank_file(write(tmp_path / "r.csv", items(answers)), WORKSPACE, draws=1500)
    picks = np.random.default_rng(2).integers(0, 120, (4000, 120))
    good, fair = (np.array(answers[name])[picks].mean(axis=1) for name in ("good", "fair"))
    share = float(np.mean((good > fair) + 0.5 * (good == fair)))
    pairs = {(p["entry"], p["other_entry"]): p for p in found.marts["ranking_pairs"]}
    # two bootstraps of 1,500 and 4,000 draws: five standard errors of their difference
    tolerance = 5 * math.sqrt(0.25 / 1500 + 0.25 / 4000)
    assert 1 - pairs["fair", "good"]["above_share"] == pytest.approx(share, abs=tolerance)
    verdicts = {pair: row["verdict"] for pair, row in pairs.items()}
    assert verdicts == {
        ("fair", "good"): "not-distinguishable",
        ("fair", "weak"): "distinguishable",
        ("good", "weak"): "distinguishable",
    }
    rows = {row["entry"]: row for row in found.marts["rankings"]}
    assert (rows["weak"]["rank_low"], rows["weak"]["rank_high"]) == (3, 3)
    assert (rows["good"]["rank_low"], rows["good"]["rank_high"]) == (1, 2)
    assert rows["good"]["resampled"] == "items" and rows["good"]["draws"] == 1500


def test_draws_are_the_same_each_time(tmp_path):
    draw = np.random.default_rng(3)
    answers = {name: [float(x) for x in draw.random(30) < 0.5] for name in "abcd"}
    path = write(tmp_path / "r.csv", items(answers))
    assert rank_file(path, WORKSPACE, 60) == rank_file(path, WORKSPACE, 60)


def test_an_entry_that_left_items_out_has_no_score(tmp_path):
    rows = items({"whole": [0, 1, 1], "other": [1, 1, 0], "partly": [1, 1]})
    found = rank_file(write(tmp_path / "r.csv", rows), WORKSPACE, draws=20)
    partly = next(row for row in found.marts["rankings"] if row["entry"] == "partly")
    assert partly["score"] is None and partly["rank_low"] is None
    assert partly["missing"] == ["qa"]
    (row,) = found.marts["ranking_missing"]
    assert (row["entry"], row["task"]) == ("partly", "qa")
    assert (row["code"], row["items_missing"]) == ("items-missing", 1)


@pytest.mark.parametrize(
    ("metric", "direction", "ranks", "noted"),
    [
        ("score", "", {"a": 2, "b": 1}, "qa"),
        ("score", "higher", {"a": 2, "b": 1}, None),
        ("score", "lower", {"a": 1, "b": 2}, None),
        ("ppl", "", {"a": 1, "b": 2}, "ppl"),
        ("latency", "", {"a": 1, "b": 2}, "latency"),
        ("latency", "higher", {"a": 2, "b": 1}, None),
    ],
)
def test_directions_are_those_of_the_file_or_of_names(tmp_path, metric, direction, ranks, noted):
    rows = plain({"qa": {"a": 1, "b": 2}}, metric=metric, direction=direction)
    found = rank_file(write(tmp_path / "r.csv", rows), WORKSPACE, draws=0)
    assert column_of(found, "results", "rank") == ranks
    assert [noted in note for note in found.notes if noted] == ([True] if noted else [])


def test_causes_of_a_missing_score_are_codes(tmp_path):
    scores: dict[str, dict[str, float]] = {"qa": {"Bob": 1, "ann": 2}, "sum": {"bob": 1, "ann": 2}}
    rows = [*plain(scores), {"entry": "carl", "task": "qa", "value": ""}]
    found = rank_file(write(tmp_path / "r.csv", rows), WORKSPACE, draws=0)
    missing = {"ann": None, "Bob": ["sum"], "bob": ["qa"], "carl": ["qa", "sum"]}
    assert column_of(found, "results", "missing") == missing
    codes = {(row["entry"], row["task"]): row["code"] for row in found.marts["ranking_missing"]}
    assert codes == {
        ("Bob", "sum"): "no-result",
        ("bob", "qa"): "no-result",
        ("carl", "qa"): "empty",
        ("carl", "sum"): "no-result",
    }


@pytest.mark.parametrize("groups", [5, 6])
def test_fewer_than_six_groups_of_tasks_give_no_interval(tmp_path, groups):
    table: dict[str, dict[str, float]] = {
        f"t{place}": {"a": place % 2, "b": 0.5, "c": 0.2} for place in range(groups)
    }
    rows = rank_file(write(tmp_path / "r.csv", plain(table)), WORKSPACE, draws=100).marts[
        "rankings"
    ]
    assert all((row["score_low"] is not None) == (groups == 6) for row in rows)
    assert {row["units"] for row in rows} == {groups} and {row["first_share"] for row in rows} == {
        None
    }


def test_two_tasks_whose_mean_win_rates_are_equal(tmp_path):
    """The geometric mean puts the even entry first; the arithmetic one is the same for all."""
    table = {"x": {"even": 2.0, "one": 3.0, "other": 1.0}, "y": {"even": 2, "one": 1, "other": 3}}
    found = rank_file(write(tmp_path / "r.csv", plain(table)), WORKSPACE, draws=0)
    assert set(column_of(found, "results", "mean_win_rate").values()) == {0.5}
    assert column_of(found, "results", "rank") == {"even": 1, "one": 2, "other": 2}


def test_rounds_are_weighted_and_the_product_can_order_otherwise(tmp_path):
    rates = {"a": (0.5, 0.5, 0.25), "b": (0.25, 0.25, 0.5)}
    rows: Rows = [
        {"entry": entry, "task": task, "round": round_, "round_weight": weight, "value": rate}
        | {"metric": "mean_win_rate"}
        for entry, found in rates.items()
        for (round_, weight, task), rate in zip(
            (("open", 1, "x"), ("open", 1, "y"), ("hidden", 2, "z")), found, strict=True
        )
    ]
    standings = rank_file(write(tmp_path / "r.csv", rows), WORKSPACE, draws=50)
    overall = column_of(standings, "overall")
    assert overall == pytest.approx({"a": (0.5 + 2 * 0.25) / 3, "b": (0.25 + 2 * 0.5) / 3})
    assert column_of(standings, "overall", "rank") == {"a": 2, "b": 1}
    assert column_of(standings, "overall", "product_rank") == {"a": 1, "b": 2}
    assert column_of(standings, "overall", "mean_win_rate") == pytest.approx(
        {"a": 1.25 / 3, "b": 1 / 3}
    )


ROW = {"entry": "a", "task": "q", "value": 1}
WIN_RATE = ROW | {"metric": "mean_win_rate"}
WRONG: dict[str, tuple[Rows, str, str]] = {
    "another column": ([ROW | {"tusk": "q"}], "extra-forbidden", "row 1: tusk"),
    "no task": ([{"entry": "a", "value": 1}], "missing", "row 1: task"),
    "no value": ([{"entry": "a", "task": "q"}], "nothing-ranked", ""),
    "text": ([ROW, ROW | {"item": 1, "value": "high"}], "float-parsing", "row 2: value"),
    "infinite": ([ROW | {"value": "inf"}], "finite-number", "row 1: value"),
    "direction": ([ROW | {"direction": "up"}], "literal-error", "row 1: direction"),
    "a part of an item": ([ROW | {"item": 1.5}], "int-parsing", "row 1: item"),
    "a negative item": ([ROW | {"item": -1}], "greater-than-equal", "row 1: item"),
    "twice": ([ROW, ROW], "repeated", "row 2"),
    "an item twice": ([ROW | {"item": 3}, ROW | {"item": 3}], "repeated", "row 2"),
    "weight": ([ROW | {"round_weight": -1}], "greater-than-equal", "row 1: round_weight"),
    "reserved": ([ROW | {"round": "Overall"}], "value-error", "row 1: round"),
    "win rate": ([WIN_RATE | {"value": 1.5}], "value-error", "row 1"),
    "win rate of an item": ([WIN_RATE | {"item": 1}], "value-error", "row 1"),
    "two directions": (
        [ROW | {"direction": "higher"}, ROW | {"entry": "b", "direction": "lower"}],
        "contradiction",
        "row 2",
    ),
    "two groups": (
        [ROW | {"task_group": "g"}, ROW | {"entry": "b", "task_group": "h"}],
        "contradiction",
        "row 2",
    ),
    "two weights": (
        [ROW | {"round_weight": 1}, ROW | {"entry": "b", "round_weight": 2}],
        "contradiction",
        "row 2",
    ),
    "scores and win rates": (
        [ROW | {"task_group": "g"}, WIN_RATE | {"task": "r", "task_group": "g"}],
        "contradiction",
        "row 2",
    ),
    "items and none": ([ROW | {"item": 0}, ROW | {"entry": "b"}], "contradiction", "row 2"),
}
"""Rows, and code and place of the refusal."""


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_table_is_refused(tmp_path, case):
    rows, code, place = WRONG[case]
    path = write(tmp_path / "r.csv", rows)
    with pytest.raises(TokenmartError) as refused:
        rank_file(path, WORKSPACE)
    assert refused.value.code == code
    assert refused.value.where.startswith(": ".join(filter(None, [str(path), place])))


def test_the_command_shows_and_writes(tmp_path):
    path = write(tmp_path / "r.csv", items({"a": [1, 1, 0], "b": [0, 1, 0]}))
    page, words = tmp_path / "standings.html", ["--results", str(path)]
    for _ in range(2):  # its own file is replaced
        done = CliRunner().invoke(cli, ["rank", "report", *words, "--out", str(page)])
        assert done.exit_code == 0, done.output
    printed = CliRunner().invoke(cli, ["rank", "show", *words, "--json"])
    scores = json.loads(printed.stdout)["task_scores"]
    assert [(row["entry"], row["score"], row["items"]) for row in scores] == [
        ("a", pytest.approx(2 / 3), 3), ("b", pytest.approx(1 / 3), 3),
    ]  # fmt: skip
    page.write_text("mine")
    missing = str(tmp_path / "no.csv")
    for more in (words, ["--results", missing], [], [*words, "--round", "later"]):
        done = CliRunner().invoke(cli, ["rank", "report", *more, "--out", str(page)])
        assert done.exit_code > 0 and page.read_text() == "mine"


def test_no_ranking_is_built(workspace):
    """Neither before the first build, nor for another name."""
    with pytest.raises(TokenmartError) as refused:
        stored_standings("challenge", workspace)
    assert (refused.value.code, refused.value.where) == ("not-built", "challenge")


def published() -> dict[tuple[str, str], dict[str, float | None]]:
    if not PUBLISHED.is_file():
        pytest.skip("third-party file: set $EFFICIENCY_CHALLENGE_RESULTS")
    found: dict[tuple[str, str], dict[str, float | None]] = defaultdict(dict)
    with gzip.open(PUBLISHED, "rt") as file:
        for row in csv.DictReader(file):
            value = float(row["value"]) if row["value"] not in ("", "nan") else None
            entry = row["entry"].removesuffix("_hidden")
            found[row["round"], entry][row["measure"]] = value
    return found


def as_win_rates(found: dict[tuple[str, str], dict[str, float | None]], rounds: set[str]) -> Rows:
    """The published mean win rates, with the weights of the final score."""
    hidden_tasks = ("sam_sum", "corr2cause", "MATH", "ethics")
    rows: Rows = []
    for (round_, entry), measures in found.items():
        for measure, value in measures.items():
            if round_ not in rounds or not measure.endswith(" Mean Win Rate"):
                continue
            task = measure.removesuffix(" Mean Win Rate")
            part = "hidden" if round_ == "hidden" or task in hidden_tasks else "open"
            name = f"final_{part}" if round_ == "final" else round_
            fields = {"entry": entry, "task": task, "value": value, "metric": "mean_win_rate"}
            rows.append(fields | {"round": name, "round_weight": 2 if part == "hidden" else 1})
    return rows


def test_the_published_scores_of_2023_follow_from_its_win_rates(tmp_path):
    found = published()
    rows = as_win_rates(found, {"open", "hidden"})
    separate = rank_file(write(tmp_path / "rounds.csv", rows), WORKSPACE, draws=0)
    compared = 0
    for round_ in ("open", "hidden"):
        for entry, score in column_of(separate, round_).items():
            assert score == pytest.approx(found[round_, entry]["Score"], abs=1e-9)
            compared += 1
    rows = as_win_rates(found, {"final"})
    final = rank_file(write(tmp_path / "final.csv", rows), WORKSPACE, draws=0)
    for name, column in (
        ("final_open", "Score_open"),
        ("final_hidden", "Score_hidden"),
        ("overall", "Score_full"),
    ):
        for entry, score in column_of(final, name).items():
            assert score == pytest.approx(found["final", entry][column], abs=1e-9)
    assert compared + len(column_of(final, "overall")) == 107


@pytest.mark.slow
def test_the_marts_that_dbt_builds_are_those_of_the_command(tmp_path, monkeypatch):
    """Import, build with all tests (unit tests, too), and show from the warehouse."""
    draw = np.random.default_rng(4)
    rows: Rows = []
    for round_, weight in (("open", 1), ("hidden", 2)):
        answers = {name: [float(x) for x in draw.random(25) < 0.5] for name in "abcd"}
        rows += items(answers, round=round_, round_weight=weight)
    path = write(tmp_path / "r.csv", rows)
    warehouse = Warehouse(tmp_path / "data", tmp_path / "t.duckdb")
    warehouse.data.mkdir()
    monkeypatch.setenv("TOKENMART_DATA", str(warehouse.data))
    monkeypatch.setenv("TOKENMART_DATABASE", str(warehouse.database))
    done = CliRunner().invoke(cli, ["rank", "import", "--problem", "mine", str(path)])
    assert done.exit_code == 0, done.output
    again = CliRunner().invoke(cli, ["rank", "import", "--problem", "mine", str(path)])
    assert again.exit_code == 1
    warehouse.run("--select", "+tag:rankings")
    tested = warehouse.dbt("test", "--select", "tag:rankings")
    assert tested.returncode == 0, tested.stdout
    shown = CliRunner().invoke(cli, ["rank", "show", "--problem", "mine", "--json"])
    assert shown.exit_code == 0, shown.output
    direct = CliRunner().invoke(cli, ["rank", "show", "--results", str(path), "--json"])
    stored, computed = json.loads(shown.stdout), json.loads(direct.stdout)
    assert {**stored, "name": ""} == {**computed, "name": ""}
    assert shown.stderr == ""
    write(path, [row | {"value": 1 - float(str(row["value"]))} for row in rows])
    again = CliRunner().invoke(cli, ["rank", "import", "--problem", "mine", "--force", str(path)])
    assert again.exit_code == 0, again.output
    stale = CliRunner().invoke(cli, ["rank", "show", "--problem", "mine"])
    assert stale.exit_code == 0 and stale.stderr
