"""`tokenmart e2lm score` against brute force and against the published figures."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from itertools import permutations, product
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from click.testing import CliRunner
from signal_oracle import autocorrelation, monotonicity, order_agreement, site_query

from plugins.benchmarks.e2lm.reasons import REASONS
from plugins.benchmarks.e2lm.score import COLUMNS, score_table
from tokenmart import cli
from warehouse.errors import TokenmartError
from warehouse.paths import find_workspace

ROOT = Path(__file__).parents[4]
WORKSPACE = find_workspace(ROOT)
EARLY = [4.194304, 10.110550016, *(4.665546069333 + 16.777216 * k for k in range(1, 13))]
LATER = [222.769354069333, 239.546570069333]

Table = dict[tuple[str, str], list[float]]
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_table(table: Table, tokens: list[float], name: str = "scores.csv") -> Path:
        path = tmp_path / name
        with path.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(COLUMNS)
            for (model, benchmark), scores in table.items():
                for point, score in zip(tokens, scores, strict=False):
                    rows.writerow([model, "1b", "arch1", point, benchmark, score])
        return path

    return write_table


def made_up(models: int = 4) -> Table:
    """Rising, noisy and tied series of 14 early and 2 later checkpoints."""
    generator = np.random.default_rng(3)
    table: Table = {}
    for model in range(models):
        rise = np.linspace(0.2, 0.5 + 0.05 * model, 16)
        table[f"m{model}", "smooth"] = list(rise + generator.normal(0, 0.01, 16))
        table[f"m{model}", "noise"] = list(generator.normal(0.5, 0.1, 16))
        table[f"m{model}", "ties"] = list(np.round(rise + generator.normal(0, 0.05, 16), 1))
    return table


def test_statistics_of_a_run_are_those_of_brute_force(write):
    table = made_up()
    found = score_table(write(table, EARLY + LATER), WORKSPACE)
    assert len(found.notes) == 1  # the direction
    for (model, benchmark), scores in table.items():
        entry, early = found.entries[model][benchmark], scores[:14]
        assert entry["reason"] is None
        expected = {
            "early_checkpoints": 14,
            "monotonicity": monotonicity(early),
            "autocorrelation": autocorrelation(early),
            "sq": (monotonicity(early) + autocorrelation(early)) / 2,
            "noise_sd": np.std(scores[-10:]),
            "noise_relative": np.std(scores[-10:]) / abs(np.mean(scores[-10:])),
        }
        for name, value in expected.items():
            assert entry[name] == pytest.approx(value, rel=1e-9, abs=1e-12), (benchmark, name)


def test_statistics_of_all_runs_are_those_of_brute_force(write):
    table = made_up()
    found = score_table(write(table, EARLY + LATER), WORKSPACE)
    for benchmark in ("smooth", "noise", "ties"):
        scores = {model: table[model, benchmark] for model, name in table if name == benchmark}
        entry = found.entries["m0"][benchmark]
        final = {model: y[-1] for model, y in scores.items()}
        early_mean = {model: float(np.mean(y[:14])) for model, y in scores.items()}
        early_last = {model: y[13] for model, y in scores.items()}
        later = [{model: y[at] for model, y in scores.items()} for at in (14, 15)]
        values = np.array(list(final.values()))
        signal = (values.max() - values.min()) / values.mean()
        noise = np.mean([np.std(y[-10:]) / np.mean(y[-10:]) for y in scores.values()])
        assert entry["signal"] == pytest.approx(signal)
        assert entry["snr"] == pytest.approx(signal / noise)
        assert entry["decision_accuracy"] == pytest.approx(order_agreement(early_last, final))
        share = np.mean([order_agreement(early_mean, point) for point in later])
        assert entry["rc"] == pytest.approx(share), benchmark


def every_order(scores: list[float]) -> list[float]:
    """SQ for each order of equal scores, by brute force."""
    places = [np.flatnonzero(np.array(scores) == value) for value in sorted(set(scores))]
    n, found = len(scores), []
    for orders in product(*(permutations(group) for group in places)):
        ranks = np.empty(n)
        ranks[np.concatenate(orders)] = np.arange(n)
        d = np.arange(n) - ranks
        found.append(max(0.0, 1 - 6 * float(d @ d) / (n * (n**2 - 1))))
    return [(value + autocorrelation(scores)) / 2 for value in found]


def test_the_range_of_sq_is_that_of_all_orders_of_equal_scores(write):
    draw = np.random.default_rng(0)
    series = {f"b{number}": list(map(float, draw.integers(0, 4, 9))) for number in range(6)}
    series["distinct"] = [float(value) for value in draw.permutation(9)]
    table = {("m", name): scores for name, scores in series.items()}
    found = score_table(write(table, EARLY), WORKSPACE).entries["m"]
    for benchmark, scores in series.items():
        values = every_order(scores)
        assert found[benchmark]["sq_low"] == pytest.approx(min(values), abs=1e-9)
        assert found[benchmark]["sq"] == pytest.approx(max(values), abs=1e-9)
    assert found["distinct"]["sq_low"] == found["distinct"]["sq"]


@pytest.mark.parametrize(
    "missing", [(0, 1, 2), (13,), (12, 13), (0, 13, 15), (15,), (3, 14), tuple(range(13))]
)
def test_runs_are_ranked_at_checkpoints_that_both_have(write, missing):
    """Three parallel runs: without some checkpoints of one, the ranking is the same one.

    From one checkpoint to the next, a run rises more than it leads.
    """
    scores = {(f"m{n}", "q"): [0.1 + 0.02 * k + 0.01 * n for k in range(16)] for n in range(3)}
    for run in ("m0", "m2"):
        path = write(scores, EARLY + LATER)
        lines = path.read_text().splitlines()
        left_out = {f"{run},1b,arch1,{(EARLY + LATER)[at]}," for at in missing}
        path.write_text("\n".join(x for x in lines if not any(map(x.startswith, left_out))))
        assert score_table(path, WORKSPACE).entries[run]["q"]["rc"] == 1


def test_the_number_of_pairs_of_a_decision_accuracy(write):
    table = made_up()
    for pairs in (6, 3):
        found = score_table(write(table, EARLY + LATER), WORKSPACE).entries
        assert found["m1"]["noise"]["decision_pairs"] == pairs
        table.pop(("m0", "noise"), None)


def test_a_table_without_tokens_is_refused(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("model,step,tokens,benchmark,metric,direction,score\nm,1,,q,acc,higher,0.5\n")
    assert refused(path) == ("no-tokens", f"{path}: tokens")


@pytest.mark.parametrize(
    ("scores", "reason"),
    [
        ([0.5] * 16, "constant_scores"),
        ([0.5] * 13 + [0.6] * 3, "constant_lags"),
        ([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], "few_early_checkpoints"),
    ],
)
def test_undefined_is_null_with_a_reason(write, scores, reason):
    entry = score_table(write({("m", "q"): scores}, EARLY + LATER), WORKSPACE).entries["m"]["q"]
    assert entry["sq"] is None and entry["autocorrelation"] is None
    assert entry["reason"] == entry["reasons"]["autocorrelation"] == reason
    assert entry["snr"] is None and entry["reasons"]["snr"] == "one_run"
    assert entry["weighted_score"] is None and entry["reasons"]["weighted_score"] == "no_sq"


def test_a_missing_checkpoint_and_another_schedule(write):
    path = write(made_up(1), EARLY + LATER)
    lines = path.read_text().splitlines()
    missing = f",{EARLY[5]},noise,"
    path.write_text("\n".join(line for line in lines if missing not in line))
    found = score_table(path, WORKSPACE)
    assert found.entries["m0"]["noise"]["early_checkpoints"] == 13
    rising = [float(k) for k in range(1, 11)]
    found = score_table(write({("m", "q"): rising}, [3.0 * k for k in range(1, 11)]), WORKSPACE)
    assert found.entries["m"]["q"]["early_checkpoints"] == 10
    assert len(found.notes) == 2


def test_the_query_of_the_tutorial_computes_tokens_on_the_schedule():
    page = (ROOT / "docs/tutorials/benchmarks_over_training.md").read_text()
    (formula,) = re.findall(r"4096 \* greatest\(.*\)", page)
    rows = duckdb.sql(
        f"select {formula} from (select unnest(range(4000, 64001, 4000)) as step) order by step"
    ).fetchall()
    assert [tokens for (tokens,) in rows] == pytest.approx(
        [1e9 * each for each in EARLY + LATER], rel=1e-6
    )


def test_two_scales_are_noted(write):
    scores = {(f"m{n}", "q"): [0.1 + 0.02 * k + 0.01 * n for k in range(16)] for n in range(3)}
    assert len(score_table(write(scores, EARLY + LATER), WORKSPACE).notes) == 1
    scores["m1", "q"] = [100 * score for score in scores["m1", "q"]]
    (_, note) = score_table(write(scores, EARLY + LATER), WORKSPACE).notes
    assert "m1" in note


def test_the_direction_of_a_loss_follows_from_its_name(write):
    falling = {
        (f"m{n}", "lambada_perplexity"): [40.0 / (k + n + 2) for k in range(16)] for n in (0, 1)
    }
    path = write(falling, EARLY + LATER)
    found = score_table(path, WORKSPACE)
    assert found.entries["m0"]["lambada_perplexity"]["sq"] > 0.99
    assert len(found.notes) == 1
    lines = path.read_text().splitlines()
    path.write_text(
        "\n".join(f"{x},{'direction' if not k else 'lower'}" for k, x in enumerate(lines))
    )
    stated = score_table(path, WORKSPACE)
    assert stated.notes == () and stated.entries == found.entries
    mixed = {**falling, ("m0", "arc"): [0.1 * k for k in range(16)]}
    with pytest.raises(TokenmartError):
        score_table(write(mixed, EARLY + LATER), WORKSPACE)


def test_cs_separates_science_from_web_and_enters_the_weighted_score(tmp_path):
    path = tmp_path / "recipes.csv"
    rows = [f"{','.join(COLUMNS)},recipe"]
    for recipe, lead in (("science", 0.2), ("web", 0.0)):
        for k, tokens in enumerate(EARLY + LATER):
            score = 0.2 + 0.01 * k + lead + 0.005 * (k % 2)
            rows.append(f"{recipe},1b,arch1,{tokens},q,{score},{recipe}")
    path.write_text("\n".join(rows))
    entry = score_table(path, WORKSPACE, weights=(0.5, 0.1, 0.4)).entries["web"]["q"]
    assert 0.9 < entry["cs"] < 1
    weighted = 0.5 * entry["sq"] + 0.1 * entry["rc"] + 0.4 * entry["cs"]
    assert entry["weighted_score"] == pytest.approx(weighted)


@pytest.mark.parametrize("recipe", ["Web", "books"])
def test_cs_needs_both_recipes(tmp_path, recipe):
    path = tmp_path / "recipes.csv"
    rows = [f"{','.join(COLUMNS)},recipe"]
    for run in ("science", recipe):
        rows += [f"{run},1b,arch1,{at},q,{at / 1000},{run}" for at in EARLY + LATER]
    path.write_text("\n".join(rows))
    entry = score_table(path, WORKSPACE).entries["science"]["q"]
    assert entry["cs"] is None and entry["reasons"]["cs"] == "no_pair_of_recipes"


def test_the_command_prints_a_table_or_json(write):
    path = write(made_up(2), EARLY + LATER)
    arguments = ["e2lm", "score", "--scores", str(path), "--weights", "1", "0", "0"]
    printed = CliRunner().invoke(cli, [*arguments, "--model", "m1", "--json"])
    assert printed.exit_code == 0, printed.output
    entries: dict[str, Any] = json.loads(printed.stdout)
    assert list(entries) == ["m1"]
    assert entries["m1"]["smooth"]["weighted_score"] == entries["m1"]["smooth"]["sq"]
    for more in ([], ["--explain"]):
        shown = CliRunner().invoke(cli, [*arguments, "--model", "m1", *more])
        assert shown.exit_code == 0, shown.output
        assert f"{entries['m1']['smooth']['sq']:.3f}" in shown.stdout


STATISTICS = {"sq", "sq_low", "monotonicity", "autocorrelation", "early_checkpoints"}
STATISTICS |= {"noise_sd", "noise_relative", "sampling_error", "signal", "noise", "snr", "rc", "cs"}
STATISTICS |= {"decision_accuracy", "decision_pairs", "weighted_score"}


def test_every_reason_code_has_words():
    """All texts in the SQL are codes, but for names of statistics and of kinds of stages."""
    models = ROOT / "plugins" / "benchmarks" / "dbt" / "models" / "benchmarks"
    signal = (models / "marts" / "benchmark_signal.sql").read_text()
    order = (models / "intermediate" / "int_series_order.sql").read_text()
    texts = {*re.findall(r"'([a-z_]+)'", re.sub(r"{{.*?}}|--.*", "", signal + order))}
    # no_sq and the like are made of the name of a component
    assert (
        texts - STATISTICS - {"early", "size", "no_"} | {"no_sq", "no_rc", "no_cs"}
        == REASONS.keys()
    )


@pytest.mark.parametrize(
    ("tokens", "statistic", "reason"),
    [
        (EARLY[:6], "sq", "few_early_checkpoints"),
        (EARLY[:6], "rc", "no_later_checkpoints"),
        ([210.0, 220.0], "rc", "few_runs_early"),
        (EARLY[:1], "decision_accuracy", "few_runs_over_training"),
        (EARLY[:6], "snr", "few_checkpoints"),
        (EARLY[:6], "weighted_score", "no_sq"),
    ],
)
def test_a_value_that_is_undefined_has_a_code(write, tokens, statistic, reason):
    rows = {(f"m{n}", "q"): [0.1 + 0.01 * k * (n + 1) for k in range(len(tokens))] for n in (0, 1)}
    entry = score_table(write(rows, tokens), WORKSPACE).entries["m0"]["q"]
    assert entry[statistic] is None and entry["reasons"][statistic] == reason


@pytest.mark.parametrize("weights", ["1 2", "a b c", "1 -1 0", "nan 0 1", "1 0 inf"])
def test_wrong_weights(write, weights):
    path = str(write(made_up(1), EARLY))
    done = CliRunner().invoke(
        cli, ["e2lm", "score", "--scores", path, "--weights", *weights.split()]
    )
    assert done.exit_code == 2


def test_an_unknown_model_names_the_closest(write):
    with pytest.raises(TokenmartError) as caught:
        score_table(write(made_up(1), EARLY), WORKSPACE, model="mo0")
    assert caught.value.code == "unknown-model"


def test_the_query_of_the_tutorial_converts_the_json_of_the_site(write, tmp_path, monkeypatch):
    table = {(f"dense-{size}-arch1", "q"): [0.1 + 0.01 * k for k in range(14)] for size in "13"}
    columns: dict[str, dict[str, list[Any]]] = {
        model: {"iteration": list(range(14)), "gtokens": EARLY, benchmark: scores, "r": [None] * 14}
        for (model, benchmark), scores in table.items()
    }
    site = {"metadata": {"metrics": ["q", "r"]}, "data": columns}
    (tmp_path / "plot-data-combined-all.json").write_text(json.dumps(site))
    monkeypatch.chdir(tmp_path)
    exec(site_query(), {})
    assert (
        score_table(tmp_path / "site_scores.csv", WORKSPACE).entries
        == score_table(write(table, EARLY), WORKSPACE).entries
    )


def refused(path: Path) -> tuple[str, str]:
    """Code and place of the error of a table."""
    with pytest.raises(TokenmartError) as caught:
        score_table(path, WORKSPACE)
    return caught.value.code, caught.value.where


def test_of_a_file_with_two_metrics_one_is_scored(tmp_path):
    path, out = tmp_path / "x.csv", tmp_path / "x.html"
    scores = {
        "acc": [0.3, 0.35, 0.32, 0.4, 0.5, 0.45, 0.5, 0.6, 0.7],
        "ppl": [9 - k for k in range(9)],
    }
    lines = ["model,size,arch,tokens_bt,benchmark,metric,score"]
    lines += [
        f"m,1b,dense,{k + 1},q,{metric},{score}"
        for metric, values in scores.items()
        for k, score in enumerate(values)
    ]
    path.write_text("\n".join(lines))
    for metric, code in ((None, "several-metrics"), ("pp", "unknown-metric")):
        with pytest.raises(TokenmartError) as caught:
            score_table(path, WORKSPACE, metric=metric)
        assert caught.value.code == code
    found = score_table(path, WORKSPACE, metric="acc")
    assert found.entries["m"]["q"]["monotonicity"] == pytest.approx(monotonicity(scores["acc"]))
    arguments = ["--scores", str(path), "--metric", "ppl"]
    done = CliRunner().invoke(cli, ["e2lm", "score", *arguments, "--json"])
    assert json.loads(done.stdout)["m"]["q"]["monotonicity"] == 1
    done = CliRunner().invoke(cli, ["e2lm", "report", *arguments, "--out", str(out)])
    assert done.exit_code == 0 and out.is_file(), done.output
