"""`correlate`, `select` and `verify` by their command lines."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest
import scipy.stats
from click.testing import CliRunner

from analysis.ranking import cli
from analysis.statistics.preregistered_tests import MINIMUM_SERIES, MINIMUM_SERIES_OF_P
from analysis.submission import cli as submission_cli


def run(command, *arguments):
    return CliRunner().invoke(command, [str(a) for a in arguments])


def test_correlate_ranks_by_signed_rho_and_orients(minilong):
    result = run(cli.correlate, "--problem", "minilong", "--json", "--resamples", 100)
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    rows = document["rows"]
    rhos = [row["spearman"] for row in rows]
    assert rhos == sorted(rhos, reverse=True) and rhos[-1] < 0
    by_name = {row["metric"]: row for row in rows}
    assert by_name["longppl"]["spearman"] == 1.0 and not by_name["longppl"]["admissible"]
    assert by_name["partly"]["n"] == 22
    with minilong.write() as connection:
        pairs = connection.execute(
            "select model_id, -value from metric_values where metric = 'perplexity'"
        ).fetchall()
    scores = minilong.scores("minilong")
    expected = scipy.stats.spearmanr([p[1] for p in pairs], [scores[p[0]] for p in pairs])[0]
    assert by_name["perplexity"]["spearman"] == pytest.approx(expected)
    assert by_name["good"]["spearman_ci95"]["low"] < by_name["good"]["spearman"]


def test_too_few_models_to_choose_by_say_what_to_do_instead(minilong):
    few = minilong.models("minilong")[:6]
    scores = minilong.scores("minilong")
    minilong.target("minilong", {model: scores[model] for model in few})
    result = run(cli.select, "--problem", "minilong")
    assert result.exit_code == 1
    assert "6 models have a target score; selection needs 8; " in result.stderr
    assert "`tokenmart correlate --problem minilong`" in result.stderr


def test_correlate_prints_a_table_that_says_how_to_read_it(minilong):
    result = run(cli.correlate, "--problem", "minilong", "--resamples", 100, "--top", 3)
    assert result.exit_code == 0, result.stderr
    for words in (
        "4 of 8 variants shown",
        "negated first",
        "metric_parts to draw from",
        "longppl/evaluator †",
        "No metric is preregistered; everything is exploratory",
        "perplexity/per_token (baseline)",
        "Next: `tokenmart select --problem minilong`",
    ):
        assert words in result.stdout
    lines = result.stdout.splitlines()
    assert lines[0].startswith("These metrics track the target: longppl (1 variant), partly")
    assert re.search(r"Not distinguishable.*; 1 of these not admissible \(†\)", result.stdout)
    heading = next(line for line in lines if line.startswith("metric"))
    shown = ["metric/variant", "Spearman", "95% CI", "p adj.", "held out", "n", "tokens", "better"]
    assert re.split(r"  +", heading)[:8] == shown
    assert "8 metrics tested (8 variants of this build)" in result.stdout


def test_correlate_warns_of_models_run_in_different_formats(minilong):
    minilong.coverage("minilong", "full")
    arguments = ("--problem", "minilong", "--resamples", 100, "--metric", "good")
    assert "number formats" not in run(cli.correlate, *arguments).stdout
    model = minilong.models("minilong")[0]
    with minilong.write() as connection:
        connection.execute("update units set dtype = 'float32' where model_id = ?", [model])
    assert "different number formats (22 in bfloat16, 1 in float32)" in " ".join(
        run(cli.correlate, *arguments).stdout.split()
    )


def test_files_that_changed_after_the_build_are_named(minilong):
    arguments = ("--problem", "minilong", "--resamples", 100, "--metric", "good")
    folder = minilong.workspace.tokens / "problem=minilong" / "model_id=a"
    folder.mkdir(parents=True)
    for top in (folder, folder.parent):
        os.utime(top, (1, 1))
    said = "files of minilong changed after the last build of the database; `tokenmart dbt run`"
    assert said not in run(cli.correlate, *arguments).stderr
    (folder / "new.parquet").touch()
    later = minilong.workspace.database.stat().st_mtime + 5
    os.utime(folder, (later, later))
    assert said in run(cli.correlate, *arguments).stderr
    assert json.loads(run(cli.correlate, *arguments, "--json").stdout)["outdated"] is True


def test_correlate_warns_of_documents_cut_at_different_lengths(minilong):
    """A document with fewer tokens than the limit isn't cut, and is no sign of another limit."""
    minilong.coverage("minilong", "full")
    arguments = ("--problem", "minilong", "--resamples", 100, "--metric", "good")
    model, other, *_ = minilong.models("minilong")
    change = "update units set document_tokens = ?, document_tokens_total = ? where model_id = ?"

    def warned(tokens: int, total: int) -> str:
        with minilong.write() as connection:
            connection.execute(
                "update units set document_tokens = 200, document_tokens_total = 900"
            )
            connection.execute(change, [tokens, total, model])
        return " ".join(run(cli.correlate, *arguments).stdout.split())

    assert "different lengths" not in warned(150, 150)
    text = f"the tokens read are 150 for {model}, 200 for {other} and 21 more"
    assert text in warned(150, 900)
    assert f"200 for {other} and 21 more, 300 for {model})" in warned(300, 300)


@pytest.mark.parametrize("clustered", [(), ("--clustered",)])
def test_same_seed_same_numbers(minilong, clustered):
    arguments = ("--problem", "minilong", "--json", "--resamples", 100, "--metric", "good")
    first, again = (run(cli.correlate, *arguments, *clustered).stdout for _ in range(2))
    assert first == again and json.loads(first)["clustered"] is bool(clustered)


def test_select_names_the_good_metric(minilong):
    result = run(cli.select, "--problem", "minilong", "--json", "--splits", 100)
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["tracks_target"] == ["good/a"] == document["not_distinguishable_from_best"]
    assert document["inadmissible"] == ["longppl/evaluator"]
    assert document["incomplete"] == ["partly/a"]
    assert document["baseline"] == "perplexity/per_token"
    good = document["candidates"][0]
    assert good["metric"] == "good" and good["minus_baseline"] > 0.5
    assert good["held_out"] > 0.8 and good["p_adjusted"] < 0.01
    assert good["tracks_target"] and not good["distinguishable_from_best"]
    interval = good["spearman_ci95_after_choice"]
    assert 0 < interval["low"] < good["spearman"] < interval["high"]
    assert good["p_beats_baseline"] < 0.05
    assert document["best_minus_baseline"]["p_one_sided"] < 0.05
    assert document["best_minus_baseline"]["series"] == 13


def test_the_answers_come_first_then_the_next_command(minilong):
    lines = run(cli.select, "--problem", "minilong", "--splits", 20).stdout.splitlines()
    verdict = "These metrics track the target: good (1 variant). 95% null maximum of 8 tested: +"
    assert lines[0].startswith(verdict)
    assert lines[1].startswith("  good/a, rho +0.99 (95% CI +") and "n = 23" in lines[1]
    assert lines[2].startswith("Baseline: perplexity/per_token, rho ") and "n = 23" in lines[2]
    printed = " ".join(" ".join(lines).split())
    assert "Not distinguishable from the best (good/a): good (1 variant)." in printed
    assert (
        "Ahead of perplexity/per_token, the baseline (one-sided p below 0.05, adjusted): good"
        in (printed)
    )
    assert (
        "Next: on models without labels, `tokenmart preregister" in printed.partition("Spearman")[0]
    )


def test_too_few_series_say_nothing_of_a_lead(minilong):
    file = minilong.workspace.problems / "minilong.yml"
    text = file.read_text()
    for kind in ("rope-base", "rope-linear", "window-no-sinks", "temperature", "noise"):
        text = text.replace(f"kind: {kind},", "kind: quantized,")
    file.write_text(text)
    arguments = ("--problem", "minilong", "--splits", 20)
    lead = json.loads(run(cli.select, *arguments, "--json").stdout)["best_minus_baseline"]
    few = lead["series"] < MINIMUM_SERIES
    assert (lead["ci95"] is None) == few
    assert (lead["p_one_sided"] is None) == (lead["series"] < MINIMUM_SERIES_OF_P)
    printed = " ".join(run(cli.select, *arguments).stdout.split())
    assert (f"{lead['series']} series are too few for a CI" in printed) == few


def good_tracks(document):
    return any(c["tracks_target"] for c in document["candidates"] if c["metric"] == "good")


@pytest.mark.parametrize("metric", ["good", "noise"])
def test_a_model_that_read_fewer_documents_is_named(minilong, metric):
    """A metric of uneven documents isn't said to track the target; another one is only named."""
    model, full_id = next(iter(minilong.full_ids("minilong").items()))
    with minilong.write() as connection:
        connection.execute(
            "update metric_values set documents = 1 where metric = ? and model_id = ?",
            [metric, model],
        )
    arguments = ("--problem", "minilong", "--splits", 20)
    document = json.loads(run(cli.select, *arguments, "--json").stdout)
    for row in document["candidates"]:
        told = {full_id: 1} if row["metric"] == metric else {}
        assert row["models_with_fewer_documents"] == told
    printed = " ".join(run(cli.select, *arguments).stdout.split())
    assert "compares models on different documents (--json names them): " + metric in printed
    if metric == "good":
        assert document["tracks_target"] == [] and not good_tracks(document)
        assert f"good/a isn't among them: it compares models on different documents ({full_id}" in (
            printed
        )
    else:
        assert document["tracks_target"] == ["good/a"]
    arguments = ("--problem", "minilong", "--resamples", 100)
    ranked = json.loads(run(cli.correlate, *arguments, "--json").stdout)["rows"]
    assert {r["metric"] for r in ranked if r["models_with_fewer_documents"]} == {metric}
    assert f"{full_id} 1 of 50" in " ".join(run(cli.correlate, *arguments).stdout.split())


def test_among_noise_no_metric_tracks_the_target(minilong):
    with minilong.write() as connection:
        connection.execute("delete from metric_values where metric != 'noise'")
    arguments = ("--problem", "minilong", "--splits", 100)
    document = json.loads(run(cli.select, *arguments, "--json").stdout)
    assert document["tracks_target"] == []
    assert len(document["not_distinguishable_from_best"]) > 1
    assert document["held_out"]["optimism"] > 0.2
    text = " ".join(run(cli.select, *arguments).stdout.split())
    assert "No metric tracks the target: no 95% CI excludes 0. Best of all: noise/v" in text
    least = document["least_spearman_that_excludes_0"]
    assert f" tested: +{least:.2f}." in text


def test_verify_for_a_measured_target(minilong, write_json):
    from warehouse.problem.spec import load_problem

    models = load_problem("minilong", minilong.workspace).models
    path = write_json({m.full_id: i for i, m in enumerate(models)})
    result = run(submission_cli.verify, "--problem", "minilong", "--submission", path, "--json")
    assert result.exit_code == 0, result.stderr
    target = json.loads(result.stdout)["target"]
    assert target["kind"] == "recall"
    scores = minilong.scores("minilong")
    minilong.target("minilong", {model: score + 0.001 for model, score in scores.items()})
    again = run(submission_cli.verify, "--problem", "minilong", "--submission", path, "--json")
    assert json.loads(again.stdout)["target"]["sha256"] != target["sha256"]


@pytest.mark.parametrize(
    "command",
    [
        "ranking.cli:correlate",
        "ranking.cli:select",
        "report.cli:report",
        "report.cli:show",
        "submission.cli:verify",
        "submission.cli:submit",
        "submission.cli:reproduce",
    ],
)
def test_help_imports_nothing_heavy(command):
    module, name = command.split(":")
    heavy = {"numpy", "scipy", "sklearn", "duckdb", "torch", "pydantic", "jinja2"}
    code = (
        f"import sys; from analysis.{module} import {name}; {name}.main(['--help'], 'x', "
        f"standalone_mode=False); sys.exit(bool({heavy} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout


def test_a_metric_that_only_separates_families_does_not_track_the_target(minilong):
    from warehouse.problem.spec import load_problem

    models = load_problem("minilong", minilong.workspace).models
    level = {m.model_id: 5.0 if m.family == "gemma3" else 0.0 for m in models}
    order = np.random.default_rng(20).permutation(len(models))
    shuffled = {m.model_id: float(i) for m, i in zip(models, order, strict=True)}
    minilong.target("minilong", {m: 20 * level[m] + 0.01 * i for i, m in enumerate(level)})
    values = {m: 20 * level[m] + shuffled[m] for m in level}
    minilong.metric("minilong", "brand", "a", values)
    with minilong.write() as connection:
        connection.execute("delete from metric_values where metric != 'brand'")
    arguments = ("--problem", "minilong", "--splits", 50, "--json")
    document = json.loads(run(cli.select, *arguments).stdout)
    assert document["candidates"][0]["spearman"] > 0.5 and document["tracks_target"] == []
    assert document["candidates"][0]["p_adjusted_within_families"] > 0.05


@pytest.mark.parametrize("width", [80, 100, 160])
def test_the_tables_fit_the_terminal(minilong, monkeypatch, width):
    """No number is broken, no line is longer; what has no room is named and comes with --wide."""
    monkeypatch.setenv("COLUMNS", str(width))
    for command, extra in (
        (cli.correlate, ("--resamples", 100)),
        (cli.select, ("--splits", 20)),
    ):
        shown = run(command, "--problem", "minilong", *extra)
        assert shown.exit_code == 0, shown.output
        assert max(map(len, shown.stdout.splitlines())) <= width
        cells = r"\+(?:1\.000|0\.9\d\d) +\+\d\.\d\d to \+\d\.\d\d +0\.\d{4} "
        assert re.search(cells, shown.stdout)
        assert ("not shown (--wide)" in shown.stdout) == (width < 150)
        wide = run(command, "--problem", "minilong", "--wide", *extra).stdout
        assert "not shown" not in wide and ("Pearson" in wide or "| size" in wide)


def test_few_models_and_few_tokens_are_warned_about(minilong):
    arguments = ("--problem", "minilong", "--resamples", 100, "--metric", "good")
    assert "warning" not in run(cli.correlate, *arguments).stdout
    with minilong.write() as connection:
        connection.execute("update metric_values set tokens = 7 where metric = 'good'")
        keep = minilong.models("minilong")[:9]
        scores = minilong.scores("minilong")
        minilong.target("minilong", {model: scores[model] for model in keep})
        last = minilong.models("minilong")[-1]
        connection.execute("delete from units where model_id not in ?", [[*keep, last]])
    shown = " ".join(run(cli.correlate, *arguments).stdout.split())
    assert "warning: 9 models in " in shown and "below 12 models" in shown
    assert "rest on fewer than 100 tokens for some model (good/a: 7)" in shown
    # of the models without a score only those that were run are named
    assert f"extracted, without a target score: {last} warning" in shown


def test_the_baseline_is_shown_whatever_is_asked_for(minilong):
    arguments = ("--problem", "minilong", "--resamples", 100, "--metric", "noise", "--top", 1)
    shown = run(cli.correlate, *arguments).stdout
    assert "perplexity/per_token (baseline)" in shown
    record = json.loads(run(cli.correlate, *arguments, "--json").stdout)
    assert {row["metric"] for row in record["rows"]} == {"noise"}
    assert record["baseline"] == "perplexity/per_token"


def test_the_json_of_correlate_can_leave_intervals_out(minilong):
    """Every row is there, with the same p-values; --top says how many are bootstrapped."""
    arguments = ("--problem", "minilong", "--resamples", 100, "--json")
    whole, part = (
        json.loads(run(cli.correlate, *arguments, *top).stdout)["rows"]
        for top in ((), ("--top", 1))
    )
    detailed = [["spearman_ci95" in row for row in rows] for rows in (whole, part)]
    assert all(detailed[0]) and 1 <= sum(detailed[1]) < len(part) == len(whole)
    for row, other in zip(part, whole, strict=True):
        assert row.items() <= other.items()


def test_the_json_of_correlate_has_a_time_left_for_the_bootstrap(minilong, monkeypatch):
    """A bar of its own, since a variant's bootstrap takes longer than all else of it."""
    bars = []

    @contextmanager
    def recorded(total, noun, work=None):
        calls = []
        bars.append((total, work, calls))
        yield lambda what, units, work=0.0: calls.append((what.split(":")[0], units, work))

    monkeypatch.setattr("warehouse.progress.progress_bar", recorded)
    result = run(cli.correlate, "--problem", "minilong", "--json", "--resamples", 100)
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["rows"]
    bootstrapped = sum("spearman_ci95" in row for row in rows)
    (_, _, documents), (total, work, calls) = bars
    assert total == work == bootstrapped == len(documents) == len(calls)
    assert set(documents) == {("documents", 1, 1.0)} and set(calls) == {("bootstrap", 1, 1.0)}
