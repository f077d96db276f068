"""An idea ranked with the variants: the same numbers and rules; no filter reduces the number
tested.
"""

from __future__ import annotations

import json
import math

import pytest
from click.testing import CliRunner

from analysis.ranking import cli
from warehouse.errors import TokenmartError
from warehouse.metrics.tested_metrics import recorded_metrics
from warehouse.paths import find_workspace


def run(command, *arguments):
    return CliRunner().invoke(command, ["--problem", "minilong", *map(str, arguments)])


def correlated(*arguments):
    result = run(cli.correlate, "--json", "--resamples", 100, *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def selected(*arguments):
    result = run(cli.select, "--json", "--splits", 50, *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


OF_PERPLEXITY = (
    "select model_id, value from metric_values where metric = 'perplexity' and problem = $problem"
)
NUMBERS = ("n", "spearman", "p_adjusted", "minus_baseline", "pearson", "skipped_kept")


def test_an_idea_gets_the_numbers_of_a_variant_with_its_values(minilong):
    before = correlated()
    found = correlated("--sql", OF_PERPLEXITY, "--better", "lower", "--name", "mine")
    idea, *variants = found["rows"]
    (twin,) = (row for row in variants if row["metric"] == "perplexity")
    for name in NUMBERS:
        assert idea[name] == pytest.approx(twin[name], abs=1e-8), name  # an idea keeps ten digits
    assert (idea["metric"], idea["kind"], idea["admissible"]) == ("mine", "sql", False)
    assert idea["definition"] == OF_PERPLEXITY and len(idea["values"]) == 23
    assert idea["alike"]["perplexity/per_token"] == 1.0
    assert found["tested"]["ideas"] == 1 and found["tested"]["all"] == before["tested"]["all"] + 1
    # a copy costs nothing
    assert {r["variant"]: r["p_adjusted"] for r in variants} == {
        r["variant"]: r["p_adjusted"] for r in before["rows"]
    }


def test_a_comment_is_no_parameter_and_a_column_is_there_once(minilong):
    values = "select model_id, count(*) as value from metric_values group by all"
    assert correlated("--sql", f"{values} -- of $problem", "--name", "mine")["rows"]
    twice = "select model_id, 1 as value, 2 as value from metric_values group by all"
    refused = run(cli.correlate, "--sql", twice, "--name", "other")
    assert refused.exit_code == 1 and "value" in refused.stderr


def test_ideas_are_counted_for_ever_and_once(minilong):
    before = correlated("--metric", "noise")
    shuffle = """
        select model_id, hash(model_id || number) % 1000 as value, number as variant
        from metric_values, range(6) numbers(number)
        group by all
    """
    correlated("--sql", shuffle, "--metric", "perplexity")
    correlated("--sql", shuffle, "--metric", "perplexity", "--name", "again")
    after = correlated("--metric", "noise")
    assert {row["metric"] for row in after["rows"]} == {"noise"}
    assert after["tested"] == {
        "all": 14,
        "with_p": 14,
        "variants_of_this_build": 8,
        "variants_of_earlier_builds": 0,
        "ideas": 6,
    }
    least = "least_spearman_that_excludes_0"
    assert after[least] > before[least] + 0.01
    assert selected()["tested"] == after["tested"]


@pytest.mark.parametrize("name", ["correlate", "select", "json"])
def test_a_command_that_fails_counts_nothing_and_one_that_was_shown_once(
    minilong, monkeypatch, name
):
    """In the record: nothing before results are computed, everything before they are printed."""
    workspace = find_workspace()
    command = {"select": cli.select}.get(name, cli.correlate)
    options = ("--json",) if name == "json" else ()
    if command is cli.correlate:
        options = ("--sql", OF_PERPLEXITY, "--better", "lower", *options)
    counted = 8 + (command is cli.correlate)

    def interrupted(*_args, **_kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("analysis.ranking.results.rank_metrics", interrupted)
        assert run(command, *options).exit_code != 0
    assert recorded_metrics(workspace, "minilong") == []
    with monkeypatch.context() as patch:
        patch.setattr("analysis.ranking.view.print_ranking", interrupted)
        patch.setattr("warehouse.progress.SECONDS_BEFORE_SHOWN", math.inf)  # it echoes, too
        patch.setattr(f"{cli.__name__}.click.echo", interrupted)
        assert run(command, *options).exit_code != 0
    assert len(recorded_metrics(workspace, "minilong")) == counted
    assert run(command, *options).exit_code == 0
    assert len(recorded_metrics(workspace, "minilong")) == correlated()["tested"]["all"] == counted


def test_narrowing_what_is_shown_changes_no_number(minilong):
    whole = {
        row["variant"]: row for row in correlated("--metric", "noise", "--metric", "good")["rows"]
    }
    narrow = correlated("--metric", "good")
    assert [row["variant"] for row in narrow["rows"]] == ["a"]
    assert narrow["rows"][0] == whole["a"]
    everything, of_noise = selected(), selected("--metric", "noise")
    assert {c["metric"] for c in of_noise.pop("rows")} == {"noise"}
    candidates = everything.pop("rows")
    assert of_noise == everything
    assert everything["tracks_target"] == ["longppl/evaluator", "good/a"]
    p = {(row["metric"], row["variant"]): row["p_adjusted"] for row in correlated()["rows"]}
    for one in candidates:
        assert one["p_adjusted"] == p[one["metric"], one["variant"]]


def test_leaving_variants_out_of_the_build_does_not_help_those_that_stay(minilong):
    before = selected()
    with minilong.write() as connection:
        connection.execute("delete from metric_values where variant in ('v0', 'v1', 'v2')")
    after = selected()
    assert after["tested"]["variants_of_earlier_builds"] == 3
    assert after["tested"]["all"] == before["tested"]["all"]
    for name in ("tracks_target", "critical", "choice", "best"):
        assert after[name] == before[name]
    assert len(after["rows"]) == len(before["rows"]) - 3


def failed(*arguments: object) -> tuple[str, str]:
    """Code and place of the error of a command that prints nothing and records nothing."""
    result = CliRunner().invoke(
        cli.correlate, ["--problem", "minilong", *map(str, arguments)], standalone_mode=False
    )
    assert isinstance(result.exception, TokenmartError), result.output
    assert result.stdout == ""
    assert not (find_workspace().data / "tested").exists()
    return result.exception.code, result.exception.where


@pytest.mark.parametrize(
    ("sql", "code", "where"),
    [
        ("select model_id from metric_values limit 0", "too-few-values", "--sql"),
        ("select model_id, 1 as value, 2 as x from metric_values", "extra-forbidden",
         "--sql: row 1: x"),
        ("select 'x' as model, 1 as value", "missing", "--sql: row 1: model_id"),
        ("select unnest(['smollm2-135m', 'smollm2-135m']) as model_id, 1 as value", "second-value",
         "--sql: row 2"),
        ("select 'smollm2-135' as model_id, 1 as value", "unknown-model", "--sql: row 1"),
        ("select 'smollm2-135m' as model_id, 'x' as value", "float-parsing", "--sql: row 1: value"),
        ("select 'smollm2-135m' as model_id, true as value", "value-error", "--sql: row 1: value"),
        ("select 'smollm2-135m' as model_id, null::double as value", "too-few-values", "--sql"),
        ("select 'smollm2-135m' as model_id, 'inf'::double as value", "finite-number",
         "--sql: row 1: value"),
        ("select 'smollm2-135m' as model_id, 'nan'::double as value", "finite-number",
         "--sql: row 1: value"),
        ("select 'smollm2-135m' as model_id, 1e308::double * 9 as value", "finite-number",
         "--sql: row 1: value"),
    ],
)  # fmt: skip
def test_a_mistake_in_an_idea(minilong, sql, code, where):
    assert failed("--sql", sql) == (code, where)


@pytest.mark.parametrize(
    "sql",
    [
        "select model_id, avg(score) as value from Downstream_scores group by 1",
        "create table x as select 1; drop table metric_values",
        "selct 1",
    ],
)
def test_sql_that_is_refused(minilong, sql):
    assert failed("--sql", sql)


def test_numbers_made_elsewhere_come_from_a_file(minilong, tmp_path):
    full_ids = minilong.full_ids("minilong")
    path = tmp_path / "numbers.csv"
    lines = [f"{full_id},up,{place}" for place, full_id in enumerate(full_ids.values())]
    lines += [f"{model_id},down,{-place}" for place, model_id in enumerate(full_ids)][:-2]
    path.write_text("model_id,variant,value\n" + "\n".join(lines) + f"\n{[*full_ids][-1]},down,\n")
    up, down = sorted(correlated("--values", path)["rows"][:2], key=lambda row: -row["n"])
    assert (up["variant"], up["kind"], up["n"]) == ("up", "values", 23)
    assert (down["variant"], down["n"]) == ("down", 21)
    left_out = [*full_ids.values()][-2:]
    assert down["models_without_value"] == left_out and up["models_without_value"] == []
    assert run(cli.correlate, "--values", path, "--sql", "select 1").exit_code == 2
