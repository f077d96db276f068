"""`tokenmart e2lm score` against brute force and against the published figures."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from signal_oracle import autocorrelation, monotonicity, order_agreement

from plugins.benchmarks.e2lm.score import COLUMNS, score_table
from plugins.benchmarks.e2lm.scores import open_scores
from plugins.benchmarks.model_sql import ModelSql
from plugins.benchmarks.tables.benchmarks import BENCHMARK_SCORES, BENCHMARK_TABLES
from tokenmart import cli
from warehouse.errors import TokenmartError
from warehouse.paths import find_workspace

ROOT = Path(__file__).parents[4]
WORKSPACE = find_workspace(ROOT)
PUBLISHED = ROOT.parent / "shared" / "facts" / "e2lm_scores.csv"
EARLY = [4.194304, 10.110550016, *(4.665546069333 + 16.777216 * k for k in range(1, 13))]
LATER = [222.769354069333, 239.546570069333]
ASSUMED = (
    "score: higher is taken as better, by name, because the table's column 'direction' is missing "
    "or empty; if that is wrong, fill it (higher or lower)"
)

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


def test_the_grid_is_the_competitions(write: Write) -> None:
    assert [round(point, 2) for point in EARLY[:4]] == [4.19, 10.11, 21.44, 38.22]
    assert EARLY[-1] == pytest.approx(205.99213806933335)


def test_statistics_of_a_run_are_those_of_brute_force(write: Write) -> None:
    table = made_up()
    found = score_table(write(table, EARLY + LATER), WORKSPACE)
    assert found.notes == (ASSUMED,)
    for (model, benchmark), scores in table.items():
        entry, early = found.entries[model][benchmark], scores[:14]
        rises = np.diff(scores)
        assert entry["reason"] is None
        expected = {
            "early_checkpoints": 14,
            "monotonicity": monotonicity(early),
            "monotonicity_average_ranks": monotonicity(early, "average"),
            "autocorrelation": autocorrelation(early),
            "sq": (monotonicity(early) + autocorrelation(early)) / 2,
            "noise_sd": np.std(scores[-10:]),
            "noise_relative": np.std(scores[-10:]) / abs(np.mean(scores[-10:])),
            "total_variation": np.mean(np.abs(rises)),
            "rise_balance": np.mean(np.sign(rises)),
        }
        for name, value in expected.items():
            assert entry[name] == pytest.approx(value, rel=1e-9, abs=1e-12), (benchmark, name)


def test_statistics_of_all_runs_are_those_of_brute_force(write: Write) -> None:
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
        for name, reference in {"rc": early_mean, "rc_last_early": early_last}.items():
            share = np.mean([order_agreement(reference, point) for point in later])
            assert entry[name] == pytest.approx(share), (benchmark, name)
        assert entry["rc_last"] == pytest.approx(order_agreement(later[0], final))


@pytest.mark.parametrize(
    "missing", [(0, 1, 2), (13,), (12, 13), (0, 13, 15), (15,), (3, 14), tuple(range(13))]
)
def test_runs_are_ranked_at_checkpoints_that_both_have(
    write: Write, missing: tuple[int, ...]
) -> None:
    """Three parallel runs: without some checkpoints of one, the ranking is the same one.

    From one checkpoint to the next, a run rises more than it leads.
    """
    scores = {(f"m{n}", "q"): [0.1 + 0.02 * k + 0.01 * n for k in range(16)] for n in range(3)}
    for run in ("m0", "m2"):
        path = write(scores, EARLY + LATER)
        lines = path.read_text().splitlines()
        left_out = {f"{run},1b,arch1,{(EARLY + LATER)[at]}," for at in missing}
        path.write_text("\n".join(x for x in lines if not any(map(x.startswith, left_out))))
        entry = score_table(path, WORKSPACE).entries[run]["q"]
        assert (entry["rc"], entry["rc_last_early"], entry["rc_last"]) == (1, 1, 1)


def test_the_number_of_pairs_of_a_decision_accuracy_is_printed(write: Write) -> None:
    table = made_up()
    for printed, pairs in (("6", 6), ("3 to 6", 3)):
        words = ["e2lm", "score", "--scores", str(write(table, EARLY + LATER))]
        said = " ".join(CliRunner().invoke(cli, words).stdout.split())
        few = f"{printed}; with fewer than 10, it is mostly chance"
        assert f"several checkpoints); number of pairs: {few}" in said
        found = json.loads(CliRunner().invoke(cli, [*words, "--json"]).stdout)
        assert found["m1"]["noise"]["decision_pairs"] == pairs
        table.pop(("m0", "noise"), None)


def test_the_final_ranking_holds_from_here(write: Write) -> None:
    scores = {("a", "q"): [1.0] * 4 + [3.0] * 12, ("b", "q"): [2.0] * 16}
    tokens = score_table(write(scores, EARLY + LATER), WORKSPACE).entries["a"]["q"]
    assert tokens["earliest_tokens"] == pytest.approx(EARLY[4] * 1e9)


def test_a_ranking_that_changes_to_the_end_has_no_earliest_tokens(write: Write) -> None:
    scores = {("a", "q"): [1.0] * 15 + [3.0], ("b", "q"): [2.0] * 16}
    entry = score_table(write(scores, EARLY + LATER), WORKSPACE).entries["a"]["q"]
    assert entry["earliest_tokens"] is None and entry["earliest_share"] is None
    reason = "the ranking still changes up to the last checkpoint"
    assert entry["reasons"]["earliest_tokens"] == reason


def test_steps_are_no_tokens() -> None:
    rows = [
        {"model_id": run, "full_id": run, "family": run, "step": step,
         "tokens": each and each * step,
         "benchmark": name, "metric": "acc", "direction": "higher", "score": score}
        for name, each in (("with", 10.0), ("without", None))
        for run, score in (("a", 1.0), ("b", 2.0))
        for step in (1, 2, 3)
    ]  # fmt: skip
    facts = [{"path": "x", "sha256": "", "licence": "", "predict_from": ""}]
    scores = pa.Table.from_pylist(rows, BENCHMARK_SCORES)
    with open_scores("p", scores, pa.Table.from_pylist(facts, BENCHMARK_TABLES)) as database:
        signal = ModelSql(database, WORKSPACE).build("benchmark_signal")
        found = database.execute(
            f"select value, reason from {signal} where statistic = 'earliest_tokens'"
            " order by benchmark"
        ).fetchall()
    assert found == [(10.0, None), (None, "the table has steps, no tokens")]


def test_what_a_collected_table_lacks_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("model,step,tokens,benchmark,metric,direction,score\nm,1,,q,acc,higher,0.5\n")
    with pytest.raises(TokenmartError, match="size: any text, the same for runs that CS compares"):
        score_table(path, WORKSPACE)
    path.write_text("model,size,arch,step,tokens,benchmark,score\nm,1b,dense,1,,q,0.5\n")
    with pytest.raises(TokenmartError, match="m: tokens are missing, and the early window is one"):
        score_table(path, WORKSPACE)


def test_one_late_swap_among_21_pairs_is_let_pass_at_95_percent(write: Write) -> None:
    scores = {(f"m{run}", "q"): [float(run)] * 16 for run in range(7)}
    scores["m5", "q"] = [7.0] * 10 + [5.0] * 6  # above m6 up to 60% of its training
    entry = score_table(write(scores, EARLY + LATER), WORKSPACE).entries["m0"]["q"]
    assert entry["earliest_share"] == pytest.approx(0.65)
    assert entry["earliest_share_95"] == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("scores", "reason"),
    [
        ([0.5] * 16, "the score is the same at every early checkpoint"),
        ([0.5] * 13 + [0.6] * 3, "constant over all early checkpoints but the first or last"),
        ([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], "7 of at least 8 early checkpoints"),
    ],
)
def test_undefined_is_null_with_a_reason(write: Write, scores: list[float], reason: str) -> None:
    entry = score_table(write({("m", "q"): scores}, EARLY + LATER), WORKSPACE).entries["m"]["q"]
    assert entry["sq"] is None and entry["autocorrelation"] is None
    assert reason in entry["reason"] == entry["reasons"]["autocorrelation"]
    assert entry["snr"] is None and entry["reasons"]["snr"] == "only one run"


def test_a_missing_checkpoint_and_another_schedule_are_noted(write: Write) -> None:
    tokens = EARLY + LATER
    path = write(made_up(1), tokens)
    lines = [line for line in path.read_text().splitlines() if not _is(line, "noise", EARLY[5])]
    path.write_text("\n".join(lines))
    found = score_table(path, WORKSPACE)
    assert found.entries["m0"]["noise"]["early_checkpoints"] == 13
    assert found.notes == (
        ASSUMED,
        "m0: 13 of 14 early checkpoints of noise; the others are missing and left out",
    )
    rising = [float(k) for k in range(1, 11)]
    found = score_table(write({("m", "q"): rising}, [3.0 * k for k in range(1, 11)]), WORKSPACE)
    assert found.entries["m"]["q"]["early_checkpoints"] == 10
    assert "not those of the competition's schedule" in found.notes[1]


def test_an_older_score_and_two_scales_are_noted(write: Write) -> None:
    scores = {(f"m{n}", "q"): [0.1 + 0.02 * k + 0.01 * n for k in range(16)] for n in range(3)}
    path = write(scores, EARLY + LATER)
    assert score_table(path, WORKSPACE).notes == (ASSUMED,)
    lines = [
        line for line in path.read_text().splitlines() if not line.startswith("m2,1b,arch1,205.9")
    ]
    path.write_text("\n".join(lines))
    assert score_table(path, WORKSPACE).notes == (
        ASSUMED,
        "m2: at the end of the early window, its score on q at 189.215 billion tokens is compared "
        "with scores at 205.992 billion tokens, which 2 of 3 runs have. Add the missing checkpoint",
    )
    scores["m1", "q"] = [100 * score for score in scores["m1", "q"]]
    assert score_table(write(scores, EARLY + LATER), WORKSPACE).notes == (
        ASSUMED,
        "q, score: some scores are fractions and others percent, those of m1 unlike most; multiply "
        "the fractions by 100, or divide the percent by 100",
    )


def test_the_direction_of_a_loss_follows_from_its_name(write: Write) -> None:
    falling = {
        (f"m{n}", "lambada_perplexity"): [40.0 / (k + n + 2) for k in range(16)] for n in (0, 1)
    }
    path = write(falling, EARLY + LATER)
    found = score_table(path, WORKSPACE)
    assert found.entries["m0"]["lambada_perplexity"]["sq"] > 0.99
    assert found.notes[0].startswith("score: lower is taken as better, by name")
    lines = path.read_text().splitlines()
    path.write_text(
        "\n".join(f"{x},{'direction' if not k else 'lower'}" for k, x in enumerate(lines))
    )
    stated = score_table(path, WORKSPACE)
    assert stated.notes == () and stated.entries == found.entries
    mixed = {**falling, ("m0", "arc"): [0.1 * k for k in range(16)]}
    with pytest.raises(TokenmartError, match="write one file per direction"):
        score_table(write(mixed, EARLY + LATER), WORKSPACE)


def _is(line: str, benchmark: str, tokens: float) -> bool:
    return f",{tokens}," in line and benchmark in line


def test_cs_separates_science_from_web_and_enters_the_weighted_score(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("recipe", "hint"),
    [
        ("Web", "; unknown recipe Web: did you mean web?"),
        ("webb", "; unknown recipe webb: did you mean web?"),
        ("books", ""),
    ],
)
def test_a_misspelt_recipe_is_named(tmp_path: Path, recipe: str, hint: str) -> None:
    path = tmp_path / "recipes.csv"
    rows = [f"{','.join(COLUMNS)},recipe"]
    for run in ("science", recipe):
        rows += [f"{run},1b,arch1,{at},q,{at / 1000},{run}" for at in EARLY + LATER]
    path.write_text("\n".join(rows))
    entry = score_table(path, WORKSPACE).entries["science"]["q"]
    reason = "no early window shared by runs of the recipes science and web"
    assert entry["cs"] is None and entry["reasons"]["cs"] == reason + hint


def test_the_command_writes_what_it_prints(write: Write, tmp_path: Path) -> None:
    path, out = write(made_up(2), EARLY + LATER), tmp_path / "signal.json"
    arguments = ["e2lm", "score", "--scores", str(path), "--weights", "1,0,0"]
    printed = CliRunner().invoke(cli, [*arguments, "--model", "m1", "--json"])
    assert printed.exit_code == 0, printed.output
    entries: dict[str, Any] = json.loads(printed.stdout)
    assert list(entries) == ["m1"]
    assert entries["m1"]["smooth"]["weighted_score"] == entries["m1"]["smooth"]["sq"]
    shown = CliRunner().invoke(cli, [*arguments, "--model", "m1"])
    assert shown.exit_code == 0 and "weighted" in shown.stdout.splitlines()[0], shown.output
    (line,) = [line for line in shown.output.splitlines() if line.startswith("m1     smooth")]
    assert f"{entries['m1']['smooth']['sq']:.3g}" in line
    for _ in range(2):  # its own result may be replaced
        done = CliRunner().invoke(cli, [*arguments, "--out", str(out)])
        assert done.exit_code == 0, done.output
    assert json.loads(out.read_text())["m1"] == entries["m1"]
    out.write_text("mine")
    refused = CliRunner().invoke(cli, [*arguments, "--out", str(out)])
    assert refused.exit_code == 1 and out.read_text() == "mine"


def test_what_has_no_sq_is_named_with_its_reason(write: Write, tmp_path: Path) -> None:
    rows = {(f"m{n}", "b"): [0.1, 0.2, 0.3, 0.4] for n in range(7)}
    path, out = write(rows, EARLY[:4]), tmp_path / "signal.json"
    done = CliRunner().invoke(cli, ["e2lm", "score", "--scores", str(path), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "m4, b: no SQ: 4 of at least 8 early checkpoints" in done.stderr
    assert "m5, b" not in done.stderr and "and 2 more without SQ" in done.stderr


def test_a_weighted_score_that_is_none_says_what_it_takes(write: Write) -> None:
    path = write({("m0", "q"): [0.1, 0.2], ("m1", "q"): [0.2, 0.1]}, EARLY[:2])
    shown = CliRunner().invoke(cli, ["e2lm", "score", "--scores", str(path)])
    said = " ".join(shown.stdout.split())
    assert "no weighted score for m0, q and 1 more: sq is undefined (it takes 8 early" in said
    assert "cs is undefined (it takes runs with science and with web in the column recipe)" in said
    assert "a weight of 0 leaves a part out, such as --weights 1,0,0" in said


def test_each_empty_column_and_runs_off_the_schedule_have_one_note(write: Write) -> None:
    rows = {(f"m{n}", "q"): [0.1 + 0.01 * k * (n + 1) for k in range(8)] for n in range(6)}
    path = write(rows, [10.0 * k for k in range(1, 9)])
    shown = CliRunner().invoke(cli, ["e2lm", "score", "--scores", str(path)])
    (note,) = [line for line in shown.stderr.splitlines() if "schedule" in line]
    assert note.startswith("note: m0, m1, m2 and 3 more: the checkpoints are not those of")
    said = " ".join(shown.stdout.split())
    for reason in (
        "no value of RC, decides: 6 of 6 runs have no checkpoint after the early window; end it "
        "earlier (`early` in a problem file of kind table), or add later checkpoints",
        "no value of CS: no early window shared by runs of the recipes science and web",
        "no value of SNR: 8 of at least 10 checkpoints; fewer are used with `tokenmart e2lm score "
        "--last-checkpoints 8`",
    ):
        assert said.count(reason) == 1, said


@pytest.mark.parametrize(
    ("tokens", "statistic", "reason"),
    [
        (EARLY[:6], "sq", "6 of at least 8 early checkpoints; add checkpoints: the run has 6 in"),
        ([*EARLY[-4:], 210.0, 220.0, 230.0, 240.0], "sq", "8 early checkpoints; widen the early"),
        (EARLY[:6], "rc", "2 of 2 runs have no checkpoint after the early window; end it earlier"),
        ([210.0, 220.0], "rc", "fewer than two runs have a checkpoint in the early window; widen"),
        (EARLY[:1], "decision_accuracy", "fewer than two runs have several checkpoints, and no"),
        (EARLY[:6], "snr", "6 of at least 10 checkpoints; fewer are used with `tokenmart e2lm sc"),
        (EARLY[:6], "noise", "`, or `tokenmart dbt run --vars '{last_checkpoints: 6}'`"),
    ],
)
def test_a_reason_names_what_would_help(
    write: Write, tokens: list[float], statistic: str, reason: str
) -> None:
    rows = {(f"m{n}", "q"): [0.1 + 0.01 * k * (n + 1) for k in range(len(tokens))] for n in (0, 1)}
    entry = score_table(write(rows, tokens), WORKSPACE).entries["m0"]["q"]
    assert entry[statistic] is None and reason in entry["reasons"][statistic]


def test_a_reason_names_missing_checkpoints_if_other_runs_have_them(write: Write) -> None:
    rows = {(f"m{n}", "q"): [0.1 + 0.01 * k for k in range(9)] for n in (0, 1)}
    path = write(rows, [*EARLY[:8], 210.0])
    lines = [
        x for x in path.read_text().splitlines() if not x.startswith(f"m1,1b,arch1,{EARLY[3]},")
    ]
    path.write_text("\n".join(lines))
    entry = score_table(path, WORKSPACE).entries["m1"]["q"]
    assert entry["sq"] is None and entry["reason"] == (
        "7 of at least 8 early checkpoints; add missing checkpoints (other scores of the table "
        "have 8), or widen the early window (`early` in a problem file of kind table)"
    )


def test_a_model_without_a_benchmark_is_named(write: Write) -> None:
    rows = {("m0", "q"): [0.1, 0.2], ("m0", "r"): [0.1, 0.2], ("m1", "q"): [0.1, 0.3]}
    notes = score_table(write(rows, EARLY[:2]), WORKSPACE).notes
    assert "m1: no score on r; there it is compared with no other model" in notes


@pytest.mark.parametrize("weights", ["1,2", "a,b,c", "1,-1,0", "nan,0,0"])
def test_wrong_weights(write: Write, weights: str) -> None:
    path = str(write(made_up(1), EARLY))
    done = CliRunner().invoke(cli, ["e2lm", "score", "--scores", path, "--weights", weights])
    assert done.exit_code == 2 and repr(weights) in done.output


def test_an_unknown_model_names_the_closest(write: Write) -> None:
    with pytest.raises(TokenmartError, match=r"--model mo0: not in .*did you mean 'm0'"):
        score_table(write(made_up(1), EARLY), WORKSPACE, model="mo0")


def test_the_json_of_the_site_is_the_same_table(write: Write, tmp_path: Path) -> None:
    table = {(f"dense-{size}-arch1", "q"): [0.1 + 0.01 * k for k in range(14)] for size in "13"}
    columns = {
        model: {"iteration": list(range(14)), "gtokens": EARLY, benchmark: scores}
        for (model, benchmark), scores in table.items()
    }
    path = tmp_path / "site.json"
    path.write_text(json.dumps({"metadata": {"metrics": ["q"]}, "data": columns}))
    assert (
        score_table(path, WORKSPACE).entries == score_table(write(table, EARLY), WORKSPACE).entries
    )
    columns["dense-1-arch1"]["q"] = [0.1]
    path.write_text(json.dumps({"metadata": {"metrics": ["q"]}, "data": columns}))
    with pytest.raises(TokenmartError, match="dense-1-arch1: 1 scores of q at 14 checkpoints"):
        score_table(path, WORKSPACE)
    columns["dense-1-arch1"]["q"] = [math.nan] * 14
    path.write_text(json.dumps({"metadata": {"metrics": ["q"]}, "data": columns}))
    with pytest.raises(TokenmartError, match=rf"{path}: row 1: score is nan, expected a finite"):
        score_table(path, WORKSPACE)
    path.write_text("[" * 200_000)
    with pytest.raises(TokenmartError, match=rf"{path}: not read as JSON \(nested too deeply"):
        score_table(path, WORKSPACE)
    path.write_text("[1]")
    with pytest.raises(TokenmartError, match="is not the JSON of the competition's site"):
        score_table(path, WORKSPACE)


@pytest.mark.skipif(not PUBLISHED.is_file(), reason="the published scores are not here")
def test_the_published_figures_to_four_digits() -> None:
    entries = score_table(PUBLISHED, WORKSPACE).entries
    dense = entries["dense-1b-arch1"]

    def four(benchmark: str) -> list[float]:
        names = ("monotonicity", "autocorrelation", "sq")
        return [round(dense[benchmark][name], 4) for name in names]

    assert four("anli_r3") == [0.0, 0.3473, 0.1737]
    assert four("arc_challenge") == [0.8198, 0.9139, 0.8669]
    sizes = [entries[f"dense-{size}-arch1"]["mmluvar"]["sq"] for size in ("500m", "1b", "3b")]
    assert [round(value, 4) for value in sizes] == [0.9354, 0.9814, 0.9601]
    assert round(float(np.mean(sizes)), 3) == 0.959
    counts = {entry["early_checkpoints"] for model in entries.values() for entry in model.values()}
    assert counts == {14}


def test_of_a_file_with_two_metrics_one_is_scored(tmp_path: Path) -> None:
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
    message = (
        r"2 metrics \(acc, ppl\), .*choose it with --metric, or name the file in a problem file"
    )
    with pytest.raises(TokenmartError, match=message):
        score_table(path, WORKSPACE)
    with pytest.raises(TokenmartError, match=r"--metric pp: not in .*did you mean 'ppl'"):
        score_table(path, WORKSPACE, metric="pp")
    found = score_table(path, WORKSPACE, metric="acc")
    assert found.entries["m"]["q"]["monotonicity"] == pytest.approx(monotonicity(scores["acc"]))
    assert [note.partition(":")[0] for note in found.notes[:2]] == ["acc", "m"]
    arguments = ["--scores", str(path), "--metric", "ppl"]
    done = CliRunner().invoke(cli, ["e2lm", "score", *arguments, "--json"])
    assert json.loads(done.stdout)["m"]["q"]["monotonicity"] == 1
    done = CliRunner().invoke(cli, ["e2lm", "report", *arguments, "--out", str(out)])
    assert done.exit_code == 0 and "Scores over training: ppl" in out.read_text(), done.output
