"""Verdicts on pairs and the ranks that they leave open: none from too few results."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement as multisets
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from result_files import items, plain, write
from scipy.stats import binom, binomtest

from plugins.merging.competition import pairs as pairs_of_entries
from plugins.merging.competition.standings import Standings, rank_file
from plugins.merging.competition.standings_view import notes, rivals
from warehouse.paths import find_workspace

WORKSPACE = find_workspace(Path(__file__))
Answers = dict[str, list[float]]


def ranked(folder: Path, answers: dict[str, Answers], draws: int = 400) -> Standings:
    """Task → entry → a value for each item."""
    rows = [row for task, scores in answers.items() for row in items(scores, task=task)]
    return rank_file(write(folder / "r.csv", rows), WORKSPACE, draws)


def one_pair(found: Standings) -> tuple[str, float | None]:
    (pair,) = found.marts["ranking_pairs"]
    return pair["verdict"], pair["p"]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_one_to_five_items_are_too_few(tmp_path, count):
    """Five of five won have an exact p of 2 / 2^5 = 0.06."""
    found = ranked(tmp_path, {"qa": {"a": [1.0] * count, "b": [0.0] * count}})
    assert one_pair(found) == ("too-few", None)
    for row in found.marts["rankings"]:
        assert row["score_low"] is row["score_high"] is row["rank_low"] is row["rank_high"] is None
        assert row["first_share"] is None and row["draws"] == 0


def test_six_items_won_are_enough(tmp_path):
    found = ranked(tmp_path, {"qa": {"a": [1.0] * 6, "b": [0.0] * 6}})
    assert one_pair(found) == ("distinguishable", pytest.approx(2 / 2**6))
    ranks = {r["entry"]: (r["rank_low"], r["rank_high"]) for r in found.marts["rankings"]}
    assert ranks == {"a": (1, 1), "b": (2, 2)}


def test_rivals_of_entries_that_share_rank_1(tmp_path):
    alike = ([1.0] * 5 + [0.0]) * 2
    worse, worst = [*alike[:-2], 0.0, 0.0], [0.0] * 12
    found = ranked(tmp_path, {"qa": {"a": alike, "b": alike, "c": worse, "d": worst}})
    assert rivals(found, "results") == {"a": ["b", "c"], "b": ["a", "c"], "c": ["a", "b"]}


@pytest.mark.parametrize(("won", "lost"), [(5, 1), (7, 1), (8, 2), (14, 5), (20, 7), (60, 38)])
def test_the_exact_test_has_the_last_word(tmp_path, won, lost):
    a, b = [1.0] * won + [0.0] * lost, [0.0] * won + [1.0] * lost
    verdict, p = one_pair(found := ranked(tmp_path, {"qa": {"a": a, "b": b}}))
    exact = binomtest(won, won + lost).pvalue
    assert p == pytest.approx(exact)
    (pair,) = found.marts["ranking_pairs"]
    assert (pair["clusters"], pair["wins"], pair["losses"]) == (won + lost, won, lost)
    if verdict == "distinguishable":
        assert exact < 0.05 and pair["above_share"] >= 0.975
    else:
        assert exact >= 0.05 or pair["above_share"] < 0.975


def test_a_task_with_few_items_leaves_no_interval(tmp_path):
    """Resampling three items would call their mean certain; groups are resampled, here two."""
    many, few = [1.0] * 50, [1.0] * 3
    answers = {
        "qa": {"a": many, "b": [0.0] * 50},
        "nli": {"a": few, "b": [0.0] * 3},
    }
    found = ranked(tmp_path, answers)
    assert one_pair(found) == ("too-few", None)
    assert {row["resampled"] for row in found.marts["rankings"]} == {"tasks"}


def test_items_of_one_text_are_one(tmp_path):
    rows = items({"a": [1.0] * 50, "b": [0.0] * 50})
    rows = [row | {"cluster": row["item"] // 10} for row in rows]
    assert one_pair(rank_file(write(tmp_path / "r.csv", rows), WORKSPACE, 100)) == ("too-few", None)


def test_ties_never_give_a_rank_of_its_own(tmp_path):
    """Two entries with the same answers: both may be first or second."""
    answers = [1.0, 0.0] * 20
    found = ranked(tmp_path, {"qa": {"a": answers, "b": answers, "c": [0.0] * 40}})
    ranks = {r["entry"]: (r["rank_low"], r["rank_high"]) for r in found.marts["rankings"]}
    assert ranks == {"a": (1, 2), "b": (1, 2), "c": (3, 3)}


@pytest.mark.parametrize("seed", range(8))
def test_a_rank_of_1_to_1_is_distinguishable_from_all(tmp_path, seed):
    draw = np.random.default_rng(seed)
    count = int(draw.integers(6, 60))
    chances = np.sort(draw.random(5))
    answers = {f"e{k}": (draw.random(count) < chances[k]).astype(float).tolist() for k in range(5)}
    found = ranked(tmp_path, {"qa": answers}, draws=200)
    for row in found.marts["rankings"]:
        assert row["rank_low"] <= row["rank"] <= row["rank_high"]
        mine = [
            pair["verdict"]
            for pair in found.marts["ranking_pairs"]
            if row["entry"] in (pair["entry"], pair["other_entry"])
        ]
        assert (row["rank_low"] == row["rank_high"]) == (set(mine) == {"distinguishable"})


def test_a_test_against_the_order_of_the_scores_tells_nothing(tmp_path):
    """Of 300 items `b` wins 200, but `a` wins two small tasks, and has the higher score."""
    large = {"a": [0.0] * 200 + [1.0] * 40, "b": [1.0] * 200 + [0.0] * 40}
    small = {"a": [1.0] * 30, "b": [0.0] * 30}
    large, small = ({**each, "c": [-1.0] * len(each["a"])} for each in (large, small))
    found = ranked(tmp_path, {"large": large, "small": small, "smaller": small})
    pairs = {(p["entry"], p["other_entry"]): p for p in found.marts["ranking_pairs"]}
    pair = pairs["a", "b"]
    assert pair["measured_above"] == 1 and pair["losses"] > pair["wins"] and pair["p"] < 0.001
    assert pair["verdict"] == "not-distinguishable"


def test_pairs_over_items_are_adjusted_for_their_number(tmp_path):
    """12 items: `b` loses 10 and wins 2 against `a`; `c` and `d` lose all."""
    a, b = [1.0] * 10 + [0.0] * 2, [0.0] * 10 + [1.0] * 2
    found = ranked(tmp_path, {"qa": {"a": a, "b": b, "c": [-1.0] * 12, "d": [-2.0] * 12}})
    pairs = {(p["entry"], p["other_entry"]): p for p in found.marts["ranking_pairs"]}
    exact = binomtest(2, 12).pvalue
    assert exact < 0.05 and pairs["a", "b"]["p"] == pytest.approx(exact)  # the largest of six
    assert pairs["c", "d"]["p"] == pytest.approx(6 * 2 / 2**12)
    few = {entry: values[4:] for entry, values in (("a", a), ("b", b), ("c", [-1.0] * 12))}
    few["d"] = [-2.0] * 7
    few = {entry: values[:7] for entry, values in few.items()}
    found = ranked(tmp_path, {"qa": few})  # 6 pairs: even 7 of 7 have an adjusted p of 0.09
    assert {p["verdict"] for p in found.marts["ranking_pairs"]} == {"too-few"}


def of_tasks(rates: dict[str, list[float]]) -> dict[str, list[dict[str, Any]]]:
    """Marts of a round without items: entry → mean win rate in each group."""
    entries = sorted(rates)
    groups = range(len(rates[entries[0]]))
    return {
        "rankings": [
            {"round": "r", "entry": e, "resampled": "tasks", "units": len(groups), "rank": 1}
            | {"round_weight": 1.0}
            for e in entries
        ],
        "ranking_tasks": [
            {"round": "r", "entry": e, "task_group": f"g{g}", "mean_win_rate": rates[e][g]}
            for e in entries
            for g in groups
        ],
        "ranking_pairs": [
            {"round": "r", "entry": one, "other_entry": other, "measured_above": 1.0}
            | {"above_share": None, "wins": None, "losses": None}
            for place, one in enumerate(entries)
            for other in entries[place + 1 :]
        ],
    }


@pytest.mark.parametrize(("groups", "verdict"), [(5, "too-few"), (6, "distinguishable")])
def test_two_entries_take_six_groups_of_tasks(groups, verdict):
    marts = of_tasks({"a": [0.9] * groups, "b": [0.1] * groups})
    (pair,) = pairs_of_entries.tested_pairs(marts)
    assert pair["verdict"] == verdict
    assert pair["p"] == (None if groups == 5 else 2 / 2**6)


def test_pairs_over_groups_are_adjusted_for_their_number(tmp_path):
    """Ten groups: `best` is ahead in each; `a` and `b` change places."""
    table = {
        f"task{place}": {"best": 9, "a": 2 + place % 2, "b": 3 - place % 2, "c": 1}
        for place in range(10)
    }
    found = rank_file(write(tmp_path / "r.csv", plain(table)), WORKSPACE, draws=50)
    pairs = {(p["entry"], p["other_entry"]): p for p in found.marts["ranking_pairs"]}
    assert pairs["a", "best"]["p"] == pytest.approx(6 * 2 / 2**10)  # of six pairs, by Holm
    assert pairs["a", "best"]["verdict"] == pairs["b", "c"]["verdict"] == "distinguishable"
    assert (pairs["a", "b"]["verdict"], pairs["a", "b"]["p"]) == ("not-distinguishable", 1)
    ranks = {r["entry"]: (r["rank_low"], r["rank_high"]) for r in found.marts["rankings"]}
    assert ranks == {"best": (1, 1), "a": (2, 3), "b": (2, 3), "c": (4, 4)}


def test_a_rank_is_among_those_left_open_whatever_the_tests_say():
    """A test over groups compares mean win rates, and may contradict the geometric means."""
    rows = [{"round": "r", "entry": e, "rank": k} for k, e in enumerate("ab", start=1)]
    pair = {"round": "r", "entry": "a", "other_entry": "b", "measured_above": 0.0}
    found = pairs_of_entries.with_ranks(rows, [pair | {"verdict": "distinguishable"}])
    assert [(row["rank_low"], row["rank_high"]) for row in found] == [(1, 2), (1, 2)]


def test_shares_of_draws_are_those_of_all_resamples(tmp_path):
    """Two tasks of six items: all 462 multisets of each, with their probabilities.

    `a` is ahead of `c` in all but 2.7%. Of these 2.3 are half of the draws in which their scores
    are equal, each ahead in one task; a bootstrap of the mean over all items has 0.3%.
    """
    answers = {
        "a": ([1, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]),
        "b": ([0, 0, 1, 1, 0, 1], [0, 0, 0, 1, 0, 1]),
        "c": ([1, 1, 0, 1, 1, 1], [0, 0, 1, 0, 0, 0]),
        "d": ([0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0]),
    }
    entries = {
        task: {name: [*map(float, rows[place])] for name, rows in answers.items()}
        for place, task in enumerate(("qa", "nli"))
    }
    draws = 4000
    found = ranked(tmp_path, entries, draws)
    picked = [np.bincount(each, minlength=6) for each in multisets(range(6), 6)]
    times = np.array([math.factorial(6) / math.prod(map(math.factorial, row)) for row in picked])
    sums = np.array([[np.array(picked) @ row for row in rows] for rows in answers.values()])
    rates = (np.sign(sums[:, None] - sums[None]).sum(axis=1) + 3) / 6  # [entry, task, multiset]
    scores = np.sqrt(rates[:, 0, :, None] * rates[:, 1, None, :]).round(12)
    weights = np.outer(times, times) / 6**12
    for pair in found.marts["ranking_pairs"]:
        one, other = (scores["abcd".index(pair[name])] for name in ("entry", "other_entry"))
        above = (1 + np.sign(one - other)) / 2
        exact = float((weights * above).sum())
        error = math.sqrt(float((weights * above**2).sum()) - exact**2) / draws**0.5
        assert pair["above_share"] == pytest.approx(exact, abs=4 * error)
    a, c = scores[0], scores[2]
    assert (weights * (1 - np.sign(a - c)) / 2).sum() == pytest.approx(0.0274, abs=1e-4)
    assert (weights * (a == c)).sum() == pytest.approx(0.0460, abs=1e-4)
    gaps = (sums[0] - sums[2])[0][:, None] + (sums[0] - sums[2])[1]
    assert (weights * (1 - np.sign(gaps)) / 2).sum() == pytest.approx(0.0027, abs=1e-4)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_verdict_depends_on_the_seed(tmp_path, seed):
    """39 items won, 21 lost: the exact share of draws is 0.009, too near 0.025 for 200 draws."""
    rows = items({"a": [1.0] * 39 + [0.0] * 21, "b": [0.0] * 39 + [1.0] * 21})
    path = write(tmp_path / "r.csv", rows)
    few = rank_file(path, WORKSPACE, draws=200, most_draws=200, seed=seed)
    assert one_pair(few)[0] == "undecided" and rivals(few, "results") == {"a": ["b"], "b": ["a"]}
    assert [(r["rank_low"], r["rank_high"]) for r in few.marts["rankings"]] == [(1, 2), (1, 2)]
    assert any(line.startswith("undecided by 200 draws") for line in notes(few, "results"))
    added = rank_file(path, WORKSPACE, draws=200, most_draws=1000, seed=seed)
    at_once = rank_file(path, WORKSPACE, draws=1000, most_draws=1000, seed=seed)
    (one,), (other,) = (each.marts["ranking_pairs"] for each in (added, at_once))
    assert one["draws"] == 1000 and one["above_share"] == pytest.approx(other["above_share"])
    many = rank_file(path, WORKSPACE, draws=200, seed=seed)
    (pair,) = many.marts["ranking_pairs"]
    assert pair["verdict"] == "distinguishable" and 1000 <= pair["draws"] <= 5000
    ways = binom(60, 39 / 60)
    exact = 1 - ways.cdf(30) + ways.pmf(30) / 2
    error = (exact * (1 - exact) / pair["draws"]) ** 0.5
    assert pair["above_share"] == pytest.approx(exact, abs=4 * error)


def test_more_than_a_thousand_entries_are_ranked_without_pairs(tmp_path, workspace, monkeypatch):
    """And in less memory than their draws take: what exceeds it goes to the disk."""
    monkeypatch.setenv("TOKENMART_MEMORY", "60MiB")
    monkeypatch.setattr("warehouse.progress.SECONDS_BEFORE_SHOWN", 0.0)
    answers = {f"e{n:04d}": [float(n % 11 > item) for item in range(10)] for n in range(1001)}
    found = rank_file(write(tmp_path / "r.csv", items(answers)), workspace, draws=200)
    assert found.marts["ranking_pairs"] == []
    assert {row["rank_low"] for row in found.marts["rankings"]} == {None}
    assert {row["rank"] for row in found.marts["rankings"]} == {1 + 91 * n for n in range(11)}
    assert any("more than 1,000" in line for line in notes(found, "results"))
