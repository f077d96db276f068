"""Merge, evaluate in two rounds, build, rank, and make the winner again: the whole way, tiny."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dbt_harness import PROJECT, Warehouse
from merge_samples import local, write_made_up_tasks, write_problem
from tiny_models import make_checkpoint

from plugins.merging.kit.kit_files import write_kit_tasks
from plugins.merging.watchdog import Cost
from tokenmart import cli
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
    return {
        "name": name,
        "recipe": {"merge_method": "linear", "dtype": "float32", "models": models},
    }


@pytest.mark.timeout(900)
def test_from_experts_to_a_ranking_and_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = Warehouse(tmp_path / "data", tmp_path / "t.duckdb")
    warehouse.data.mkdir()
    monkeypatch.setenv("TOKENMART_HOME", str(PROJECT.parent))
    monkeypatch.setenv("TOKENMART_DATA", str(warehouse.data))
    monkeypatch.setenv("TOKENMART_DATABASE", str(warehouse.database))
    for seed, name in enumerate(("one", "two")):
        make_checkpoint(tmp_path / name, seed=seed)
    shutil.copy(tmp_path / "one" / "tokenizer.json", tmp_path / "two")
    merges = [merge_of("one-alone", one=1), merge_of("half", one=1, two=1)]
    experts = [{"name": name, "source": local(tmp_path / name)} for name in ("one", "two")]
    limits = {"seconds": 500, "memory_gb": 100, "disk_gb": 10}
    path = str(write_problem(tmp_path / "made.yml", experts=experts, merges=merges, limits=limits))
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
    out = tmp_path / "standings.json"
    shown = ok("rank", "show", "--problem", "made", "--out", str(out))
    assert "round overall" in shown
    found = json.loads(out.read_text())
    assert {row["round"] for row in found["rankings"]} == {"open", "hidden", "overall"}
    assert {row["entry"] for row in found["rankings"]} == {"one-alone", "half"}
    assert all(row["resampled"] == "items" and row["draws"] == 50 for row in found["rankings"])
    # what a participant gets has no prompt, answer or result of a hidden item
    assert not any(json.dumps(prompt)[1:-1] in out.read_text() for prompt in prompts)
    costs = {(row["entry"], row["stage"], row["round"]): row for row in found["merge_costs"]}
    assert len(costs) == 2 * 3 and all(row["within_limits"] for row in costs.values())
    assert all(row["seconds"] > 0 and row["peak_bytes"] > 10**7 for row in costs.values())
    fronts = [row for row in found["ranking_fronts"] if row["round"] == "overall"]
    assert any(row["on_time_front"] for row in fronts)

    bundle = tmp_path / "bundle"
    ok("merge", "bundle", "--problem", path, "--merge", "half", "--out", str(bundle))
    said = ok("merge", "reproduce", str(bundle))
    assert "weights are equal, byte for byte" in said
    recorded = json.loads((bundle / "merge.json").read_text())
    assert recorded["scores"]["open"].keys() == {"mini_reading", "mini_code"}
    again = ok("merge", "reproduce", str(bundle), "--include-path", str(tmp_path / "open"))
    assert "mini_reading" in again and "equal" in again
    recorded["record"]["weights_sha256"] = {"model.safetensors": "0" * 64}
    (bundle / "merge.json").write_text(json.dumps(recorded))
    done = CliRunner().invoke(cli, ["merge", "reproduce", str(bundle)])
    assert done.exit_code == 1 and "differ" in done.stderr


@pytest.mark.timeout(600)
def test_prompts_that_were_cut_are_printed_and_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    monkeypatch.setenv("TOKENMART_HOME", str(PROJECT.parent))
    monkeypatch.setenv("TOKENMART_DATA", str(data))
    monkeypatch.setenv("TOKENMART_DATABASE", str(tmp_path / "t.duckdb"))
    monkeypatch.setenv("FORCE_COLOR", "1")
    for seed, name in enumerate(("one", "two")):
        make_checkpoint(tmp_path / name, seed=seed)
        config = json.loads((tmp_path / name / "config.json").read_text())
        (tmp_path / name / "config.json").write_text(
            json.dumps({**config, "max_position_embeddings": 48})
        )
    shutil.copy(tmp_path / "one" / "tokenizer.json", tmp_path / "two")
    experts = [{"name": name, "source": local(tmp_path / name)} for name in ("one", "two")]
    path = str(
        write_problem(
            tmp_path / "made.yml",
            experts=experts,
            merges=[merge_of("half", one=1, two=1)],
            limits={"seconds": 500, "memory_gb": 100, "disk_gb": 10},
        )
    )
    write_made_up_tasks(tmp_path / "open", "mini", 3)
    ok("merge", "run", "--problem", path)
    words = ["--tasks", "mini_reading", "--include-path", str(tmp_path / "open")]
    asked = ["merge", "eval", "--problem", path, "--round", "open", "--device", "cpu", *words]
    for _ in range(2):  # units that were there already are told, too
        done = CliRunner().invoke(cli, asked)
        assert done.exit_code == 0, done.output
        assert re.search(
            r"^note: half, mini_reading: longer than the 48 tokens that the model reads: 3 items"
            r" lost up to \d+ tokens \(see --too-long\)$",
            done.stderr,
            re.MULTILINE,
        ), done.stderr
    recorded = query("select probe_params as p from eval_units").to_pylist()
    cut = [json.loads(row["p"])["cut"] for row in recorded]
    assert sum(map(len, cut)) > 0 and all(tokens > 0 for each in cut for tokens in each.values())


@pytest.mark.timeout(600)
def test_a_stored_evaluation_is_checked_against_stricter_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second run finds all units stored and takes less time; the first one's cost counts."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("TOKENMART_HOME", str(PROJECT.parent))
    monkeypatch.setenv("TOKENMART_DATA", str(tmp_path / "data"))
    make_checkpoint(tmp_path / "one")
    write_made_up_tasks(tmp_path / "open", "mini", 3)
    sections = {
        "experts": [{"name": "one", "source": local(tmp_path / "one")}],
        "merges": [merge_of("alone", one=1)],
    }
    path = str(write_problem(tmp_path / "made.yml", **sections))
    ok("merge", "run", "--problem", path)
    words = ["merge", "eval", "--problem", path, "--round", "open", "--tasks", "mini_reading"]
    words += ["--include-path", str(tmp_path / "open")]
    costs = iter([Cost(2000, 9, 1), Cost(1, 5, 1)])
    monkeypatch.setattr("plugins.merging.evaluate.evaluate", lambda *_: next(costs))
    ok(*words)
    write_problem(tmp_path / "made.yml", **sections, limits={"seconds": 1000})
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 1, done.output
    said = "evaluation of alone in round open: refused, 2e+03 seconds, 1e+03 allowed"
    assert f"{said}; finished units were kept" in done.stderr


def test_a_task_without_the_metric_of_a_round_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every entry would be without a value, and all alike."""
    monkeypatch.setenv("TOKENMART_HOME", str(PROJECT.parent))
    monkeypatch.setenv("TOKENMART_DATA", str(tmp_path))
    make_checkpoint(tmp_path / "one")
    experts = [{"name": "one", "source": local(tmp_path / "one")}]
    merges = [merge_of("alone", one=1)]
    path = str(write_problem(tmp_path / "made.yml", experts=experts, merges=merges))
    kit = tmp_path / "kit.csv"
    kit.write_text("id,input,eval_type,answer_choices,target\n1,Say it:,generation,,it\n")
    (name,) = write_kit_tasks(kit, tmp_path / "tasks", 4).values()
    words = ["merge", "eval", "--problem", path, "--round", "open", "--tasks", name]
    done = CliRunner().invoke(cli, [*words, "--include-path", str(tmp_path / "tasks")])
    assert done.exit_code == 1, done.output
    assert (
        f"task {name}: has no acc, by which a round ranks entries (its metrics: ex" in done.stderr
    )
