"""Searches over recipes: every combination is a merge of its own, and is counted as one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from plugins.merging.problem import MergeProblem, load_merge_problem
from warehouse.errors import ProblemFileError
from warehouse.paths import Workspace

RECIPE = {
    "merge_method": "ties",
    "base_model": "one",
    "models": [{"model": "two", "parameters": {"weight": "$weight", "density": "$density"}}],
}
SEARCH = {"name": "t", "recipe": RECIPE, "values": {"weight": [0.2, 0.4], "density": [0.5, 1]}}


def problem(workspace: Workspace, folder: Path, **changes: Any) -> MergeProblem:
    experts = [
        {"name": name, "source": {"kind": "local", "path": str(folder)}} for name in ("one", "two")
    ]
    merges = [{"name": "alone", "recipe": {"merge_method": "linear", "models": [{"model": "one"}]}}]
    raw = {"kind": "merge", "name": "made", "title": "t", "experts": experts, "merges": merges}
    path = folder / "made.yml"
    path.write_text(yaml.safe_dump(raw | {"searches": [SEARCH | changes]}, sort_keys=False))
    return load_merge_problem(str(path), workspace)


def test_a_grid_is_all_combinations(workspace: Workspace, tmp_path: Path) -> None:
    found = problem(workspace, tmp_path)
    assert [each.name for each in found.entries] == [
        "alone", "t-weight0.2-density0.5", "t-weight0.2-density1", "t-weight0.4-density0.5",
        "t-weight0.4-density1",
    ]  # fmt: skip
    trial = found.merge("t-weight0.4-density1")
    assert trial.recipe["models"] == [{"model": "two", "parameters": {"weight": 0.4, "density": 1}}]
    assert trial.models() == ["one", "two"] and trial.method == "ties"


def test_trials_are_drawn_once_for_a_seed(workspace: Workspace, tmp_path: Path) -> None:
    def names(**changes: Any) -> list[str]:
        return [each.name for each in problem(workspace, tmp_path, **changes).entries[1:]]

    many = {"weight": [n / 10 for n in range(10)], "density": [0.5, 1]}
    few = names(values=many, trials=6)
    assert len(few) == len(set(few)) == 6 and few == names(values=many, trials=6)
    assert few != names(values=many, trials=6, seed=1)
    assert len(names(trials=9)) == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"values": {"weight": [1]}}, r"the recipe has \$density, which has no values"),
        ({"values": {**SEARCH["values"], "t": [1]}}, r"the recipe has no \$t"),  # type: ignore[dict-item]
        (
            {"values": {"weight": list(range(40)), "density": list(range(40))}},
            "the grid has 1,600 combinations, expected 1 to 1000; give trials",
        ),
        ({"values": {"weight": [], "density": [1]}}, "the grid has 0 combinations"),
        ({"values": {"weight": [1, 1], "density": [1]}}, "are called 't-weight1-density1'"),
    ],
)
def test_wrong_searches(
    workspace: Workspace, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ProblemFileError, match=message):
        problem(workspace, tmp_path, **changes)
