"""Merges of a problem file in the store, and what is left of those that were removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from merge_samples import local, make_expert, write_problem

from plugins.merging.entries import store_entries, stored_entries
from plugins.merging.evaluate import store_run
from plugins.merging.make import Plan
from plugins.merging.problem import MergeProblem, load_merge_problem
from plugins.merging.watchdog import Cost
from warehouse.maintenance.garbage import find_garbage
from warehouse.paths import Workspace


def problem_of(workspace: Workspace, **weights: float) -> MergeProblem:
    """Merges by name, of one expert with a weight."""
    folder = workspace.root / "one"
    if not folder.exists():
        make_expert(folder)

    def recipe(weight: float) -> dict[str, Any]:
        models = [{"model": "one", "parameters": {"weight": weight}}]
        return {"merge_method": "linear", "models": models}

    experts = [{"name": "one", "source": local(folder)}]
    merges = [{"name": name, "recipe": recipe(weight)} for name, weight in weights.items()]
    write_problem(workspace.problems / "made.yml", experts=experts, merges=merges)
    return load_merge_problem("made", workspace)


def plan_of(problem: MergeProblem, name: str, fingerprint: str) -> Plan:
    return Plan(problem, problem.merge(name), {}, {}, fingerprint, Path("nowhere"))


def fingerprints(workspace: Workspace) -> dict[str, str]:
    rows = stored_entries("made", workspace)
    return {name: row["fingerprint"] for name, row in rows.items()}


def test_weights_are_known_until_the_recipe_changes(workspace):
    problem = problem_of(workspace, a=1, b=1, gone=1)
    store_entries(problem, [plan_of(problem, name, f"{name}1") for name in ("a", "b")], workspace)
    assert fingerprints(workspace) == {"a": "a1", "b": "b1", "gone": ""}
    store_entries(problem, [plan_of(problem, "b", "b2")], workspace)  # an expert has changed
    assert fingerprints(workspace) == {"a": "a1", "b": "b2", "gone": ""}
    problem = problem_of(workspace, a=2, b=1)
    store_entries(problem, (), workspace)
    assert fingerprints(workspace) == {"a": "", "b": "b2"}


def test_what_is_left_of_removed_merges_is_garbage(workspace):
    problem = problem_of(workspace, a=1, gone=1)
    for name in ("a", "gone"):
        store_run(plan_of(problem, name, "f"), "merge", "", Cost(1, 1, 1), workspace)
    assert find_garbage(workspace, "made") == ([], [])
    problem_of(workspace, a=1)
    (found,), notes = find_garbage(workspace, "made")
    assert "model_id=gone" in str(found.path) and notes == []
