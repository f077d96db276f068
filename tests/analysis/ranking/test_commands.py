"""`correlate`, `select` and `verify` by their command lines."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import scipy.stats
from click.testing import CliRunner

from analysis.ranking import cli
from analysis.ranking.loading import load_table
from analysis.ranking.results import rank_metrics
from analysis.ranking.view import notes
from analysis.submission import cli as submission_cli
from warehouse.problem.spec import load_problem


def run(command, *arguments):
    return CliRunner().invoke(command, [str(a) for a in arguments])


def test_correlate_ranks_by_signed_rho_and_orients(minilong):
    result = run(cli.correlate, "--problem", "minilong", "--json", "--resamples", 100, "--top", 9)
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


@pytest.mark.parametrize("command", ["correlate", "select"])
def test_too_few_models_are_described_and_nothing_is_claimed(minilong, command):
    scores = minilong.scores("minilong")
    minilong.target("minilong", {m: scores[m] for m in minilong.models("minilong")[:5]})
    result = run(getattr(cli, command), "--problem", "minilong", "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["answer"] == "too-few" and document["tracks_target"] == []
    assert {row["verdict"] for row in document["rows"]} == {"too-few"}
    assert all(row["p_beats_baseline"] is None for row in document["rows"])
    names = {f"{row['metric']}/{row['variant']}" for row in document["rows"]}
    assert set(document["not_distinguishable_from_best"]) <= names


@pytest.mark.parametrize("command", ["correlate", "select"])
def test_a_constant_target_is_a_code_of_its_own(minilong, command):
    minilong.target("minilong", dict.fromkeys(minilong.models("minilong"), 1.0))
    arguments = ("--problem", "minilong")
    document = json.loads(run(getattr(cli, command), *arguments, "--json").stdout)
    assert document["answer"] == "constant-target" and document["tested"]["with_p"] == 0
    assert {row["verdict"] for row in document["rows"]} == {"constant-target"}


def test_correlate_and_select_conclude_the_same(minilong):
    """Of each metric that both show; and a metric that lacks a model is claimed by neither."""
    found = [
        json.loads(run(command, "--problem", "minilong", "--json", "--top", 1).stdout)
        for command in (cli.correlate, cli.select)
    ]
    for key in ("answer", "best", "baseline", "tracks_target", "not_distinguishable_from_best",
                "tested", "critical", "incomplete", "inadmissible"):  # fmt: skip
        assert found[0][key] == found[1][key], key
    rows = [{(r["metric"], r["variant"]): r for r in document["rows"]} for document in found]
    assert set(rows[1]) < set(rows[0])
    for name, row in rows[1].items():
        for key in ("verdict", "spearman", "spearman_ci95_after_choice", "p_adjusted"):
            assert row[key] == rows[0][name][key]
    partly = rows[0]["partly", "a"]
    assert (partly["verdict"], partly["n"], partly["evidence"]) == (
        "missing-models", 22, ["all-models", "within-families"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("command", "few"), [("correlate", ("--resamples", 100)), ("select", ("--splits", 20))]
)
def test_at_most_25_lines_at_80_columns_and_explain_has_the_rest(
    minilong, monkeypatch, command, few
):
    monkeypatch.setenv("COLUMNS", "80")
    with minilong.write() as connection:
        for table, changed in (
            ("metric_catalog", ""),
            ("metric_values", ", row_number() over (partition by n) * n % 23 as value"),
        ):
            connection.execute(
                f"insert into {table} select * exclude n replace ('a_metric_with_a_long_name_' || n"
                f" as metric, 'variant_width_32' as variant{changed}) from {table},"
                " range(40) numbers(n) where metric = 'good'"
            )
        connection.execute("update metric_values set tokens = 7, documents = 2")
    arguments = ("--problem", "minilong", *few)
    shown = run(getattr(cli, command), *arguments)
    assert shown.exit_code == 0, shown.output
    assert len(shown.stdout.splitlines()) <= 25
    assert max(map(len, shown.stdout.splitlines())) <= 80
    asked = run(getattr(cli, command), *arguments, "--top", 30).stdout
    assert len(asked.splitlines()) > 30
    explained = run(getattr(cli, command), *arguments, "--explain").stdout
    assert len(explained.splitlines()) > 25


def noted(marts) -> dict[str, str]:
    problem = load_problem("minilong", marts.workspace)
    ranking = rank_metrics(load_table(problem, marts.workspace), 0)
    return notes(ranking, ranking.shown(["good"]))


def test_what_changes_a_conclusion_has_a_code(minilong):
    """`partly` would track the target, but lacks a model; everything else is added here."""
    minilong.coverage("minilong", "full")
    assert set(noted(minilong)) == {"missing-models"}
    models = minilong.models("minilong")
    scores = minilong.scores("minilong")
    minilong.target("minilong", {model: scores[model] for model in models[:9]})
    with minilong.write() as connection:
        connection.execute(
            "update metric_values set tokens = 7, documents = 1 where metric = 'good'"
        )
        connection.execute(
            "update metric_values set documents = 2 where metric = 'good' and model_id = ?",
            [models[1]],
        )
        connection.execute("update units set dtype = 'float32' where model_id = ?", [models[0]])
    found = noted(minilong)
    assert {"uneven-documents", "few-tokens", "different-dtypes"} <= set(found)


@pytest.mark.parametrize(
    ("tokens", "whole", "differ"),
    [(150, 150, False), (150, 900, True), (300, 300, True), (200, 900, False)],
)
def test_documents_cut_at_different_lengths(minilong, tokens, whole, differ):
    """A document with fewer tokens than the limit isn't cut, and is no sign of another limit."""
    minilong.coverage("minilong", "full")
    change = "update units set document_tokens = ?, document_tokens_total = ?"
    with minilong.write() as connection:
        connection.execute(change, [200, 900])
        connection.execute(
            f"{change} where model_id = ?", [tokens, whole, minilong.models("minilong")[0]]
        )
    assert ("different-lengths" in noted(minilong)) == differ


def test_files_that_changed_after_the_build_and_the_seed(minilong):
    arguments = ("--problem", "minilong", "--resamples", 100, "--metric", "good", "--json")
    first, again = (run(cli.correlate, *arguments).stdout for _ in range(2))
    assert first == again and json.loads(first)["outdated"] is False
    minilong.record_build(texts="others")
    assert json.loads(run(cli.correlate, *arguments).stdout)["outdated"] is True


def test_select_names_the_good_metric(minilong):
    result = run(cli.select, "--problem", "minilong", "--json", "--splits", 100)
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert set(document["tracks_target"]) == {"longppl/evaluator", "good/a"}
    assert document["not_distinguishable_from_best"] == ["good/a"]
    assert document["inadmissible"] == ["longppl/evaluator"]
    assert document["incomplete"] == ["partly/a"]
    assert document["baseline"] == "perplexity/per_token" and document["best"] == "good/a"
    good = document["rows"][0]
    assert good["metric"] == "good" and good["minus_baseline"] > 0.5
    assert good["verdict"] == "tracks" and good["p_adjusted"] < 0.01
    assert good["tracks_target"] and not good["distinguishable_from_best"]
    interval = good["spearman_ci95_after_choice"]
    assert 0 < interval["low"] < good["spearman"] < interval["high"]
    assert good["p_beats_baseline"] < 0.05
    # two families of 19 and 4: one split keeps families together
    assert document["choice"]["splits"] == 1


@pytest.mark.parametrize("metric", ["good", "noise"])
def test_a_model_that_read_fewer_documents_is_named(minilong, metric):
    """A metric of uneven documents isn't said to track the target; another one is only named."""
    model, full_id = next(iter(minilong.full_ids("minilong").items()))
    with minilong.write() as connection:
        connection.execute(
            "update metric_values set documents = 1 where metric = ? and model_id = ?",
            [metric, model],
        )
    for command in (cli.correlate, cli.select):
        document = json.loads(run(command, "--problem", "minilong", "--json").stdout)
        for row in document["rows"]:
            told = {full_id: 1} if row["metric"] == metric else {}
            assert row["models_with_fewer_documents"] == told
        verdict = next(row["verdict"] for row in document["rows"] if row["metric"] == "good")
        assert verdict == ("uneven-documents" if metric == "good" else "tracks")
        assert ("good/a" in document["tracks_target"]) == (metric != "good")


def test_among_noise_no_metric_tracks_the_target(minilong):
    with minilong.write() as connection:
        connection.execute("delete from metric_values where metric != 'noise'")
    document = json.loads(run(cli.select, "--problem", "minilong", "--json").stdout)
    assert document["answer"] == "none-tracks" and document["tracks_target"] == []
    assert len(document["not_distinguishable_from_best"]) > 1
    for row in document["rows"]:
        low = row["spearman_ci95_after_choice"]["low"]
        assert low < 0 and (row["p_adjusted"] < 0.05) == (low > 0)


def test_verify_for_a_measured_target(minilong, write_json):
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


def test_help_imports_nothing_heavy():
    commands = "ranking.cli.correlate ranking.cli.select report.cli.report report.cli.show"
    commands += " submission.cli.verify submission.cli.submit submission.cli.reproduce"
    heavy = {"numpy", "scipy", "sklearn", "duckdb", "torch", "pydantic", "jinja2"}
    code = (
        "import importlib, sys\n"
        f"for name in {commands.split()!r}:\n"
        "    module, _, command = name.rpartition('.')\n"
        "    found = getattr(importlib.import_module(f'analysis.{module}'), command)\n"
        "    found.main(['--help'], 'x', standalone_mode=False)\n"
        f"sys.exit(bool({heavy} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Usage") == 7


def test_the_baseline_is_shown_whatever_is_asked_for(minilong):
    arguments = ("--problem", "minilong", "--resamples", 100, "--metric", "noise", "--top", 1)
    shown = run(cli.correlate, *arguments).stdout
    assert "perplexity/per_token =" in shown
    record = json.loads(run(cli.correlate, *arguments, "--json").stdout)
    assert {row["metric"] for row in record["rows"]} == {"noise"}
    assert record["baseline"] == "perplexity/per_token"


def test_the_json_has_bootstrap_intervals_of_the_first_rows_only(minilong):
    """Every row is there, with the same p-values; --top says how many are bootstrapped."""
    arguments = ("--problem", "minilong", "--resamples", 100, "--json")
    part, whole = (
        json.loads(run(cli.correlate, *arguments, *top).stdout)["rows"]
        for top in ((), ("--top", 50))
    )
    detailed = [["spearman_ci95" in row for row in rows] for rows in (part, whole)]
    assert all(detailed[1]) and sum(detailed[0]) == 2  # the best and the baseline
    for row, other in zip(part, whole, strict=True):
        assert row.items() <= other.items()
