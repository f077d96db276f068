"""Groups of imported tasks: read from the file of results, and checked with its values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from plugins.benchmarks.harness.imports.logged_groups import logged_groups
from tokenmart import cli
from warehouse.paths import Workspace
from warehouse.sql.connection import connect_to_parquet

DATE = "2026-01-02T03-04-05.678901"
PROBLEM = """\
name: tiny
title: t
models: [{full_id: org/a, family: f, source: {kind: hub}}]
probes: [{kind: full}]
documents: {kind: json, path: docs.json}
"""


def results(*, sizes: bool = True, **groups: dict[str, float]) -> dict[str, Any]:
    """Two tasks of one and three items, 1.0 and 0.5 right, in two groups of one root."""
    count = {"a": 1, "b": 3}
    counts = {name: {"original": 9, "effective": n} for name, n in count.items()}
    return {
        "results": {
            "a": {"alias": "a", "acc,none": 1.0, "acc_stderr,none": "N/A"},
            "b": {"alias": "b", "acc,none": 0.5},
            **{name: {"alias": name, **values} for name, values in groups.items()},
        },
        "group_subtasks": {"root": ["part", "b"], "part": ["a"], "a": [], "b": []},
        "n-shot": {"a": 2, "b": 2, "root": 2},
        **({"n-samples": counts} if sizes else {}),
    }


CASES: dict[str, tuple[dict[str, Any], list[tuple[str, bool]], list[str], list[str]]] = {
    "by items": (results(root={"acc,none": 0.625}), [("acc", True)], [], []),
    "by tasks": (results(root={"acc,none": 0.75}), [("acc", False)], [], []),
    "by tasks, sizes unknown": (
        results(root={"acc,none": 0.75}, sizes=False),
        [("acc", False)],
        [],
        [],
    ),
    "neither": (results(root={"acc,none": 0.7}), [], [], ["acc,none"]),
    "sizes unknown": (results(root={"acc,none": 0.625}, sizes=False), [], [], ["acc,none"]),
    "a metric that a task lacks": (results(root={"f1,none": 0.5}), [], [], ["f1,none"]),
    "no number": (results(root={"acc,none": "N/A"}), [], [], ["acc,none"]),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_group_averages_follows_from_its_value(name: str) -> None:
    content, averages, either, neither = CASES[name]
    (found,) = logged_groups(content)
    assert (found.group.name, found.group.tasks) == ("root", ("a", "b"))
    assert [(each.metric, each.weight_by_size) for each in found.group.averages] == averages
    assert (sorted(found.either), list(found.neither)) == (either, neither)


def test_of_one_task_both_means_are_equal() -> None:
    root, part = logged_groups(results(root={"acc,none": 0.75}, part={"acc,none": 1.0}))
    assert (root.either, part.either) == (frozenset(), {"acc,none"})


def test_a_group_that_contains_itself_ends() -> None:
    content = results(root={"acc,none": 1.0})
    content["group_subtasks"] = {"root": ["part"], "part": ["root", "a"]}
    (found,) = logged_groups(content)
    assert found.group.tasks == ("a",)


def imported(folder: Path, content: dict[str, Any], *options: str) -> tuple[int, str]:
    """Import the samples of both tasks with a file of results beside them."""
    folder.mkdir(exist_ok=True)
    (folder / f"results_{DATE}.json").write_text(json.dumps(content))
    files = []
    for task, golds in (("a", [1.0]), ("b", [1.0, 0.0, 0.0])):
        path = folder / f"samples_{task}_{DATE}.jsonl"
        path.write_text("".join(json.dumps(line(n, acc)) + "\n" for n, acc in enumerate(golds)))
        files.append(str(path))
    command = ["data", "import", "--problem", "tiny", "--model", "org/a", "--format", "samples"]
    done = CliRunner().invoke(cli, [*command, *files, *options])
    return done.exit_code, done.output


def line(number: int, acc: float) -> dict[str, Any]:
    scores = [-1, -2] if acc else [-2, -1]
    return {
        "doc_id": number,
        "doc": {},
        "target": "0",
        "arguments": [["Which?", " x"], ["Which?", " y"]],
        "filtered_resps": [[str(score), "False"] for score in scores],
        "filter": "none",
        "metrics": ["acc"],
        "acc": acc,
    }


def test_another_average_is_not_stored_over_the_first(workspace: Workspace, tmp_path: Path) -> None:
    (workspace.problems / "tiny.yml").write_text(PROBLEM)
    third = 1 / 3
    first = results(root={"acc,none": 0.5, "bleu,none": 3.0}, part={"acc,none": 1.0})
    first["results"]["b"]["acc,none"] = third
    code, output = imported(tmp_path / "x", first)
    assert code == 0, output
    assert "root: bleu,none is the mean of neither its tasks nor their items" in output
    with connect_to_parquet(workspace) as connection:
        rows = connection.execute(
            "select condition, member, metric, filter, weight_by_size from eval_groups order by all"
        ).fetchall()
    assert rows == [
        ("part-2shot-samples", "a-2shot-samples", "acc", "none", True),
        ("root-2shot-samples", "a-2shot-samples", "acc", "none", True),
        ("root-2shot-samples", "b-2shot-samples", "acc", "none", True),
    ]
    other = results(root={"acc,none": (1 + third) / 2}, part={"acc,none": 1.0})
    other["results"]["b"]["acc,none"] = third
    code, output = imported(tmp_path / "x", other)
    assert code == 1 and "the group 'root' averages other tasks or metrics" in output
    assert imported(tmp_path / "x", other, "--force")[0] == 0
    assert imported(tmp_path / "x", first)[0] == 1
    # the tasks' results of another model would be averaged in another way, too
    content = first | {"model_name": "org/b"}
    (workspace.problems / "tiny.yml").write_text(
        PROBLEM.replace("models: [", "models: [{full_id: org/b, family: f, source: {kind: hub}}, ")
    )
    code, output = imported(tmp_path / "x", other, "--model", "org/b")
    assert code == 0, output
    code, output = imported(tmp_path / "x", content, "--force")
    assert code == 1 and "keep them in problems of their own, as other models have" in output
