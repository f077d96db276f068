"""Merged entries relative to their base and experts, against brute force."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from merge_samples import local, write_problem
from result_files import Rows, items, plain, write

from plugins.merging.competition.relative import (
    base_and_experts,
    exclusion_of_0_is_undecided,
    expert_alone,
    least_interval,
)
from plugins.merging.competition.standings import Row, rank_file
from plugins.merging.problem import MergeProblem, load_merge_problem
from tokenmart import cli
from warehouse.errors import TokenmartError
from warehouse.paths import find_workspace

WORKSPACE = find_workspace(Path(__file__))
DRAWS, CLUSTERS = 200, 40


def merge_of(name: str, *models: str, method: str = "linear", **more: Any) -> dict[str, Any]:
    parts = [{"model": each, "parameters": {"weight": 1}} for each in models]
    return {"name": name, "recipe": {"merge_method": method, "models": parts, **more}}


ADAPTERS = {"adapter": "none", "base": "plain"}
MERGES = [
    merge_of("plain-alone", "plain"),
    merge_of("one-alone", "one"),
    merge_of("all", "one", "two", "three"),
    merge_of("pair", "one", "two", method="task_arithmetic", base_model="plain"),
]

PASSED = {"name": "m", "recipe": {"merge_method": "passthrough", "models": [{"model": "one"}]}}


def problem_of(folder: Path, merges: list[dict[str, Any]] = MERGES) -> MergeProblem:
    """A base, three adapters of it, and two checkpoints without a base."""
    experts = [{"name": name, "source": local(folder)} for name in ("plain", "x", "y")]
    experts += [{"name": name, **ADAPTERS} for name in ("one", "two", "three")]
    path = write_problem(folder / "made.yml", experts=experts, merges=merges)
    return load_merge_problem(str(path), WORKSPACE)


def draws_of(task: str) -> np.ndarray[Any, Any]:
    """`[draws, clusters]` picks of clusters, which are ordered by name as texts."""
    names = sorted(map(str, range(CLUSTERS)))

    def pick(draw: int, place: int) -> int:
        digest = hashlib.md5(f"0/{draw}/results/{task}/{place}".encode()).digest()
        return int(names[int.from_bytes(digest[8:], "little") % CLUSTERS])

    places = range(CLUSTERS)
    return np.array([[pick(draw, place) for place in places] for draw in range(1, DRAWS + 1)])


def expected(
    values: dict[str, np.ndarray[Any, Any]], entry: str, others: list[str], task: str, sign: int
) -> tuple[float, float, float]:
    """The least difference to the others and its interval, item by item."""
    picks = draws_of(task)
    least, lows, highs = [], [], []
    for other in others:
        paired = sign * (values[entry] - values[other])
        means = np.array([np.mean([paired[2 * k : 2 * k + 2] for k in pick]) for pick in picks])
        least.append(paired.mean())
        lows.append(np.quantile(means, 0.025))
        highs.append(np.quantile(means, 1 - 0.025 / len(others)))
    return min(least), min(lows), min(highs)


@pytest.fixture(scope="module")
def answers() -> dict[str, dict[str, np.ndarray[Any, Any]]]:
    """Task → entry → a value per item, two items a cluster; `one` and `two` are equal in qa."""
    draw = np.random.default_rng(0)
    names = ("plain-alone", "one-alone", "two", "three", "all", "pair")
    chances = dict(zip(names, (0.3, 0.7, 0.7, 0.4, 0.6, 0.75), strict=True))
    right = {name: (draw.random(2 * CLUSTERS) < chances[name]).astype(float) for name in names}
    right["two"] = right["one-alone"][::-1].copy()
    loss = {name: draw.normal(3 - chances[name], 1, 2 * CLUSTERS).round(3) for name in names}
    del loss["three"]
    return {"qa": right, "loss": loss}


def test_differences_and_intervals_equal_brute_force(tmp_path, answers):
    rows: Rows = []
    for task, direction in (("qa", "higher"), ("loss", "lower")):
        given = {name: each.tolist() for name, each in answers[task].items()}
        rows += items(given, task=task, direction=direction)
    rows = [row | {"cluster": row["item"] // 2} for row in rows]
    path = write(tmp_path / "r.csv", rows)
    found = rank_file(path, WORKSPACE, DRAWS, recipes=problem_of(tmp_path), most_draws=DRAWS).marts[
        "relative"
    ]
    by_key: dict[tuple[str, str], Row] = {(row["task"], row["entry"]): row for row in found}
    assert by_key.keys() == {(task, entry) for task in answers for entry in ("all", "pair")}
    entry_of = {"plain": "plain-alone", "one": "one-alone", "two": "two", "three": "three"}
    for (task, entry), row in by_key.items():
        assert (row["items"], row["clusters"]) == (2 * CLUSTERS, CLUSTERS)
        experts = ["one", "two", "three"] if entry == "all" else ["one", "two"]
        for key, models in (("over_base", ["plain"]), ("over_best", experts)):
            got = (row[key], row[f"{key}_low"], row[f"{key}_high"])
            others = [entry_of[name] for name in models]
            if not set(others) <= answers[task].keys():
                assert got == (None, None, None) and row["missing"] == ["three"]
                assert row["best_experts"] == []
                continue
            sign = 1 if task == "qa" else -1
            wanted = expected(answers[task], entry, others, task, sign)
            assert got == pytest.approx(wanted, abs=1e-10)
    for entry in ("all", "pair"):
        assert by_key["qa", entry]["best_experts"] == ["one", "two"]  # equal means, other items
    assert by_key["loss", "pair"]["missing"] == []


def test_the_interval_covers_the_difference_to_the_best_of_equal_experts():
    """A bootstrap of the least difference covers it in 84% of these samples."""
    draw = np.random.default_rng(2)
    samples, count, experts = 400, 50, 3
    covered = bootstrap = 0
    for _ in range(samples):
        differences = draw.normal(size=(experts, count)) + draw.normal(size=count)
        picks = draw.multinomial(count, [1 / count] * count, size=400) / count
        means = np.column_stack([differences.mean(axis=1), differences @ picks.T])
        low, high = least_interval(list(means))
        assert low is not None and high is not None
        covered += low <= 0 <= high
        low, high = np.quantile(means[:, 1:].min(axis=0), [0.025, 0.975])
        bootstrap += low <= 0 <= high
    assert covered / samples >= 0.94 > bootstrap / samples


@pytest.mark.parametrize(
    ("not_above", "not_below", "expected"),
    [
        ([0], [1000], False),  # surely above
        ([24], [976], True),  # 2.4% of the draws: the lower end may be on either side of 0
        ([500], [500], False),
        ([1000, 1000], [12, 900], True),  # 1.2%, limit 2.5 / 2
        ([24, 500], [976, 500], False),  # surely not above: of one it isn't
        ([1000, 990], [0, 12], False),  # surely below: one is
        ([1000, 24], [0, 976], False),
    ],
)
def test_an_interval_is_undecided_where_more_draws_may_move_it_over_0(
    not_above, not_below, expected
):
    differences = [
        np.concatenate([[0.0], np.repeat([-1.0, 0.0, 1.0], [1000 - over, over + under - 1000,
                                                           1000 - under])])
        for under, over in zip(not_above, not_below, strict=True)
    ]  # fmt: skip
    assert exclusion_of_0_is_undecided(differences) == expected


def test_draws_are_added_until_an_interval_is_decided(tmp_path):
    """60 items, better in 39 and worse in 21: 1.0% of the draws are at most 0."""
    scores = {"all": [1.0] * 39 + [0.0] * 21, "plain": [0.0] * 39 + [1.0] * 21}
    path = write(tmp_path / "r.csv", items(scores | {"one": [2.0] * 60}))
    problem = problem_of(tmp_path)
    for most, is_open in ((200, True), (50_000, False)):
        found = rank_file(path, WORKSPACE, 200, recipes=problem, most_draws=most)
        (row,) = found.marts["relative"]
        assert row["over_base_undecided"] == is_open and not row["over_best_undecided"]
    assert row["over_base_low"] > 0


def test_without_items_or_with_few_there_is_no_interval(tmp_path):
    table = {"qa": {"plain": 0.25, "one": 0.5, "two": 0.75, "all": 0.5, "three": 0.5}}
    few, enough = (items({name: [x] * n for name, x in table["qa"].items()}) for n in (29, 30))
    for rows, count in ((plain(table), None), (few, 29), (enough, 30)):
        path = write(tmp_path / "r.csv", rows)
        (row,) = rank_file(path, WORKSPACE, 50, recipes=problem_of(tmp_path)).marts["relative"]
        assert (row["over_base"], row["over_best"], row["items"]) == (0.25, -0.25, count)
        assert row["best_experts"] == ["two"] and row["missing"] == []
        for key in ("over_base", "over_best"):
            ends = [row[f"{key}_low"], row[f"{key}_high"]]
            assert ends == ([pytest.approx(row[key], abs=1e-9)] * 2 if count == 30 else [None] * 2)


def test_an_entry_without_a_recipe_is_refused(tmp_path):
    path = write(tmp_path / "r.csv", plain({"qa": {"all": 1, "stranger": 2}}))
    with pytest.raises(TokenmartError) as refused:
        rank_file(path, WORKSPACE, 0, recipes=problem_of(tmp_path))
    assert (refused.value.code, refused.value.where) == ("no-recipe", "stranger")


@pytest.mark.parametrize(
    ("merge", "alone", "base", "experts"),
    [
        (merge_of("m", "one"), "one", "plain", ["one"]),
        (merge_of("m", "plain", method="passthrough"), None, None, ["plain"]),  # scaled
        (PASSED, "one", "plain", ["one"]),
        (merge_of("m", "one", parameters={"normalize": False}), None, "plain", ["one"]),
        (merge_of("m", "one", "plain"), None, "plain", ["one"]),
        # the base that adapters were made for, not the first end of a slerp
        (
            merge_of("m", "one", "two", method="slerp", base_model="one"),
            None,
            "plain",
            ["one", "two"],
        ),
        (merge_of("m", "x", "y", method="slerp", base_model="x"), None, None, ["x", "y"]),
        (merge_of("m", "x", "y", method="ties", base_model="x"), None, "x", ["y"]),
        (merge_of("m", "x", "y"), None, None, ["x", "y"]),
    ],
)
def test_base_and_experts_of_a_recipe(tmp_path, merge, alone, base, experts):
    problem = problem_of(tmp_path, [merge])
    assert expert_alone(problem.merges[0]) == alone
    found_base, found = base_and_experts(problem.merges[0], problem)
    assert (found_base, sorted(found)) == (base, sorted(experts))


def test_the_command_writes_the_rows(tmp_path):
    problem_of(tmp_path)
    path = write(tmp_path / "r.csv", plain({"qa": {"all": 1, "plain": 0.5, "one": 2}}))
    words = ["rank", "show", "--results", str(path), "--relative", str(tmp_path / "made.yml")]
    done = CliRunner().invoke(cli, [*words, "--json"])
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)["relative"]
    assert (row["over_base"], row["over_best"], row["missing"]) == (0.5, None, ["two", "three"])
    assert CliRunner().invoke(cli, words).exit_code == 0
