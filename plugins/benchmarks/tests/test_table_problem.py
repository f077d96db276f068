"""Problems of kind `table`: from a plain table to what `correlate` ranks."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from plugins.benchmarks.e2lm.scores import open_problem
from plugins.benchmarks.e2lm.scoring_methods import compare_scoring_methods
from plugins.benchmarks.model_sql import ModelSql
from plugins.benchmarks.page.signal_page import gather_page
from plugins.benchmarks.scores.score_store import read_table, store_scores
from plugins.benchmarks.scores.table_problem import TableProblem, find_table
from tokenmart import cli
from warehouse.errors import OtherKindError, ProblemFileError, TokenmartError
from warehouse.files import sha256_file
from warehouse.paths import Workspace, find_workspace
from warehouse.problem.spec import load_problem, load_ranked
from warehouse.sql.connection import connect_to_parquet
from warehouse.sql.dataframes import query
from warehouse.sql.views import connect_to_targets

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
BY_SHARE = PROBLEM.replace("{sizes: [small]}", "{shares: [0.5]}").replace(", size: large", "")
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


def renamed(old: str, new: str, rows: list[str] = ROWS) -> list[str]:
    """The rows with another name for a recipe and its runs."""
    return [row.replace(f"{old}-", f"{new}-").replace(f",{old},", f",{new},") for row in rows]


def targets(workspace: Workspace) -> dict[str, list[tuple[str, float]]]:
    files = sorted((workspace.store / "downstream").glob("problem=runs/model_id=*/items.parquet"))
    return {
        path.parent.name.partition("=")[2]: [
            (row["task"], row["score"])
            for row in pq.read_table(path, partitioning=None).to_pylist()
        ]
        for path in files
    }


def test_a_table_is_imported_with_its_target(workspace):
    alone = "w-large,large,w,4,q,acc,0.9"  # a recipe without a small run
    name = write(workspace, rows=[*ROWS, alone, alone.replace(",q,", ",r,")])
    with pytest.raises(TokenmartError) as caught:
        load_ranked(name, workspace)
    assert (caught.value.code, caught.value.where) == ("not-fetched", "runs")
    assert not targets(workspace)
    done = CliRunner().invoke(cli, ["data", "fetch", "--problem", name])
    assert done.exit_code == 0, done.output
    assert targets(workspace) == {
        recipe: [("q", score), ("r", score)]
        for recipe, score in (("w", 0.9), ("x", 0.14), ("y", 0.24), ("z", 0.34))
    }
    ranked = load_ranked(name, workspace)
    assert [model.full_id for model in ranked.ranked_models] == ["x", "y", "z"]


@pytest.mark.parametrize("ranks_models", [False, True])
def test_directions_taken_from_names_are_noted(workspace, ranks_models):
    text, rows = PROBLEM, [*ROWS, *(f"{r}-large,large,{r},4,q,bpb,0.5" for r in "xyz")]
    if ranks_models:
        text = PROBLEM.replace("{sizes: [small]}", "{metrics: [bpb]}").replace(", size: large", "")
        text = text.replace("early: {until_share: 0.5, checkpoints: 2}\n", "")
        rows = [row for row in rows if "small" not in row and ",2," not in row]
    stated = [f"{row},{'higher' if ',acc,' in row else 'lower'}" for row in rows[1:]]
    half = [row.removesuffix("higher") for row in stated]
    for given, named in (
        (rows, ["acc", "bpb"]),
        ([f"{rows[0]},direction", *half], ["acc"]),
        ([f"{rows[0]},direction", *stated], []),
    ):
        brought = read_table(find_own(write(workspace, text, given), workspace), workspace)
        # few tokens are noted too
        assert [note.partition(":")[0] for note in brought.notes] == [
            *named,
            *["tokens"] * (not ranks_models),
        ]
        directions = dict(brought.scores.select(["metric", "direction"]).to_pylist()[0].items())
        assert directions["direction"] == ("lower" if directions["metric"] == "bpb" else "higher")


def test_runs_are_ranked_where_shares_predict(workspace):
    problem = find_own(write(workspace, BY_SHARE), workspace)
    store_scores(read_table(problem, workspace), workspace, problem)
    models = load_ranked("runs", workspace).ranked_models
    assert len(models) == 6 and {model.family for model in models} == {"x", "y", "z"}


@pytest.mark.parametrize(
    ("predict", "target", "earlier"),
    [
        ("{sizes: [small]}", "{kind: table, metric: acc, size: large}", {0.11, 0.21, 0.31}),
        ("{shares: [0.5]}", "{kind: table, metric: acc}", {0.12, 0.22, 0.32}),
        ("{shares: [0.4]}", "{kind: table, metric: acc}", set()),
    ],
)
def test_scores_later_than_those_that_predict_are_not_in_any_table(
    workspace, predict, target, earlier
):
    text = PROBLEM.replace("{sizes: [small]}", predict)
    text = text.replace("{kind: table, metric: acc, size: large}", target)
    problem = find_table(write(workspace, text), workspace)
    assert problem is not None
    store_scores(read_table(problem, workspace), workspace, problem)
    rows = query("select score from benchmark_scores").to_pylist()
    assert len(rows) == len(ROWS) - 1
    assert {row["score"] for row in rows} - {None} == earlier


def test_a_metric_has_one_direction_in_all_tables(workspace):
    """The catalogue has no problem: the sign of one of the two would be wrong."""
    rows = [*over_training(), "m0,1,q,tastiness,0.5", "m0,8,q,tastiness,0.5"]
    header = rows[0] + ",direction"
    for name, direction, fits in (("runs", "lower", True), ("others", "higher", False)):
        own = [f"{row},{direction if 'tastiness' in row else 'higher'}" for row in rows[1:]]
        problem = find_own(write(workspace, RUNS, [header, *own]), workspace)
        problem = problem.model_copy(update={"name": name})
        if fits:
            store_scores(read_table(problem, workspace), workspace, problem)
            continue
        with pytest.raises(TokenmartError) as caught:
            store_scores(read_table(problem, workspace), workspace, problem)
        assert (caught.value.code, caught.value.where) == ("other-direction", "tastiness")
        assert not (workspace.store / "benchmark_scores" / f"problem={name}").exists()


def test_a_narrower_target_leaves_nothing_of_the_earlier_one(workspace):
    for text, left in (
        (PROBLEM, 3),
        (PROBLEM.replace("acc, size", "acc, benchmarks: [s], size"), 1),
    ):
        extra = [*ROWS, "z-large,large,z,4,s,acc,0.9"]
        problem = find_own(write(workspace, text, ROWS if left == 3 else extra), workspace)
        store_scores(read_table(problem, workspace), workspace, problem)
        assert len(targets(workspace)) == left


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("licence: CC0}", f"sha256: {'a' * 64}}}", "other-sha256"),
        ("runs.csv", "none.csv", "no-file"),
        ("[small]", "[smal]", "no-size"),
        ("metric: acc", "metric: f1", "no-target"),
        ("acc, size", "acc, benchmarks: [s], size", "no-target"),
        ("{sizes: [small]}", "{shares: [0.5]}", "value-error"),
        ("{sizes: [small]}", "{shares: [1.5]}", "value-error"),
        ("{sizes: [small]}", "{sizes: [large]}", "value-error"),
        ("{sizes: [small]}", "{}", "value-error"),
        ("until_share: 0.5, ", "", "value-error"),
    ],
)
def test_mistakes(workspace, old, new, code):
    name = write(workspace, PROBLEM.replace(old, new, 1))
    assert refused(workspace, name) == code


def refused(workspace: Workspace, name: str) -> str:
    """Code of the error of a problem."""
    with pytest.raises(TokenmartError) as caught:
        read_table(find_own(name, workspace), workspace)
    return caught.value.code


@pytest.mark.parametrize("ranked", ["recipes", "runs"])
@pytest.mark.parametrize("name", ["lr=1e-4", "a%20b", "a?", "a\\b"])
def test_a_name_that_cant_be_a_folder_is_refused(workspace, name, ranked):
    text = PROBLEM if ranked == "recipes" else BY_SHARE
    assert refused(workspace, write(workspace, text, renamed("y", name))) == "no-folder"
    # no folder is made of a name that isn't ranked
    problem = find_own(write(workspace, rows=[*ROWS, f"{name},small,,1,q,acc,0.5"]), workspace)
    assert read_table(problem, workspace).target.keys() == {"x", "y", "z"}


def test_a_size_that_is_a_number_is_a_size(workspace):
    """`70` was read as 7,000% of training, with the final score of the large run itself."""
    text = PROBLEM.replace("[small]", '["70"]').replace("size: large", 'size: "700"')
    rows = [row.replace("small", "70").replace("large", "700") for row in ROWS]
    problem = find_own(write(workspace, text, rows), workspace)
    with open_problem("runs", read_table(problem, workspace)) as database:
        early = ModelSql(database, SHIPPED).build("early_scores")
        query = f"select variant, model_id, value from {early} where metric = 'acc' order by all"
        found = database.execute(query).fetchall()
    scores = (("x", 0.11), ("y", 0.21), ("z", 0.31))
    assert found == [(f"{b}@70", recipe, score) for b in "qr" for recipe, score in scores]


def test_a_benchmark_that_stops_early_has_no_final_score(workspace):
    """Compared with itself, its last score decides every pair."""
    rows = [row for row in ROWS if "-small" not in row and ",4,r," not in row]
    rows += [row.replace(",2,", ",3,") for row in rows if ",2,r," in row]
    text = BY_SHARE.replace("{until_share: 0.5, checkpoints: 2}", "{until_share: 0.5}")
    problem = find_own(write(workspace, text, rows), workspace)
    brought = read_table(problem, workspace)
    tasks = {name: table["task"].to_pylist() for name, table in brought.target.items()}
    assert set(map(tuple, tasks.values())) == {("q",)}
    with open_problem("runs", brought) as database:
        signal = ModelSql(database, SHIPPED).build("benchmark_signal")
        decided = database.execute(
            f"select benchmark, value is null, reason from {signal}"
            " where statistic = 'decision_accuracy' order by all"
        ).fetchall()
        stages = database.execute(
            "select distinct benchmark from int_benchmark_decisions where later_stage = 'final'"
        ).fetchall()
    assert stages == [("q",)]
    assert [row[:2] for row in decided] == [("q", False), ("r", True)]
    text = text.replace("metric: acc", "metric: acc, benchmarks: [r]")
    assert refused(workspace, write(workspace, text, rows)) == "no-target"


def test_an_early_window_up_to_the_end_decides_nothing(workspace):
    """Sizes of one pair of recipes don't take its place; stages keep their decisions."""
    text = BY_SHARE.replace("{until_share: 0.5, checkpoints: 2}", "{until_share: 1.0}")
    problem = find_own(write(workspace, text), workspace)
    with open_problem("runs", read_table(problem, workspace)) as database:
        signal = ModelSql(database, SHIPPED).build("benchmark_signal")
        found = {
            name: (value, reason)
            for name, value, reason in database.execute(
                f"select statistic, value, reason from {signal} where benchmark = 'q'"
            ).fetchall()
        }
        stages = database.execute(
            "select stage, later_stage, agreement, pairs from int_benchmark_decisions"
            " where benchmark = 'q' and stage in ('50%', 'small') order by stage"
        ).fetchall()
    assert found["decision_accuracy"][0] is found["decision_pairs"][0] is None
    assert found["decision_accuracy"][1] == "no_later_checkpoints"
    # three runs of several checkpoints that end later; three recipes at both sizes
    assert stages == [("50%", "final", 1.0, 3), ("small", "large", 1.0, 3)]


PLANNED = "parameters_x_tokens"
RUNS = BY_SHARE.replace("0.5]", "0.15]")


def over_training(first: int = 1) -> list[str]:
    """Four runs with checkpoints at 1 (or later) to 8 billion tokens."""
    return ["model,tokens_bt,benchmark,metric,score"] + [
        f"m{run},{tokens},q,acc,{0.1 * run + 0.05 * tokens:.2f}"
        for run in range(4)
        for tokens in range(first, 9)
    ]


def test_runs_without_size_have_a_line_each(workspace):
    data = gather_page(write(workspace, RUNS, over_training()), None, None, workspace)
    assert data.runs == ["m0", "m1", "m2", "m3"]


def noted(workspace: Workspace, rows: list[str]) -> list[str]:
    """Notes on a table, without the one on the direction; `data fetch` prints and records them."""
    name = write(workspace, RUNS, rows)
    notes = read_table(find_own(name, workspace), workspace).notes
    done = CliRunner().invoke(cli, ["data", "fetch", "--problem", name])
    assert done.exit_code == 0 and all(f"note: {note}" in done.stderr for note in notes)
    with connect_to_parquet(workspace) as connection:
        recorded = connection.execute("select notes from benchmark_tables").fetchall()
    assert recorded == [("\n".join(notes),)] and notes[0].startswith("acc: higher")
    return list(notes[1:])


def test_a_run_that_ends_early_is_noted(workspace):
    """Of one benchmark or of all."""
    assert noted(workspace, over_training()) == []
    rows = [row for row in over_training() if not row.startswith("m2,8,")]
    for extra in ([], ["m2,8,r,acc,0.5"]):
        (note,) = noted(workspace, [*rows, *extra])
        assert note.startswith("m2: ") and "7 billion" in note and "8 billion" in note


def test_fractions_beside_percent_are_noted(workspace):
    header, *rows = over_training(first=3)
    percent = [f"{row.rpartition(',')[0]},{100 * float(row.rpartition(',')[2]):g}" for row in rows]
    assert noted(workspace, [header, *percent]) == []
    pairs = list(zip(rows, percent, strict=True))
    one_run = [row if row.startswith("m1,") else new for row, new in pairs]
    half_way = [new if re.match("m3,[5-8]", row) else row for row, new in pairs]
    for changed, run in ((one_run, "m1"), (half_way, "m3")):
        (note,) = noted(workspace, [header, *changed])
        assert note.startswith("q, acc: ") and f" {run} " in note


def compared(workspace: Workspace, rows: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The stage of scoring-methods, and its first scoring method."""
    write(workspace, RUNS, rows)
    (stage,) = compare_scoring_methods("runs", workspace, 100)["stages"]
    return stage, stage["scoring_methods"][0]


def test_an_interval_needs_six_runs_and_two_orders(workspace):
    """Resamples of decisions that are all right are all equal."""
    without = [row for row in over_training() if not row.startswith("m1,1,")]
    five = [*over_training(), "m4,1,q,acc,0.0", "m4,8,q,acc,0.99"]
    six = [*five, "m5,1,q,acc,0.05", "m5,8,q,acc,1.0"]
    right = [*over_training(), "m4,1,q,acc,0.95", "m4,8,q,acc,0.99"]
    right += ["m5,1,q,acc,0.97", "m5,8,q,acc,1.0"]
    for rows, pairs, intervals in (
        (without, 3, (False, False)),  # a run without an early checkpoint has no decision
        (five, 10, (False, False)),
        (six, 15, (True, True)),
        (right, 15, (False, True)),
    ):
        stage, row = compared(workspace, rows)
        assert stage["pairs"] == pairs
        found = tuple(row[name] is not None for name in ("interval", "minus_target_interval"))
        assert found == intervals


def test_a_stage_without_the_target_s_scoring_method_has_no_difference(workspace):
    """bpb on three benchmarks, acc on one of them: no difference from acc, and no traceback."""
    lines = ["model,tokens_bt,benchmark,metric,score"]
    for run in range(6):
        for tokens in range(1, 9):
            value = 1 / (tokens + run)
            lines += [f"m{run},{tokens},{task},bpb,{value}" for task in "qrs"]
        lines += [f"m{run},{at},{task},acc,{0.1 * run}" for task in "qrs" for at in (7, 8)]
        lines += [f"m{run},1,q,acc,{0.05 * run}"]
    stage, row = compared(workspace, lines)
    assert (row["scoring_method"], row["minus_target"]) == ("bpb", None)
    assert stage["held_out"]["target_scoring_method"] is None
    words = ["e2lm", "scoring-methods", "--problem", "runs"]
    assert CliRunner().invoke(cli, words).exit_code == 0


def test_what_no_pair_has_is_null(workspace):
    """The runs of the one family have no parameters; acc is on another benchmark than bpb."""
    lines = ["model,family,parameters,tokens_bt,benchmark,metric,score"]
    for run in range(6):
        about = f"m{run},{'f,' if run < 2 else f'm{run},{run}'}"
        for task in "qrs":
            lines += [f"{about},{at},{task},bpb,{run % 4}" for at in (1, 8)]
            lines += [f"{about},{at},{task},acc,{run}" for at in (7, 8)]
        lines += [f"{about},{at},t,acc,{run}" for at in (1, 8)]
    stage, _ = compared(workspace, lines)
    assert [row["scoring_method"] for row in stage["scoring_methods"]] == ["bpb"]
    early = [line.replace(",7,q,acc,", ",1,q,acc,") for line in lines if ",7,q,acc," in line]
    stage, _ = compared(workspace, [line for line in [*lines, *early] if ",t," not in line])
    within = {row["scoring_method"]: row["within_families"] for row in stage["scoring_methods"]}
    assert stage["pairs_within_families"] == 1
    assert within["parameters"] is None and within["bpb"] is not None


def test_runs_with_steps_only_have_no_planned_tokens(workspace):
    """Steps of different batch sizes: parameters × steps would put the runs in the wrong order."""
    for column, metrics in (("step", {"parameters"}), ("tokens", {"parameters", PLANNED})):
        rows = [f"model,{column},benchmark,metric,score,parameters"]
        rows += [
            f"m{run},{at},q,acc,{0.1 * run + 0.01 * at},{run + 1}"
            for run in range(4)
            for at in range(1, 9)
        ]
        problem = find_own(write(workspace, RUNS, rows), workspace)
        with open_problem("runs", read_table(problem, workspace)) as database:
            planned = ModelSql(database, SHIPPED).build("int_planned_compute")
            found = database.execute(f"select distinct metric from {planned}").fetchall()
        assert {metric for (metric,) in found} == metrics


def test_a_stage_before_the_first_checkpoint_is_named(workspace):
    write(workspace, RUNS, over_training(first=2))
    with pytest.raises(TokenmartError) as caught:
        compare_scoring_methods("runs", workspace, 100)
    assert (caught.value.code, caught.value.where) == ("too-few-runs", "15%")


def test_other_names_are_read_back_as_they_are(workspace):
    names = {"x": "org/OLMo 2 (7B)", "y": "µ[1]*", "z": "it's 100 #1: ~"}
    rows = ROWS
    for old, new in names.items():
        rows = renamed(old, new, rows)
    problem = find_own(write(workspace, rows=rows), workspace)
    store_scores(read_table(problem, workspace), workspace, problem)
    with connect_to_targets(workspace) as connection:
        found = connection.execute("select distinct model_id from downstream").fetchall()
    assert {name for (name,) in found} == {each.replace("/", "--") for each in names.values()}


def test_a_target_of_which_lower_is_better_is_refused(workspace):
    rows = [f"{row},{'lower' if at else 'direction'}" for at, row in enumerate(ROWS)]
    assert refused(workspace, write(workspace, PROBLEM, rows)) == "lower-target"


def test_commands_about_models_refuse_a_table(workspace):
    name = write(workspace)
    with pytest.raises(OtherKindError):
        load_problem(name, workspace)
    assert CliRunner().invoke(cli, ["extract", "--problem", name, "--dry-run"]).exit_code == 1
    with pytest.raises(ProblemFileError):
        load_ranked("rums", workspace)


@pytest.mark.parametrize("name", ["ladder", "pythia", "dclm", "models90", "scaling148"])
def test_the_shipped_tables_are_what_their_record_says(name):
    problem = find_table(name, SHIPPED)
    assert problem is not None
    path = SHIPPED.root / problem.table.path
    record = json.loads((path.parent / "sources.json").read_text("utf-8"))[path.stem]
    assert sha256_file(path) == record["sha256"] == problem.table.sha256
    assert pq.read_metadata(path).num_rows == record["rows"]
    assert path.stat().st_size == record["bytes"] < 3_000_000
    assert problem.table.licence == record["licence"]
    assert record["commit"][:7] in str(problem.table.source)


def test_the_table_of_a_problem_elsewhere_is_in_its_folder_and_selected_by_path(
    workspace, monkeypatch
):
    folder = workspace.root / "my tables"
    folder.mkdir()
    monkeypatch.chdir(workspace.root)
    (folder / "mine.yml").write_text(PROBLEM.replace("name: runs", "name: mine"))
    assert refused(workspace, "my tables/mine.yml") == "no-file"
    (folder / "runs.csv").write_text("\n".join(ROWS))
    with pytest.raises(TokenmartError) as caught:
        load_ranked("my tables/mine.yml", workspace)
    assert (caught.value.code, caught.value.where) == ("not-fetched", "'my tables/mine.yml'")
    done = CliRunner().invoke(cli, ["data", "fetch", "--problem", "my tables/mine.yml"])
    assert done.exit_code == 0, done.output
    assert len(load_ranked("my tables/mine.yml", workspace).ranked_models) == 3


def find_own(name: str, workspace: Workspace) -> TableProblem:
    found = find_table(name, workspace)
    assert found is not None
    return found
