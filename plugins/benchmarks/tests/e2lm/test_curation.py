"""Items with known signal: what is chosen, what it is worth elsewhere, what is refused."""

from __future__ import annotations

import csv
import json
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from click.testing import CliRunner

from plugins.benchmarks.items.curate_cli import chosen_lines
from plugins.benchmarks.items.curation import Choice
from plugins.benchmarks.items.curation import curate as choose
from plugins.benchmarks.items.item_scores import ItemScores, read_items
from tokenmart import cli
from warehouse.errors import TokenmartError
from warehouse.paths import find_workspace
from warehouse.problem.spec import load_problem

WORKSPACE = find_workspace(Path(__file__))
HEADER = ("model", "tokens", "item", "score", "subject", "characters")
RISING = 60


def curate(scores: ItemScores, fewest: int, most: int, **choice: Any) -> dict[str, Any]:
    return choose(scores, WORKSPACE, Choice(fewest, most, **choice))


def simulate(rising: int, noise: int, models: int = 4, checkpoints: int = 14) -> list[list[Any]]:
    """Answers to items whose chance of being right grows from .1 to .9, or stays at .5."""
    generator = np.random.default_rng(2)
    rows = []
    for model in range(models):
        for item in range(rising + noise):
            grows = item < rising
            chance = np.linspace(0.1, 0.9, checkpoints) if grows else np.full(checkpoints, 0.5)
            kind = ("physics", 5) if grows else ("trivia", 60)
            for at, right in enumerate(generator.random(checkpoints) < chance):
                rows.append([f"m{model}", (at + 1) * 1e9, f"q{item}", int(right), *kind])
    return rows


def write(path: Path, rows: Iterable[Iterable[Any]], header: tuple[str, ...] = HEADER) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = write(tmp_path_factory.mktemp("items") / "items.csv", simulate(RISING, 240))
    return curate(read_items(path, None), fewest=40, most=200)


def test_what_rises_is_chosen(found):
    chosen = {int(name[1:]) for name in found["items"]}
    assert len(chosen & set(range(RISING))) == RISING
    assert len(chosen) < RISING + 15
    assert [row["group"] for row in found["by_subject"]] == ["physics", "trivia"]
    assert [row["group"] for row in found["by_length"]] == ["0 to 9", "40 to 79"]


def test_it_is_worth_more_on_models_that_had_no_part(found):
    sq = found["held_out"]["sq"]
    assert sq["chosen"] > sq["all"] > sq["random_high"] > sq["random"] > sq["random_low"]
    assert (sq["better"], sq["compared"]) == (4, 4)
    assert abs(sq["optimism"]) < 0.05


def test_random_items_are_those_of_200_draws(tmp_path):
    """One item of three is chosen: a third of the draws has the one that rises."""
    rows = []
    for model in ("a", "b"):
        for at in range(16):
            rows += [[model, at + 1, "up", at / 16], [model, at + 1, "down", -at / 16]]
            rows += [[model, at + 1, "flat", (at % 2) / 100]]
    header = ("model", "tokens", "item", "score")
    sq = curate(read_items(write(tmp_path / "i.csv", rows, header), None), 1, 1)["held_out"]
    (up, down), draws = (1.0, 0.0), sq["monotonicity"]
    assert draws["chosen"] == up and draws["random_low"] == down and draws["random_high"] == up
    # up in one of three draws, down and flat (a saw of few checkpoints) below
    assert 0.3 < draws["random"] < 0.65


def test_rise_and_noise_are_those_of_numpy(found):
    by_item: dict[str, list[np.ndarray[Any, Any]]] = {}
    rows = simulate(RISING, 240)
    for start in range(0, len(rows), 14):
        scores = np.array([row[3] for row in rows[start : start + 14]], dtype=float)
        by_item.setdefault(rows[start][2], []).append(scores)
    for row in found["signal"][::37]:
        curves = by_item[row["item"]]
        slopes = [np.polyfit(np.arange(14), scores, 1)[0] * 13 for scores in curves]
        assert row["rise"] == pytest.approx(np.mean(slopes), abs=1e-9)
        variances = [np.mean(np.diff(scores) ** 2) / 2 for scores in curves]
        assert row["noise_variance"] == pytest.approx(np.mean(variances), abs=1e-12)


def test_no_other_threshold_has_a_better_ratio(found):
    """The oracle of the choice: every set above a threshold of rise over noise."""
    rise = np.array([row["rise"] for row in found["signal"]])
    variance = np.array([row["noise_variance"] for row in found["signal"]])
    sure = variance + variance.mean()
    order = np.argsort(-rise / sure, kind="stable")
    ratio = np.cumsum(rise[order]) / np.sqrt(np.cumsum(sure[order]))
    sizes = np.arange(1, len(rise) + 1)
    allowed = (sizes >= 40) & (sizes <= 200)
    assert len(found["items"]) == sizes[allowed][np.argmax(ratio[allowed])]


def test_of_pure_noise_the_choice_is_optimism(tmp_path):
    path = write(tmp_path / "noise.csv", simulate(0, 200))
    sq = curate(read_items(path, None), 40, 100)["held_out"]["sq"]
    assert sq["optimism"] > 0.3
    assert sq["in_sample"] > 0.7 > sq["chosen"]


def test_the_competitions_name_of_an_architecture_is_read(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text("model,step,item,score,size,arch\nm,1,0,0.5,1b,arch1\n")
    assert read_items(path, None).shapes == {"m": "1b arch1"}


def test_one_long_run_is_tried_on_its_other_checkpoints(tmp_path):
    path = write(tmp_path / "one.csv", simulate(30, 90, models=1, checkpoints=20))
    found = curate(read_items(path, None), 20, 100)
    assert found["folds"] == ["odd checkpoints", "even checkpoints"]
    assert found["held_out"]["sq"]["compared"] == 2
    short = write(tmp_path / "short.csv", simulate(30, 90, models=1))
    with pytest.raises(TokenmartError) as caught:
        curate(read_items(short, None), 20, 100)
    assert caught.value.code == "too-few-models"


def test_constant_items_and_missing_scores(tmp_path):
    rows = simulate(20, 30) + [
        [f"m{model}", (at + 1) * 1e9, "always", 1, "physics", 5]
        for model in range(4)
        for at in range(14)
    ]
    path = write(tmp_path / "items.csv", rows[1:])
    scores = read_items(path, None)
    assert scores.items == 50 and len(scores.notes) == 1
    signal = {row["item"]: row for row in curate(scores, 10, 40)["signal"]}
    assert "q0" not in signal
    assert (signal["always"]["rise"], signal["always"]["noise_variance"]) == (0, 0)
    assert not signal["always"]["is_chosen"]


@pytest.mark.parametrize(
    ("header", "row"),
    [
        (("model", "tokens", "item", "scor"), ["m", 1, "q", 1]),
        (("model", "tokens", "item"), ["m", 1, "q"]),
        (("model", "tokens", "item", "score", "benchmark"), ["m", 1, "q", 1, "arc"]),
        (("model", "item", "score"), ["m", "q", 1]),
        (("model", "step", "item", "score"), ["m", 1, "q", "nan"]),
        (("model", "step", "item", "score"), ["m", -1, "q", 1]),
        (("model", "step", "item", "score"), ["", 1, "q", 1]),
    ],
)
def test_wrong_rows(tmp_path, header, row):
    path = write(tmp_path / "items.csv", [row], header)
    assert code_of(path)[1].startswith(f"{path}: row 1: ")


def code_of(path: Path, metric: str | None = None) -> tuple[str, str]:
    with pytest.raises(TokenmartError) as caught:
        read_items(path, metric)
    return caught.value.code, caught.value.where


def test_duplicates_several_scoring_methods_and_too_few(tmp_path):
    rows = [["m", 1, "q", 1], ["m", 1, "q", 0]]
    path = write(tmp_path / "items.csv", rows, ("model", "step", "item", "score"))
    assert code_of(path) == ("repeated", f"{path}: row 2")
    assert code_of(path, "acc") == ("unknown-metric", "--metric")
    header = ("model", "step", "item", "score", "metric")
    path = write(tmp_path / "i.csv", [["m", 1, "q", 1, "acc"], ["m", 1, "q", 1, "bpb"]], header)
    assert code_of(path) == code_of(path, "ppl") == ("unknown-metric", "--metric")
    assert read_items(path, "bpb").items == 1
    rows = [["m", 1000, "", "q", 0], ["m", "", 2, "q", 1]]
    path = write(tmp_path / "i.csv", rows, ("model", "tokens", "step", "item", "score"))
    assert code_of(path) == ("contradiction", f"{path}: row 2")
    empty = write(tmp_path / "empty.csv", [], ("model", "step", "item", "score"))
    assert code_of(empty)[0] == "no-row"
    path = write(tmp_path / "few.csv", simulate(5, 5, checkpoints=7))
    for words in (["--fewest", "100"], ["--fewest", "9", "--most", "3"]):
        done = CliRunner().invoke(cli, ["e2lm", "curate", "--items", str(path), *words])
        assert done.exit_code == 1
    short = curate(read_items(path, None), 5, 8)
    assert short["reason"] is not None and short["held_out"]["sq"]["chosen"] is None


COLUMNS = (*HEADER, "recipe", "size")
KINDS = ("rising", "science", "noise")


def with_recipes(items: int = 40, checkpoints: int = 10) -> list[list[Any]]:
    """A third of the items rises in every model, a third is known to models on science only."""
    generator = np.random.default_rng(5)
    rows = []
    for size, recipe in product(("1b", "2b", "3b"), ("science", "web")):
        for item in range(3 * items):
            kind = KINDS[item % 3]
            base = {"rising": 0.2, "science": 0.5 if recipe == "science" else 0.2, "noise": 0.3}
            for at in range(checkpoints):
                rise = 0.05 * at if kind == "rising" else 0
                score = base[kind] + rise + generator.normal(0, 0.05)
                more = [kind, 5, recipe, size]
                rows.append([f"{size}-{recipe}", (at + 1) * 1e9, f"q{item}", score, *more])
    return rows


@pytest.fixture(scope="module")
def recipes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("recipes") / "items.csv", with_recipes(), COLUMNS)


def kinds_of(found: dict[str, Any]) -> set[str]:
    return {KINDS[int(name[1:]) % 3] for name in found["items"]}


@pytest.mark.parametrize(
    ("weights", "kinds"),
    [
        ((1, 0, 0), {"rising"}),
        ((0, 0, 1), {"science"}),
        ((0.5, 0.1, 0.4), {"rising", "science"}),
    ],
)
def test_items_are_chosen_for_a_rise_for_the_recipes_or_both(recipes, weights, kinds):
    found = curate(read_items(recipes, None), 30, 100, weights=weights)
    assert kinds_of(found) == kinds
    assert found["folds"] == ["1b", "2b", "3b"]  # whole shapes
    cs, both = found["held_out"]["cs"], found["held_out"]["weighted"]
    assert (cs["chosen"] > cs["all"]) == ("science" in kinds)
    assert both["compared"] == 3
    if len(kinds) == 2:
        assert both["chosen"] > both["all"] and found["weights"] == {"sq": 0.5, "cs": 0.4}


def test_gaps_and_decisions_are_those_of_numpy(recipes):
    rows = with_recipes()
    scores: dict[tuple[str, str, str], list[float]] = {}
    for model, _, item, score, _, _, recipe, size in rows:
        scores.setdefault((size, recipe, item), []).append(score)
        assert model == f"{size}-{recipe}"
    found = curate(read_items(recipes, None), 30, 100)
    for row in found["signal"][::17]:
        apart = [
            np.mean(scores[size, "science", row["item"]])
            - np.mean(scores[size, "web", row["item"]])
            for size in ("1b", "2b", "3b")
        ]
        assert row["gap"] == pytest.approx(np.mean(apart), abs=1e-9)
    everything = {
        key: np.mean([scores[(*key, f"q{item}")] for item in range(120)], axis=0)
        for key in product(("1b", "2b", "3b"), ("science", "web"))
    }
    agreed = [
        np.sign(everything[size, "science"][4] - everything[size, "web"][4])
        == np.sign(everything[size, "science"][-1] - everything[size, "web"][-1])
        for size in ("1b", "2b", "3b")
    ]
    assert found["held_out"]["decision_accuracy"]["all"] == pytest.approx(np.mean(agreed))


def test_items_of_a_subject_are_chosen(recipes):
    science = curate(read_items(recipes, None), 10, 39, subjects=("science",))
    assert kinds_of(science) == {"science"} and science["of"] == 40


def test_what_is_chosen_without_limits_is_counted(tmp_path):
    """40 items rise, 80 are noise: at least 100 items take 60 without signal."""
    scores = read_items(write(tmp_path / "items.csv", simulate(40, 80)), None)
    found = curate(scores, 10, 110)
    best = found["unconstrained"]
    assert {f"q{item}" for item in range(40)} <= set(found["items"])
    assert best == len(found["items"]) < 50
    for limits, count in (((100, 110), 100), ((10, 20), 20)):
        bound = curate(scores, *limits)
        assert (bound["unconstrained"], len(bound["items"])) == (best, count)


def test_what_is_missing_or_contradicts_itself_is_refused(recipes, tmp_path):
    with pytest.raises(TokenmartError) as caught:
        curate(read_items(recipes, None), 10, 40, subjects=("scienc",))
    assert caught.value.where == "--subject"
    rows = with_recipes()
    rows[1][6] = "web"
    with pytest.raises(TokenmartError):
        read_items(write(tmp_path / "two.csv", rows, COLUMNS), None)


def test_the_command_of_the_guide(tmp_path, monkeypatch):
    tutorials = WORKSPACE.root / "docs" / "tutorials"
    guide = (tutorials / "own_benchmark.md").read_text("utf-8")
    line, *_ = re.findall(r"^\$ tokenmart (e2lm curate .*)$", guide, re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path / "items.csv", simulate(60, 60, models=2))
    duckdb.sql(f"copy (from '{path}') to 'item_scores.parquet'")
    for _ in range(2):  # its own result may be replaced
        done = CliRunner().invoke(cli, shlex.split(line))
        assert done.exit_code == 0, done.output
    assert len(json.loads(Path("chosen.json").read_text())["items"]) == 100


def test_scores_of_which_lower_is_better_are_not_chosen_from(tmp_path):
    rows = [["m", at, f"q{item}", 2.5, "nll"] for at in range(3) for item in range(4)]
    path = write(tmp_path / "x.csv", rows, ("model", "tokens", "item", "score", "metric"))
    with pytest.raises(TokenmartError) as caught:
        curate(read_items(path, None), 2, 3)
    assert caught.value.code == "lower-metric"


def test_steps_and_tokens_have_one_order(tmp_path):
    rows = [["m", 10 - at, at, f"q{item}", 1] for at in range(3) for item in range(4)]
    path = write(tmp_path / "x.csv", rows, ("model", "tokens", "step", "item", "score"))
    assert code_of(path) == ("order", f"{path}: row 5")


def test_chosen_items_keep_their_lines_and_order(tmp_path):
    path = tmp_path / "items.jsonl"
    path.write_bytes("\ufeff".encode() + b'{"q": "a\\u2028"}\r\n\n{"q": "b"}\r\n{"q":  "c"}')
    assert chosen_lines(path, ["2", "0"]) == '{"q": "a\\u2028"}\n{"q":  "c"}\n'
    for item in ("3", "task/1", "-1", "٣"):
        with pytest.raises(TokenmartError) as caught:
            chosen_lines(path, [item])
        assert (caught.value.code, caught.value.where) == ("no-line", str(path))


def test_the_program_of_the_guide_lists_enough_checkpoints(workspace):
    page = (WORKSPACE.root / "docs/tutorials/own_benchmark.md").read_text("utf-8")
    (program,) = re.findall(r"```python\n(# runs\.py.*?)```", page, re.DOTALL)
    folder = workspace.root
    subprocess.run([sys.executable, "-c", program], cwd=folder, check=True)
    models = load_problem(str(folder / "runs.yml"), workspace).models
    by_run = Counter(model.full_id.partition("-step")[0] for model in models)
    assert by_run == {"pythia-70m": 9, "pythia-160m": 9}
