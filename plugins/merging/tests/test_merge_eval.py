"""Merge, evaluate in two rounds, build, rank, and make the winner again: the whole way, tiny."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dbt_harness import PROJECT, Warehouse
from merge_samples import local, write_made_up_tasks, write_problem
from tiny_models import make_checkpoint

from plugins.merging.evaluate import Round, store_columns
from plugins.merging.kit_files import write_kit_tasks
from plugins.merging.watchdog import Cost
from tokenmart import cli
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.sql.dataframes import query

pytest.importorskip("mergekit")
pytest.importorskip("lm_eval")
pytestmark = pytest.mark.slow

ITEMS = 12


def ok(*words: str) -> str:
    done = CliRunner().invoke(cli, list(words))
    assert done.exit_code == 0, done.output + repr(done.exception)
    return done.output


def merge_of(name: str, **weights: float) -> dict[str, Any]:
    models = [{"model": each, "parameters": {"weight": w}} for each, w in weights.items()]
    recipe = {"merge_method": "linear", "dtype": "float32", "models": models}
    return {"name": name, "recipe": recipe}


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    found = Warehouse(tmp_path / "data", tmp_path / "t.duckdb")
    found.data.mkdir()
    monkeypatch.setenv("TOKENMART_HOME", str(PROJECT.parent))
    monkeypatch.setenv("TOKENMART_DATA", str(found.data))
    monkeypatch.setenv("TOKENMART_DATABASE", str(found.database))
    return found


def problem_of(folder: Path, merges: list[dict[str, Any]], **sections: Any) -> str:
    """A problem of two tiny experts with one tokenizer."""
    for seed, name in enumerate(("one", "two")):
        if not (folder / name).exists():
            make_checkpoint(folder / name, seed=seed)
    shutil.copy(folder / "one" / "tokenizer.json", folder / "two")
    experts = [{"name": name, "source": local(folder / name)} for name in ("one", "two")]
    return str(write_problem(folder / "made.yml", experts=experts, merges=merges, **sections))


@pytest.mark.timeout(900)
def test_from_experts_to_a_ranking_and_back(tmp_path, warehouse):
    merges = [merge_of("one-alone", one=1), merge_of("half", one=1, two=1)]
    limits = {"seconds": 500, "memory_gb": 100, "disk_gb": 10}
    path = problem_of(tmp_path, merges, limits=limits)
    write_made_up_tasks(tmp_path / "open", "mini", ITEMS)
    prompts = write_made_up_tasks(tmp_path / "hidden", "mini_final", ITEMS)
    ok("merge", "run", "--problem", path)
    for round_, prefix, weight in (("open", "mini", "1"), ("hidden", "mini_final", "2")):
        tasks = f"{prefix}_reading,{prefix}_code"
        words = ["--tasks", tasks, "--include-path", str(tmp_path / round_), "--device", "cpu"]
        ok("merge", "eval", "--problem", path, "--round", round_, "--weight", weight, *words)
    warehouse.run("--select", "+tag:rankings", "--vars", '{"ranking_draws": 50}')
    tested = warehouse.dbt("test", "--select", "tag:rankings")
    assert tested.returncode == 0, tested.stdout
    shown = ok("rank", "show", "--problem", "made", "--json")
    found = json.loads(shown)
    assert {row["round"] for row in found["rankings"]} == {"open", "hidden", "overall"}
    assert {row["entry"] for row in found["rankings"]} == {"one-alone", "half"}
    assert all(row["resampled"] == "items" and row["draws"] == 50 for row in found["rankings"])
    # what a participant gets has no prompt, answer or result of a hidden item
    assert not any(json.dumps(prompt)[1:-1] in shown for prompt in prompts)
    costs = {(row["entry"], row["stage"], row["round"]): row for row in found["merge_costs"]}
    assert len(costs) == 2 * 3 and all(row["within_limits"] for row in costs.values())
    assert all(row["seconds"] > 0 and row["peak_bytes"] > 10**7 for row in costs.values())
    relative = json.loads(ok("rank", "show", "--problem", "made", "--relative", path, "--json"))
    half = relative["relative"]
    assert {(row["entry"], row["missing"][0], row["items"]) for row in half} == {
        ("half", "two", ITEMS)
    }
    assert {row["round"] for row in half} == {"open", "hidden"} and len(half) == 4
    fronts = [row for row in found["ranking_fronts"] if row["round"] == "overall"]
    assert any(row["on_time_front"] for row in fronts)

    bundle = tmp_path / "bundle"
    ok("merge", "bundle", "--problem", path, "--merge", "half", "--out", str(bundle))
    recorded = json.loads((bundle / "merge.json").read_text())
    assert recorded["scores"]["open"].keys() == {"mini_reading", "mini_code"}
    ok("merge", "reproduce", str(bundle), "--include-path", str(tmp_path / "open"))
    scores = recorded["scores"]["open"]["mini_reading"]
    recorded["scores"]["open"]["mini_reading"] = scores + 0.5
    (bundle / "merge.json").write_text(json.dumps(recorded))
    words = ["merge", "reproduce", str(bundle), "--include-path", str(tmp_path / "open")]
    assert CliRunner().invoke(cli, words).exit_code == 1
    recorded["record"]["weights_sha256"] = {"model.safetensors": "0" * 64}
    (bundle / "merge.json").write_text(json.dumps(recorded))
    assert CliRunner().invoke(cli, ["merge", "reproduce", str(bundle)]).exit_code == 1

    # another recipe of `half`, and `one-alone` is removed: scores of the old state are no one's
    path = problem_of(tmp_path, [merge_of("half", one=1, two=3)], limits=limits)
    ok("merge", "run", "--problem", path)
    warehouse.run("--select", "+tag:rankings", "--vars", '{"ranking_draws": 50}')
    found = json.loads(ok("rank", "show", "--problem", "made", "--json"))
    assert {row["entry"]: row["score"] for row in found["rankings"]} == {"half": None}
    assert {row["code"] for row in found["ranking_missing"]} == {"outdated"}
    assert [(row["entry"], row["stage"]) for row in found["merge_costs"]] == [("half", "merge")]
    ok("merge", "bundle", "--problem", path, "--merge", "half", "--out", str(tmp_path / "again"))
    assert json.loads((tmp_path / "again" / "merge.json").read_text())["scores"] == {}


@pytest.mark.timeout(600)
def test_prompts_that_were_cut_are_printed_and_recorded(tmp_path, warehouse):
    path = problem_of(tmp_path, [merge_of("half", one=1, two=1)])
    for name in ("one", "two"):
        config = tmp_path / name / "config.json"
        content = json.loads(config.read_text())
        config.write_text(json.dumps({**content, "max_position_embeddings": 48}))
    write_made_up_tasks(tmp_path / "open", "mini", 3)
    ok("merge", "run", "--problem", path)
    words = ["--tasks", "mini_reading", "--include-path", str(tmp_path / "open")]
    words = ["merge", "eval", "--problem", path, "--round", "open", "--device", "cpu", *words]
    for _ in range(2):  # units that were there already are told, too
        done = CliRunner().invoke(cli, words)
        assert done.exit_code == 0 and "note: half, mini_reading:" in done.stderr, done.output
    recorded = query("select probe_params as p from eval_units").to_pylist()
    cut = [json.loads(row["p"])["cut"] for row in recorded]
    assert sum(map(len, cut)) > 0 and all(tokens > 0 for each in cut for tokens in each.values())


@pytest.mark.timeout(600)
def test_a_stored_evaluation_is_checked_against_stricter_limits(tmp_path, warehouse, monkeypatch):
    """A second run finds all units stored and takes less time; the first one's cost counts."""
    merges = [merge_of("alone", one=1)]
    path = problem_of(tmp_path, merges)
    write_made_up_tasks(tmp_path / "open", "mini", 3)
    ok("merge", "run", "--problem", path)
    words = ["merge", "eval", "--problem", path, "--round", "open", "--tasks", "mini_reading"]
    words += ["--include-path", str(tmp_path / "open")]
    costs = iter([Cost(2000, 9, 1), Cost(1, 5, 1)])
    monkeypatch.setattr("plugins.merging.evaluate.evaluate", lambda *_: next(costs))
    ok(*words)
    problem_of(tmp_path, merges, limits={"seconds": 1000})
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 1 and "2e+03 seconds" in done.stderr, done.output


def test_tasks_that_leave_a_round_are_named(tmp_path, warehouse):
    write_made_up_tasks(tmp_path, "mini", 3)
    workspace = Workspace(PROJECT.parent, warehouse.data, warehouse.database)
    for tasks, left in (
        (["mini_reading", "mini_code"], []),
        (["mini_code"], ["mini_reading"]),
        (["mini_code"], []),
    ):
        round_ = Round.of_tasks("open", 1.0, tasks, [tmp_path])
        assert store_columns(round_, "made", workspace) == left


def test_a_task_without_the_metric_of_a_round_is_refused(tmp_path, warehouse):
    """Every entry would be without a value, and all alike."""
    kit = tmp_path / "kit.csv"
    kit.write_text("id,input,eval_type,answer_choices,target\n1,Say it:,generation,,it\n")
    (name,) = write_kit_tasks(kit, tmp_path / "tasks")
    round_ = Round.of_tasks("open", 1.0, [name], [tmp_path / "tasks"])
    workspace = Workspace(PROJECT.parent, warehouse.data, warehouse.database)
    with pytest.raises(TokenmartError) as refused:
        store_columns(round_, "made", workspace)
    assert (refused.value.code, refused.value.where) == ("metric-missing", name)
