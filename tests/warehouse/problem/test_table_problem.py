"""Problems of kind `table`: from a plain table to what `correlate` ranks."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from tokenmart import cli
from warehouse.errors import ProblemFileError, TableProblemError, TokenmartError
from warehouse.files import sha256_file
from warehouse.importers import store_scores
from warehouse.paths import Workspace, find_workspace
from warehouse.problem.spec import load_problem
from warehouse.problem.table_problem import find_table, load_ranked, read_table

SHIPPED = find_workspace(Path(__file__))
PROBLEM = """
kind: table
name: runs
title: Two sizes of three recipes
table: {path: runs.csv, licence: CC0}
early: {until_share: 0.5, checkpoints: 2}
predict: {sizes: [small]}
target: {kind: table, metric: acc, size: large}
"""
ROWS = ["model,size,recipe,tokens,benchmark,metric,score"] + [
    f"{recipe}-{size},{size},{recipe},{tokens},{benchmark},acc,{score + tokens / 100:.2f}"
    for recipe, score in (("x", 0.1), ("y", 0.2), ("z", 0.3))
    for size, tokens in (("small", 1), ("large", 2), ("large", 4))
    for benchmark in ("q", "r")
]


def write(workspace: Workspace, problem: str = PROBLEM, rows: list[str] = ROWS) -> str:
    (workspace.root / "runs.csv").write_text("\n".join(rows))
    (workspace.problems / "runs.yml").write_text(problem)
    return "runs"


def targets(workspace: Workspace) -> dict[str, list[tuple[str, float]]]:
    files = sorted(workspace.downstream.glob("problem=runs/model_id=*/items.parquet"))
    return {
        path.parent.name.partition("=")[2]: [
            (row["task"], row["score"])
            for row in pq.read_table(path, partitioning=None).to_pylist()
        ]
        for path in files
    }


def test_a_table_is_brought_with_its_target(workspace: Workspace) -> None:
    name = write(workspace)
    with pytest.raises(TokenmartError, match="run `tokenmart data fetch --problem runs`"):
        load_ranked(name, workspace)
    done = CliRunner().invoke(cli, ["data", "fetch", "--problem", name])
    assert done.exit_code == 0, done.output
    assert "18 of 6 runs on 2 benchmarks (licence: CC0)" in done.output
    assert targets(workspace) == {
        recipe: [("q", score), ("r", score)]
        for recipe, score in (("x", 0.14), ("y", 0.24), ("z", 0.34))
    }
    ranked = load_ranked(name, workspace)
    assert [model.full_id for model in ranked.ranked_models] == ["x", "y", "z"]


def test_runs_are_ranked_where_shares_predict(workspace: Workspace) -> None:
    text = PROBLEM.replace("{sizes: [small]}", "{shares: [0.5]}").replace(", size: large", "")
    problem = find_table(write(workspace, text), workspace)
    assert problem is not None
    store_scores(read_table(problem, workspace), workspace, problem.name)
    models = load_ranked("runs", workspace).ranked_models
    assert len(models) == 6 and {model.family for model in models} == {"x", "y", "z"}


def test_a_narrower_target_leaves_nothing_of_the_earlier_one(workspace: Workspace) -> None:
    for text, left in (
        (PROBLEM, 3),
        (PROBLEM.replace("acc, size", "acc, benchmarks: [s], size"), 1),
    ):
        extra = [*ROWS, "z-large,large,z,4,s,acc,0.9"]
        problem = find_table(write(workspace, text, ROWS if left == 3 else extra), workspace)
        assert problem is not None
        store_scores(read_table(problem, workspace), workspace, problem.name)
        assert len(targets(workspace)) == left


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("licence: CC0}", f"sha256: {'a' * 64}}}", "problem runs expects aaaa"),
        ("runs.csv", "none.csv", "no such file; correct table.path of problem runs"),
        ("[small]", "[smal]", "no run of size 'smal', .*did you mean 'small'"),
        ("metric: acc", "metric: f1", r"no f1 of any benchmark to predict; .*file: acc\)"),
        ("acc, size", "acc, benchmarks: [s], size", "no acc of s to predict"),
        ("{sizes: [small]}", "{shares: [0.5]}", "target.size and predict.sizes go together"),
        ("{sizes: [small]}", "{shares: [1.5]}", "share 1.5 is not between 0 and 1"),
        ("{sizes: [small]}", "{sizes: [large]}", "size 'large' can't predict itself"),
        ("{sizes: [small]}", "{}", "give either shares"),
        ("until_share: 0.5, ", "", "checkpoints needs until_share"),
        ("title:", "titel:", "unknown key 'titel'; did you mean 'title'?"),
    ],
)
def test_mistakes(workspace: Workspace, old: str, new: str, message: str) -> None:
    name = write(workspace, PROBLEM.replace(old, new, 1))
    with pytest.raises(TokenmartError, match=message) as caught:
        problem = find_table(name, workspace)
        assert problem is not None
        read_table(problem, workspace)
    assert "\n" not in caught.value.format_message()


def test_a_target_of_which_lower_is_better_is_refused(workspace: Workspace) -> None:
    rows = [f"{row},{'lower' if at else 'direction'}" for at, row in enumerate(ROWS)]
    problem = find_table(write(workspace, PROBLEM, rows), workspace)
    assert problem is not None
    with pytest.raises(TokenmartError, match="lower acc is better"):
        read_table(problem, workspace)


def test_commands_about_models_say_what_it_is(workspace: Workspace) -> None:
    name = write(workspace)
    with pytest.raises(TableProblemError, match=r"a table of scores .*nothing to extract"):
        load_problem(name, workspace)
    done = CliRunner().invoke(cli, ["extract", "--problem", name, "--dry-run"])
    assert done.exit_code == 1 and "nothing to extract" in done.output
    with pytest.raises(ProblemFileError, match="no such problem file"):
        load_ranked("rums", workspace)


@pytest.mark.parametrize("name", ["ladder", "pythia", "dclm"])
def test_the_shipped_tables_are_what_their_record_says(name: str) -> None:
    problem = find_table(name, SHIPPED)
    assert problem is not None
    path = SHIPPED.root / problem.table.path
    record = json.loads((path.parent / "sources.json").read_text("utf-8"))[path.stem]
    assert sha256_file(path) == record["sha256"] == problem.table.sha256
    assert pq.read_metadata(path).num_rows == record["rows"]
    assert path.stat().st_size == record["bytes"] < 3_000_000
    assert problem.table.licence == record["licence"]
    assert record["commit"][:7] in str(problem.table.source)
