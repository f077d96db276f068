"""Merges through mergekit and peft against the same merges written out here."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from merge_samples import local, refusals, write_problem
from safetensors.numpy import load_file, save_file
from tiny_models import make_checkpoint

from plugins.merging.make import finished_plan
from plugins.merging.problem import load_merge_problem
from plugins.merging.watchdog import folder_bytes
from tokenmart import cli
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace

pytest.importorskip("mergekit")
pytest.importorskip("peft")
pytestmark = pytest.mark.slow

Weights = dict[str, np.ndarray[Any, np.dtype[np.float32]]]
NAMES = ("base", "one", "two")


@pytest.fixture(scope="module")
def experts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three tiny models with one tokenizer, and a LoRA adapter of the first."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    folder = tmp_path_factory.mktemp("experts")
    for seed, name in enumerate(NAMES):
        make_checkpoint(folder / name, seed=seed)
        if name != "base":
            shutil.copy(folder / "base" / "tokenizer.json", folder / name)
    torch.manual_seed(5)
    model = AutoModelForCausalLM.from_pretrained(folder / "base", dtype=torch.float32)
    wrapped = get_peft_model(model, LoraConfig(r=2, lora_alpha=6, target_modules=["q_proj"]))
    for name, parameter in wrapped.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    wrapped.save_pretrained(folder / "adapter")
    return folder


def weights(folder: Path) -> Weights:
    found: Weights = {}
    for path in folder.glob("*.safetensors"):
        found |= load_file(path)
    return found


def problem_of(experts: Path, workspace: Workspace, *merges: dict[str, Any], **more: Any) -> Path:
    listed: list[dict[str, Any]] = [
        {"name": name, "source": local(experts / name)} for name in NAMES
    ]
    listed.append({"name": "lora", "adapter": str(experts / "adapter"), "base": "base"})
    path = workspace.root / "made.yml"
    return write_problem(path, experts=listed, merges=list(merges), **more)


def invoke(path: Path, *words: str) -> Result:
    return CliRunner().invoke(cli, ["merge", "run", "--problem", str(path), *words])


def made(path: Path, workspace: Workspace, name: str) -> Path:
    from plugins.merging.make import make_merge, plan_merge

    problem = load_merge_problem(str(path), workspace)
    plan = plan_merge(problem, problem.merge(name), workspace)
    make_merge(plan, workspace)
    return plan.folder


def no_merge(workspace: Workspace) -> bool:
    return not any(path.is_dir() for path in (workspace.cache / "merges").glob("*"))


def runs(workspace: Workspace) -> dict[str, Any]:
    """The only row of `merge_runs`."""
    (path,) = (workspace.store / "merge_runs").rglob("runs.parquet")
    (row,) = pq.read_table(path, partitioning=None).to_pylist()
    return dict(row)


def models(**parameters: dict[str, float]) -> list[dict[str, Any]]:
    return [{"model": name, "parameters": each} for name, each in parameters.items()]


LINEAR = {
    "merge_method": "linear",
    "dtype": "float32",
    "models": models(base={"weight": 1.0}, one={"weight": 0.5}, two={"weight": 2.5}),
}
ARITHMETIC = {
    "merge_method": "task_arithmetic",
    "base_model": "base",
    "dtype": "float32",
    "parameters": {"lambda": 0.8},
    "models": models(one={"weight": 0.6}, two={"weight": -0.3}),
}
TIES = {
    "merge_method": "ties",
    "base_model": "base",
    "dtype": "float32",
    "models": models(one={"weight": 0.7, "density": 0.4}, two={"weight": 0.5, "density": 0.6}),
}


def linear(base: Any, one: Any, two: Any) -> Any:
    """Weighted mean: weights are normalised to sum to 1."""
    return (base + 0.5 * one + 2.5 * two) / 4


def task_arithmetic(base: Any, one: Any, two: Any) -> Any:
    """Ilharco et al. 2023: the base plus scaled, weighted differences from it."""
    return base + 0.8 * (0.6 * (one - base) - 0.3 * (two - base))


def trimmed(delta: Any, density: float) -> Any:
    """The largest share of a difference's numbers, the rest zero."""
    flat = np.zeros(delta.size)
    order = np.argsort(-np.abs(delta).ravel(), kind="stable")[: max(1, int(density * delta.size))]
    flat[order] = delta.ravel()[order]
    return flat.reshape(delta.shape)


def ties(base: Any, one: Any, two: Any) -> Any:
    """Yadav et al. 2023: trim, elect the sign of the weighted sum, mean of what agrees with it."""
    shares = np.array([0.7, 0.5])
    deltas = np.stack([trimmed(one - base, 0.4), trimmed(two - base, 0.6)])
    weighted = deltas * shares.reshape(-1, *[1] * base.ndim)
    elected = np.where(weighted.sum(axis=0) >= 0, 1, -1)
    agrees = np.sign(weighted) == elected
    total = (agrees * shares.reshape(-1, *[1] * base.ndim)).sum(axis=0)
    return base + (weighted * agrees).sum(axis=0) / np.where(total == 0, 1, total)


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [(LINEAR, linear), (ARITHMETIC, task_arithmetic), (TIES, ties)],
    ids=["linear", "task_arithmetic", "ties"],
)
def test_mergekit_s_result_is_the_merge_written_out(experts, workspace, recipe, expected):
    """float32 against float64: a few roundings of numbers as large as the largest weight."""
    path = problem_of(experts, workspace, {"name": "m", "recipe": recipe})
    found = weights(made(path, workspace, "m"))
    parts = [weights(experts / name) for name in NAMES]
    assert found.keys() == parts[0].keys()
    for name, value in found.items():
        exact = expected(*(part[name].astype(np.float64) for part in parts))
        largest = max(float(np.abs(part[name]).max()) for part in parts)
        tolerance = 16 * float(np.finfo(np.float32).eps) * largest
        np.testing.assert_allclose(value, exact, rtol=0, atol=tolerance, err_msg=name)


def test_an_adapter_is_merged_into_its_base_first(experts, workspace):
    recipe = {"merge_method": "linear", "dtype": "float32", "models": models(lora={"weight": 1.0})}
    path = problem_of(experts, workspace, {"name": "m", "recipe": recipe})
    found, base = weights(made(path, workspace, "m")), weights(experts / "base")
    adapter = weights(experts / "adapter")
    changed = 0
    for name, value in found.items():
        stem = f"base_model.model.{name.removesuffix('.weight')}"
        exact = base[name].astype(np.float64)
        if f"{stem}.lora_A.weight" in adapter:
            sides = [adapter[f"{stem}.lora_{side}.weight"].astype(np.float64) for side in "BA"]
            exact = exact + 3 * sides[0] @ sides[1]  # alpha / r
            changed += 1
        np.testing.assert_allclose(value, exact, rtol=0, atol=1e-5 * np.abs(exact).max())
    assert changed == 3


@pytest.mark.parametrize("name", ["one", "adapter"])
def test_an_expert_that_lacks_tensors_is_not_merged(name, experts, workspace, tmp_path):
    there = shutil.copytree(experts, tmp_path / "experts")
    # of whole models all lack it: one that others have is missed before
    for each in NAMES if name == "one" else [name]:
        (file,) = (there / each).glob("*.safetensors")
        tensors = load_file(file)
        lost = sorted(tensors)[-1]
        whole = {n: tensor for n, tensor in tensors.items() if n != lost}
        save_file(whole, file, metadata={"format": "pt"})
    taken = "lora" if name == "adapter" else name
    recipe = {"merge_method": "linear", "dtype": "float32", "models": models(base={"weight": 1.0})}
    recipe["models"] += models(**{taken: {"weight": 1.0}})  # type: ignore[operator]
    path = problem_of(there, workspace, {"name": "m", "recipe": recipe})
    with pytest.raises(TokenmartError):
        made(path, workspace, "m")
    assert no_merge(workspace)


def test_layers_of_two_models_and_slerp_and_a_seeded_draw(experts, workspace):
    pieces = [("one", [0, 2]), ("two", [2, 3])]
    layers = {
        "merge_method": "passthrough",
        "dtype": "float32",
        "slices": [{"sources": [{"model": m, "layer_range": span}]} for m, span in pieces],
    }
    slerp = {
        "merge_method": "slerp",
        "base_model": "one",
        "dtype": "float32",
        "parameters": {"t": 0.0},
        "models": [{"model": "one"}, {"model": "two"}],
    }
    dare = {**TIES, "merge_method": "dare_ties"}
    path = problem_of(
        experts,
        workspace,
        {"name": "layers", "recipe": layers},
        {"name": "layers-and-base", "recipe": {**layers, "base_model": "one"}},
        {"name": "slerp", "recipe": slerp},
        {"name": "dare", "recipe": dare, "seed": 3},
        {"name": "dare-again", "recipe": dare, "seed": 4},
    )
    stacked = weights(made(path, workspace, "layers"))
    for layer, source in ((0, "one"), (1, "one"), (2, "two")):
        name = f"model.layers.{layer}.mlp.up_proj.weight"
        np.testing.assert_array_equal(stacked[name], weights(experts / source)[name])
    for name, value in weights(made(path, workspace, "layers-and-base")).items():
        np.testing.assert_array_equal(value, stacked[name])
    first = weights(experts / "one")
    for name, value in weights(made(path, workspace, "slerp")).items():
        np.testing.assert_allclose(value, first[name], atol=1e-5 * np.abs(first[name]).max())
    folder = made(path, workspace, "dare")
    drawn = json.loads((folder / "merge.json").read_text())["weights_sha256"]
    shutil.rmtree(folder)
    again = json.loads((made(path, workspace, "dare") / "merge.json").read_text())
    other = json.loads((made(path, workspace, "dare-again") / "merge.json").read_text())
    assert again["weights_sha256"] == drawn != other["weights_sha256"]
    assert again["seconds"] > 0 and again["peak_bytes"] > 10**7 and again["disk_bytes"] > 10**4


def test_a_merge_is_made_once_and_named_by_what_it_depends_on(experts, workspace):
    path = problem_of(experts, workspace, {"name": "m", "recipe": LINEAR})
    folder = made(path, workspace, "m")
    stamp = (folder / "merge.json").stat().st_mtime_ns
    assert made(path, workspace, "m") == folder
    assert (folder / "merge.json").stat().st_mtime_ns == stamp
    path = problem_of(experts, workspace, {"name": "m", "recipe": {**LINEAR, "dtype": "bfloat16"}})
    from plugins.merging.make import plan_merge

    problem = load_merge_problem(str(path), workspace)
    assert plan_merge(problem, problem.merge("m"), workspace).folder != folder


def test_a_refused_expert_is_no_part_of_a_merge(experts, workspace):
    from plugins.merging.make import plan_merge

    path = problem_of(
        experts, workspace, {"name": "m", "recipe": LINEAR}, rules={"licences": ["mit"]}
    )
    problem = load_merge_problem(str(path), workspace)
    with pytest.raises(TokenmartError) as refused:
        plan_merge(problem, problem.merge("m"), workspace)
    assert (refused.value.code, refused.value.where) == ("refused-licence", "expert base")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "unknown method": ({**LINEAR, "merge_method": "tie"}, "invalid-recipe"),
    "unknown parameter": ({**LINEAR, "parameters": {"densety": 1}}, "unknown-parameter"),
    "unknown key": ({**LINEAR, "modles": []}, "invalid-recipe"),
    "weights of another method": (
        {
            "merge_method": "slerp",
            "base_model": "one",
            "parameters": {"t": 0.5},
            "models": models(one={"weight": 1}, two={"weight": 1}),
        },
        "unknown-parameter",
    ),
    "a mistyped key of a slice": (
        {
            "merge_method": "passthrough",
            "slices": [
                {"sources": [{"model": "one", "layer_range": [0, 1], "parameter": {"scale": 1}}]}
            ],
        },
        "invalid-recipe",
    ),
    "a decimal comma": (
        {**LINEAR, "models": models(one={"weight": "0,5"}, two={"weight": 1})},  # type: ignore[dict-item]
        "invalid-recipe",
    ),
    "a missing weight": ({**LINEAR, "models": [{"model": "one"}]}, "invalid-recipe"),
    "a dtype that mergekit lacks": ({**LINEAR, "dtype": "bf16"}, "invalid-recipe"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_recipe_that_cannot_work_is_refused_before_weights(experts, workspace, case):
    from plugins.merging.make import plan_merge

    recipe, code = REFUSED[case]
    path = problem_of(experts, workspace, {"name": "m", "recipe": recipe})
    problem = load_merge_problem(str(path), workspace)
    with pytest.raises(TokenmartError) as refused:
        plan_merge(problem, problem.merge("m"), workspace)
    assert (refused.value.code, refused.value.where) == (code, "merges.m.recipe"), refused.value
    assert no_merge(workspace)


SPAN: list[dict[str, Any]] = [{"sources": [{"model": "one", "layer_range": [0, 9]}]}]
ZERO = [
    {"model": "one", "parameters": {"weight": [1.0, 2.0]}},  # in one layer they add up to 0
    {"model": "two", "parameters": {"weight": -1.0}},
]


@pytest.mark.parametrize(
    "recipe",
    [
        {"merge_method": "passthrough", "dtype": "float32", "slices": SPAN},
        {
            "merge_method": "passthrough",
            "dtype": "float32",
            "modules": {"default": {"slices": SPAN}},
        },
        {**LINEAR, "models": ZERO},
        {**LINEAR, "models": ZERO, "dtype": "float16"},
    ],
    ids=["slices", "modules", "not-finite", "not-finite-float16"],
)
def test_layers_that_are_not_there_and_weights_that_are_not_finite_are_no_merge(
    experts, workspace, recipe
):
    done = invoke(problem_of(experts, workspace, {"name": "m", "recipe": recipe}))
    assert done.exit_code == 1 and len(refusals(done.stderr)) == 1, done.output
    assert no_merge(workspace)


def test_weights_that_add_up_to_0_are_merged_without_their_sum(experts, workspace):
    given = models(one={"weight": 1.0}, two={"weight": -1.0})
    recipe = {**LINEAR, "models": given, "parameters": {"normalize": False}}
    path = problem_of(experts, workspace, {"name": "m", "recipe": recipe})
    one, two = weights(experts / "one"), weights(experts / "two")
    for name, value in weights(made(path, workspace, "m")).items():
        np.testing.assert_array_equal(value, one[name] - two[name])


def test_a_wrong_merge_does_not_stop_the_others(experts, workspace):
    recipes = {"mistyped": {**LINEAR, "parameters": {"densety": 1}}, "right": LINEAR}
    merges = [{"name": name, "recipe": recipe} for name, recipe in recipes.items()]
    done = invoke(problem_of(experts, workspace, *merges))
    assert done.exit_code == 1 and [line.split(":")[0] for line in done.stdout.splitlines()] == [
        "right"
    ]
    assert len(refusals(done.stderr)) == 1


def test_a_merge_in_the_cache_is_checked_against_the_limits(experts, workspace):
    """They may be stricter than those that it was merged within."""
    merge = {"name": "m", "recipe": LINEAR}
    assert invoke(problem_of(experts, workspace, merge)).exit_code == 0
    path = problem_of(experts, workspace, merge, limits={"memory_gb": 0.02})
    assert invoke(path).exit_code == 1
    problem = load_merge_problem(str(path), workspace)
    with pytest.raises(TokenmartError) as refused:
        finished_plan(problem, problem.merge("m"), workspace)
    assert (refused.value.code, refused.value.where) == ("over-limit", "merges.m")
    out = workspace.root / "out"
    words = ["merge", "bundle", "--problem", str(path), "--merge", "m", "--out", str(out)]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 1 and not out.exists(), done.output
    assert not no_merge(workspace)
    row = runs(workspace)
    assert row["limit_peak_bytes"] == 2e7 < row["peak_bytes"] and row["ended"] == ""


@pytest.mark.parametrize(
    ("limits", "cost"),
    [({"seconds": 0.3}, "seconds"), ({"memory_gb": 0.02}, "peak_bytes"),
     ({"disk_gb": 0.00001}, "disk_bytes")],
)  # fmt: skip
def test_over_a_limit_it_is_ended_and_leaves_nothing(experts, workspace, limits, cost):
    path = problem_of(experts, workspace, {"name": "m", "recipe": LINEAR}, limits=limits)
    assert invoke(path).exit_code == 1 and no_merge(workspace)
    row = runs(workspace)
    assert row["stage"] == "merge" and row["ended"] and row[cost] > row[f"limit_{cost}"] > 0


def test_every_limit_is_one_and_at_it_is_not_over_it():
    from plugins.merging.problem import Limits
    from plugins.merging.watchdog import Cost, over_limit

    limits = Limits(seconds=7200, memory_gb=128, gpu_memory_gb=48, disk_gb=500)
    at = Cost(7200, 128 * 10**9, 500 * 10**9, 48 * 10**9)
    assert over_limit(at, limits) is None and over_limit(replace(at, seconds=1e9), Limits()) is None
    for over, said in (
        (replace(at, seconds=7201), "7.2e+03 seconds"),
        (replace(at, peak_bytes=129 * 10**9), "129 GB of memory"),
        (replace(at, gpu_bytes=49 * 10**9), "49 GB of GPU memory"),
        (replace(at, disk_bytes=501 * 10**9), "501 GB of disk"),
    ):
        assert str(over_limit(over, limits)).startswith(said)


def test_an_evaluation_in_two_runs_costs_both(experts, workspace):
    """The first was ended over its limit; a third, which finds all done, changes nothing."""
    from plugins.merging.evaluate import store_run
    from plugins.merging.make import plan_merge
    from plugins.merging.watchdog import Cost

    problem = load_merge_problem(
        str(problem_of(experts, workspace, {"name": "m", "recipe": LINEAR})), workspace
    )
    plan = plan_merge(problem, problem.merge("m"), workspace)
    seen = []
    for seconds, peak, gpu, ended in (
        (100.0, 9, 7, "ended, 100 seconds"),
        (20.0, 5, None, "ended, 20 seconds"),
        (10.0, 5, 3, ""),
        (1.0, 5, None, ""),
    ):
        store_run(plan, "evaluation", "open", Cost(seconds, peak, 1, gpu), workspace, ended)
        row = runs(workspace)
        seen.append((row["seconds"], row["peak_bytes"], row["gpu_bytes"], row["ended"]))
    assert seen == [
        (100, 9, 7, "ended, 100 seconds"),
        (120, 9, 7, "ended, 20 seconds"),
        (130, 9, 7, ""),
        (130, 9, 7, ""),
    ]


def test_a_folder_that_vanishes_during_the_walk_counts_as_nothing(tmp_path, monkeypatch):
    """Libraries clear their scratch folders while they run."""
    (tmp_path / "kept").write_bytes(b"12345")
    (tmp_path / "scratch").mkdir()
    listed = os.scandir

    def clearing(path: Any) -> Any:
        if Path(path).name == "scratch":
            Path(path).rmdir()
        return listed(path)

    monkeypatch.setattr(os, "scandir", clearing)
    assert folder_bytes(tmp_path) == 5
    assert not (tmp_path / "scratch").exists()
