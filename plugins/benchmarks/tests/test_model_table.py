"""Problems of kind `table` whose rows are models: from the plain table to `select`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from plugins.benchmarks.e2lm.scoring_methods import compare_scoring_methods
from plugins.benchmarks.schema import MODEL_SCORES
from plugins.benchmarks.scores.score_store import read_table, store_scores
from plugins.benchmarks.scores.score_table import read_model_scores
from plugins.benchmarks.scores.table_problem import find_table
from tests.helpers.dbt_harness import Warehouse
from tokenmart import cli
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.problem.spec import load_ranked

PROBLEM = """
kind: table
name: papers
title: Which document predicts q?
table: {path: papers.csv, licence: CC0}
predict: {metrics: [bits_per_byte], each_document: true}
baseline: bits_per_byte/web
target: {kind: table, metric: acc, benchmarks: [q]}
"""
HEADER = "model,family,parameters,benchmark,metric,document,direction,score"
MODELS = 10


def rows() -> list[str]:
    """Document `good` has the order of the target, `bad` the opposite one, `weak` most of it."""
    found = [HEADER]
    for at in range(MODELS):
        model = f"lab{at % 4}/m{at},lab{at % 4},{1000 + at}"
        for name, bits in (("good", 2 - at / 10), ("bad", 1 + at / 8), ("weak", 2 - at // 2 / 9)):
            found.append(f"{model},web,bits_per_byte,{name},lower,{bits:.6f}")
        found.append(f"{model},q,acc,,higher,{at / 20:.6f}")
        found.append(f"{model},r,acc,,higher,{1 - at / 20:.6f}")
    return found


def write(workspace: Workspace, problem: str = PROBLEM, lines: list[str] | None = None) -> str:
    (workspace.root / "papers.csv").write_text("\n".join(lines or rows()))
    (workspace.problems / "papers.yml").write_text(problem)
    return "papers"


def brought(workspace: Workspace, problem: str = PROBLEM, lines: list[str] | None = None) -> None:
    found = find_table(write(workspace, problem, lines), workspace)
    assert found is not None
    store_scores(read_table(found, workspace), workspace, found)


def test_models_are_read_and_what_is_predicted_is_no_metric(workspace):
    name = write(workspace)
    done = CliRunner().invoke(cli, ["data", "fetch", "--problem", name])
    assert done.exit_code == 0, done.output
    ranked = load_ranked(name, workspace)
    assert ranked.baseline == "bits_per_byte/web"
    assert {(model.family, model.parameters) for model in ranked.ranked_models} == {
        (f"lab{at % 4}", 1000 + at) for at in range(MODELS)
    }
    # all scores of a metric that is predicted from, less those of the target
    text = PROBLEM.replace("[bits_per_byte], each_document: true", "[acc]")
    found = find_table(write(workspace, text), workspace)
    assert found is not None
    table = read_table(found, workspace).scores
    assert set(table["benchmark"].to_pylist()) == {"r"} and len(table) == MODELS


def test_a_problem_that_no_longer_ranks_runs_leaves_none_of_their_scores(workspace):
    shares = PROBLEM.replace("{metrics: [bits_per_byte], each_document: true}", "{shares: [0.5]}")
    plain = [row.replace(",document", "").replace(",,", ",") for row in rows() if "web" not in row]
    shares = shares.replace("baseline: bits_per_byte/web\n", "")
    for problem, lines in ((shares, plain), (PROBLEM, None)):
        brought(workspace, problem, lines)
        files = [path.parents[1].name for path in workspace.data.rglob("scores.parquet")]
        assert files == ["benchmark_scores" if lines else "model_scores"]


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("[bits_per_byte]", "[bits_per_bite]", "no-metric"),
        ("[bits_per_byte]", "[bits_per_byte], shares: [0.5]", "value-error"),
        ("metrics: [bits_per_byte], ", "shares: [0.5], ", "value-error"),
        ("baseline", "early: {until_share: 0.5}\nbaseline", "value-error"),
        ("acc, benchmarks: [q]", "bits_per_byte", "no-predictor"),
        ("acc, benchmarks: [q]", "acc, benchmarks: [s]", "no-target"),
    ],
)
def test_mistakes_in_the_problem(workspace, old, new, code):
    assert old in PROBLEM
    with pytest.raises(TokenmartError) as caught:
        brought(workspace, PROBLEM.replace(old, new))
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("lab0/m0,lab0,1000,web,bits_per_byte,good,lower,1", "repeated"),
        ("lab0/m0,lab0,1000,q,acc,,higher,1", "repeated"),
        ("lab0/m0,lab0,1000,q,acc,x,higher,1", "contradiction"),
        ("lab0/m0,lab1,1000,s,acc,,higher,1", "contradiction"),
        ("lab0/m0,lab0,1000,s,acc,,lower,1", "contradiction"),
    ],
)
def test_mistakes_in_the_table(workspace, line, code):
    with pytest.raises(TokenmartError) as caught:
        brought(workspace, lines=[*rows(), line])
    assert caught.value.code == code
    assert caught.value.where == f"{workspace.root / 'papers.csv'}: row {len(rows())}"


def test_a_metric_with_the_name_of_a_family_of_ours_is_refused(workspace):
    root = Path(__file__).parents[3]
    (workspace.dbt_project / "models").symlink_to(root / "dbt_project" / "models")
    lines = [row.replace("bits_per_byte", "perplexity") for row in rows()]
    with pytest.raises(TokenmartError) as caught:
        brought(workspace, PROBLEM.replace("[bits_per_byte]", "[perplexity]"), lines)
    assert caught.value.code == "own-metric"


def test_commands_about_training_refuse_models(workspace):
    write(workspace)
    with pytest.raises(TokenmartError) as caught:
        compare_scoring_methods("papers", workspace, 10)
    assert caught.value.code == "other-problem"


def test_columns_of_the_store(workspace):
    write(workspace)
    assert read_model_scores(workspace.root / "papers.csv").schema.equals(MODEL_SCORES)


@pytest.mark.slow
def test_documents_are_metrics_and_parts_of_the_mean(tmp_path):
    """From the plain table through dbt to `select`, in a warehouse without tokens."""
    (tmp_path / "papers.csv").write_text("\n".join(rows()))
    (tmp_path / "papers.yml").write_text(PROBLEM)
    name = str(tmp_path / "papers.yml")
    warehouse = Warehouse(tmp_path / "data", tmp_path / "tokenmart.duckdb")
    warehouse.data.mkdir()
    with warehouse.as_workspace():
        done = CliRunner().invoke(cli, ["data", "fetch", "--problem", name])
        assert done.exit_code == 0, done.output
        warehouse.run("--select", "fqn:*")
        selected = CliRunner().invoke(cli, ["select", "--problem", name, "--json"])
        ranked = CliRunner().invoke(cli, ["correlate", "--problem", name, "--json"])
        words = ["report", "--problem", name, "--out"]
        reported = CliRunner().invoke(cli, [*words, str(tmp_path / "report.html")])
        # a build of the core leaves the scores of the earlier table
        (tmp_path / "papers.csv").write_text("\n".join(rows()).replace("2.000000", "2.500000"))
        CliRunner().invoke(cli, ["data", "fetch", "--problem", name])
        warehouse.run("--select", "metric_values")
        stale = CliRunner().invoke(cli, ["select", "--problem", name, "--json"])
    values = warehouse.rows(
        "select variant, model_id, value, documents from metric_values where value is not null"
    )
    parts = warehouse.rows("select variant, count(*) from metric_parts group by all")
    found = {(variant, model): (value, documents) for variant, model, value, documents in values}
    assert len(found) == 4 * MODELS
    assert found["web", "lab3--m3"] == (round((1.7 + 1.375 + 1.888889) / 3, 9), 3)
    assert found["web/good", "lab3--m3"] == (1.7, 1)
    assert set(parts) == {
        ("web", 3 * MODELS), *((f"web/{name}", MODELS) for name in ("good", "bad", "weak"))
    }  # fmt: skip
    assert selected.exit_code == ranked.exit_code == 0, selected.output + ranked.output
    assert reported.exit_code == 0, reported.output
    assert [json.loads(each.stdout)["outdated"] for each in (selected, stale)] == [False, True]
    record = json.loads(selected.stdout)
    assert (record["best"], record["tested"]["with_p"]) == ("bits_per_byte/web/good", 4)
    assert record["baseline"] == "bits_per_byte/web" and record["groups"]["families"] == 4
    rows_of = {row["variant"]: row for row in json.loads(ranked.stdout)["rows"]}
    rho = {name: row["spearman"] for name, row in rows_of.items()}
    assert (rho["web/good"], rho["web/bad"]) == (1.0, -1.0)
    assert rows_of["web"]["documents"] == 3
    assert "reliability_over_documents" in rows_of["web"]
    assert rows_of["web"]["spearman_ci95_new_documents"] is not None
    assert "documents" not in rows_of["web/good"]
