"""Bundles: one recipe in both files, and a new folder. The whole way is in test_merge_eval.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from merge_samples import local, make_expert, write_problem

from plugins.merging.bundle import make_again, write_bundle
from plugins.merging.make import Plan
from plugins.merging.problem import load_merge_problem
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace

RECIPE: dict[str, Any] = {
    "merge_method": "linear",
    "dtype": "float32",
    "models": [{"model": "one", "parameters": {"weight": 0.75}}],
}


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    folder = make_expert(tmp_path / "one")
    experts = [{"name": "one", "source": local(folder)}]
    merges = [{"name": "m", "recipe": RECIPE, "seed": 3}]
    (tmp_path / "bundle").mkdir()
    return write_problem(tmp_path / "bundle" / "problem.yml", experts=experts, merges=merges)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("recipe", {**RECIPE, "models": [{"model": "one", "parameters": {"weight": 0.70}}]}),
        ("recipe", {**RECIPE, "dtype": "bfloat16"}),
        ("seed", 4),
    ],
)
def test_a_record_of_another_recipe_is_refused_before_anything_is_made(
    key, value, problem, workspace
):
    record = {"merge": "m", "recipe": RECIPE, "seed": 3, "weights_sha256": {}, "experts": {}}
    content = {"record": {**record, "versions": {}, key: value}, "scores": {}}
    (problem.parent / "merge.json").write_text(json.dumps(content))
    with pytest.raises(TokenmartError) as refused:
        make_again(problem.parent, workspace)
    assert refused.value.code == "contradiction"
    assert str(refused.value.where).endswith(f"merge.json: record.{key}")


@pytest.mark.parametrize("is_file", [True, False])
def test_a_bundle_needs_a_new_folder(is_file, problem, tmp_path, workspace: Workspace):
    made = load_merge_problem(str(problem), workspace)
    plan = Plan(made, made.merge("m"), {}, {}, "f", tmp_path)
    with pytest.raises(TokenmartError) as refused:
        write_bundle(plan, workspace, problem if is_file else problem.parent)
    assert refused.value.code == "not-empty"
