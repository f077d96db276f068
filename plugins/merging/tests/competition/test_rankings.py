"""Rankings in SQL against brute force, worked examples and published scores."""

from __future__ import annotations

import csv
import gzip
import json
import math
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from dbt_harness import Warehouse
from scipy.stats import spearmanr
from win_rate_oracle import geometric_mean, rank_of, win_rates

from plugins.merging.competition.standings import Standings, rank_file
from tokenmart import cli
from warehouse.errors import TokenmartError
from warehouse.paths import find_workspace

ROOT = Path(__file__).parents[4]
WORKSPACE = find_workspace(ROOT)
PUBLISHED = ROOT.parent / "shared" / "published" / "efficiency_challenge_a100.csv.gz"

Rows = list[dict[str, object]]


def write(path: Path, rows: Rows) -> Path:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, names)
        table.writeheader()
        table.writerows(rows)
    return path


def scores_of(standings: Standings, round_name: str, column: str = "score") -> dict[str, float]:
    rows = standings.marts["rankings"]
    return {row["entry"]: row[column] for row in rows if row["round"] == round_name}


@pytest.mark.parametrize("seed", range(6))
def test_random_tables_with_ties_and_gaps_equal_brute_force(tmp_path: Path, seed: int) -> None:
    draw = np.random.default_rng(seed)
    entries = [f"e{k}" for k in range(int(draw.integers(2, 9)))]
    rows: Rows = []
    table: dict[tuple[str, str], tuple[str, dict[str, float | None]]] = {}
    for group in ("g", "h", "i"):
        for column in range(3):
            direction = str(draw.choice(["higher", "lower", "none"], p=[0.6, 0.3, 0.1]))
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
        assert row["product"] == pytest.approx(math.prod(whole[row["entry"]]), abs=1e-11)
        assert row["rank"] == rank_of(expected_scores, row["entry"])


def items(scores: dict[str, list[float]], **fields: object) -> Rows:
    return [
        {"entry": entry, "task": "qa", "item": place, "value": value, **fields}
        for entry, values in scores.items()
        for place, value in enumerate(values)
    ]


def test_intervals_are_those_of_a_bootstrap_over_items(tmp_path: Path) -> None:
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


def test_draws_are_the_same_each_time_and_others_with_another_seed(tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    answers = {name: [float(x) for x in draw.random(30) < 0.5] for name in "abcd"}
    path = write(tmp_path / "r.csv", items(answers))
    one, same, other = (rank_file(path, WORKSPACE, 60, seed) for seed in (5, 5, 6))
    assert one == same and one.marts["ranking_pairs"] != other.marts["ranking_pairs"]


def test_an_entry_that_left_items_out_has_no_score(tmp_path: Path) -> None:
    rows = items({"whole": [0, 1, 1], "other": [1, 1, 0], "partly": [1, 1]})
    found = rank_file(write(tmp_path / "r.csv", rows), WORKSPACE, draws=20)
    partly = next(row for row in found.marts["rankings"] if row["entry"] == "partly")
    assert partly["score"] is None and partly["rank_low"] is None
    assert partly["missing"] == ["qa"]
    (row,) = found.marts["ranking_missing"]
    assert (row["entry"], row["task"]) == ("partly", "qa")
    assert (row["code"], row["items_missing"]) == ("items-missing", 1)


def plain(table: dict[str, dict[str, float]], **directions: str) -> Rows:
    """Task → entry → value, without items; directions of tasks that have one."""
    return [
        {"entry": entry, "task": task, "value": value, "direction": directions.get(task, "")}
        for task, scores in table.items()
        for entry, value in scores.items()
    ]


def test_a_column_of_direction_none_is_left_out_with_its_group(tmp_path: Path) -> None:
    scores = {"qa": {"a": 1, "b": 2, "c": 3}, "sum": {"a": 1, "b": 3, "c": 2}}
    sizes = {"parameters": {"a": 9, "b": 8, "c": 7}}
    without = rank_file(write(tmp_path / "r.csv", plain(scores)), WORKSPACE, draws=0)
    rows = plain(scores | sizes, parameters="none")
    found = rank_file(write(tmp_path / "r.csv", rows), WORKSPACE, draws=0)
    assert found.marts == without.marts
    assert scores_of(found, "results", "rank") == {"a": 3, "b": 1, "c": 1}
    assert "parameters" in found.notes[-1]
    # a whole round of them has no weight in the overall score
    rounds = [row | {"round": "open"} for row in plain(scores)]
    rounds += [row | {"round": "hidden"} for row in plain(scores)]
    rounds += [row | {"round": "sizes"} for row in plain(sizes, parameters="none")]
    found = rank_file(write(tmp_path / "r.csv", rounds), WORKSPACE, draws=0)
    assert found.rounds == ["open", "hidden", "overall"]
    assert scores_of(found, "overall", "rank") == {"a": 3, "b": 1, "c": 1}


def test_directions_are_those_of_the_file_or_of_names(tmp_path: Path) -> None:
    rows = plain({"qa": {"a": 1, "b": 2}, "latency": {"a": 5, "b": 9}}, qa="higher")
    found = rank_file(write(tmp_path / "r.csv", rows), WORKSPACE, draws=0)
    assert len(found.notes) == 1 and "latency" in found.notes[0] and "qa" not in found.notes[0]
    assert [row["rank"] for row in found.marts["rankings"]] == [1, 2]
    lower = [row | {"metric": "ppl", "direction": ""} for row in plain({"qa": {"a": 1, "b": 2}})]
    found = rank_file(write(tmp_path / "r.csv", lower), WORKSPACE, draws=0)
    assert scores_of(found, "results", "rank") == {"a": 1, "b": 2} and "ppl" in found.notes[0]
    given = plain({"qa": {"a": 1, "b": 2}}, qa="lower")
    assert rank_file(write(tmp_path / "r.csv", given), WORKSPACE, draws=0).notes == ()


def test_causes_of_a_missing_score_are_codes(tmp_path: Path) -> None:
    scores: dict[str, dict[str, float]] = {"qa": {"Bob": 1, "ann": 2}, "sum": {"bob": 1, "ann": 2}}
    rows = [*plain(scores), {"entry": "carl", "task": "qa", "value": ""}]
    found = rank_file(write(tmp_path / "r.csv", rows), WORKSPACE, draws=0)
    missing = {"ann": None, "Bob": ["sum"], "bob": ["qa"], "carl": ["qa", "sum"]}
    assert scores_of(found, "results", "missing") == missing
    codes = {(row["entry"], row["task"]): row["code"] for row in found.marts["ranking_missing"]}
    assert codes == {
        ("Bob", "sum"): "no-result",
        ("bob", "qa"): "no-result",
        ("carl", "qa"): "empty",
        ("carl", "sum"): "no-result",
    }


@pytest.mark.parametrize("groups", [5, 6])
def test_fewer_than_six_groups_of_tasks_give_no_interval(tmp_path: Path, groups: int) -> None:
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


def test_two_tasks_whose_mean_win_rates_are_equal(tmp_path: Path) -> None:
    """The geometric mean puts the even entry first; the arithmetic one is the same for all."""
    table = {"x": {"even": 2.0, "one": 3.0, "other": 1.0}, "y": {"even": 2, "one": 1, "other": 3}}
    path = write(tmp_path / "r.csv", plain(table))
    found = rank_file(path, WORKSPACE, draws=0)
    assert scores_of(found, "results", "mean_win_rate") == dict.fromkeys(
        ("even", "one", "other"), 0.5
    )
    assert scores_of(found, "results", "rank") == {"even": 1, "one": 2, "other": 2}
    shown = CliRunner().invoke(cli, ["rank", "show", "--results", str(path)])
    assert "even, one, other" in shown.stdout


def test_rounds_are_weighted_and_the_product_can_order_otherwise(tmp_path: Path) -> None:
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
    overall = scores_of(standings, "overall")
    assert overall == pytest.approx({"a": (0.5 + 2 * 0.25) / 3, "b": (0.25 + 2 * 0.5) / 3})
    assert scores_of(standings, "overall", "rank") == {"a": 2, "b": 1}
    assert scores_of(standings, "overall", "product_rank") == {"a": 1, "b": 2}
    assert scores_of(standings, "overall", "mean_win_rate") == pytest.approx(
        {"a": 1.25 / 3, "b": 1 / 3}
    )


ROW = {"entry": "a", "task": "q", "value": 1}
WRONG: dict[str, tuple[Rows, str | None]] = {
    "no such column": ([{"entry": "a", "tusk": "q", "value": 1}], None),
    "no value": ([{"entry": "a", "task": "q"}], None),
    "text": ([ROW | {"value": "high"}], None),
    "infinite": ([ROW | {"value": "inf"}], None),
    "direction": ([ROW | {"direction": "up"}], "bad-value"),
    "twice": ([ROW, ROW], "repeated-row"),
    "an item twice": ([ROW | {"item": 3}, ROW | {"item": 3}], "repeated-row"),
    "weight": ([ROW | {"round_weight": -1}], "bad-value"),
    "reserved": ([ROW | {"round": "overall"}], "bad-value"),
    "win rate": ([ROW | {"value": 1.5, "metric": "mean_win_rate"}], "bad-value"),
    "two directions": (
        [ROW | {"direction": "higher"}, ROW | {"entry": "b", "direction": "lower"}],
        "contradiction",
    ),
    "nothing ranked": ([ROW | {"direction": "none"}], "nothing-ranked"),
    "items and none": ([ROW | {"item": 0}, {"entry": "b", "task": "q"}], "contradiction"),
}
"""Rows, and the code of the refusal; None where the reader of tables refuses them."""


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_table_is_refused_in_one_line(tmp_path: Path, case: str) -> None:
    rows, code = WRONG[case]
    path = write(tmp_path / "r.csv", rows)
    with pytest.raises(TokenmartError) as refused:
        rank_file(path, WORKSPACE)
    assert "\n" not in refused.value.message and str(path) in refused.value.message
    if code is not None:
        assert refused.value.code == code and refused.value.where.startswith(str(path))


def test_the_command_shows_and_writes(tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", items({"a": [1, 1, 0], "b": [0, 1, 0]}))
    out = tmp_path / "standings.json"
    words = ["rank", "show", "--results", str(path), "--draws", "50"]
    shown = CliRunner().invoke(cli, [*words, "--out", str(out)])
    assert shown.exit_code == 0, shown.output
    printed = CliRunner().invoke(cli, [*words, "--json"])
    assert json.loads(printed.stdout) == json.loads(out.read_text())
    out.write_text("mine")
    refused = CliRunner().invoke(cli, [*words, "--out", str(out)])
    assert refused.exit_code == 1 and out.read_text() == "mine"
    wrong = CliRunner().invoke(cli, [*words, "--round", "later"])
    assert wrong.exit_code == 1


def published() -> dict[tuple[str, str], dict[str, float | None]]:
    if not PUBLISHED.is_file():
        pytest.skip("the published results are not here")
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


def test_the_published_scores_of_2023_follow_from_its_win_rates(tmp_path: Path) -> None:
    found = published()
    rows = as_win_rates(found, {"open", "hidden"})
    separate = rank_file(write(tmp_path / "rounds.csv", rows), WORKSPACE, draws=0)
    compared = 0
    for round_ in ("open", "hidden"):
        for entry, score in scores_of(separate, round_).items():
            assert score == pytest.approx(found[round_, entry]["Score"], abs=1e-9)
            compared += 1
    rows = as_win_rates(found, {"final"})
    final = rank_file(write(tmp_path / "final.csv", rows), WORKSPACE, draws=0)
    for name, column in (
        ("final_open", "Score_open"),
        ("final_hidden", "Score_hidden"),
        ("overall", "Score_full"),
    ):
        for entry, score in scores_of(final, name).items():
            assert score == pytest.approx(found["final", entry][column], abs=1e-9)
    assert compared + len(scores_of(final, "overall")) == 107


def test_how_stable_the_ranking_of_2023_was(tmp_path: Path) -> None:
    found = published()
    rows = as_win_rates(found, {"open", "hidden"})
    standings = rank_file(write(tmp_path / "rounds.csv", rows), WORKSPACE, draws=400)
    open_scores, hidden_scores = (scores_of(standings, name) for name in ("open", "hidden"))
    both = sorted(set(open_scores) & set(hidden_scores))
    (pair,) = [row for row in standings.marts["ranking_stability"] if "overall" not in row.values()]
    assert pair["entries"] == len(both)
    expected = spearmanr([open_scores[e] for e in both], [hidden_scores[e] for e in both]).statistic
    assert pair["spearman"] == pytest.approx(expected, abs=1e-9)
    # the open round has three groups of tasks
    assert pair["spearman_low"] is None and pair["spearman_high"] is None


@pytest.mark.slow
def test_the_marts_that_dbt_builds_are_those_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert done.exit_code == 0 and "200 results of 4 entries" in done.output, done.output
    again = CliRunner().invoke(cli, ["rank", "import", "--problem", "mine", str(path)])
    assert again.exit_code == 1 and "--force" in again.output
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
    assert "newer than this ranking" in stale.stderr
