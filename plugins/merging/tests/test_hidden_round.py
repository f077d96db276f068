"""The problem file of a hidden round: what it says, and what it may not say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from merge_samples import local, make_expert, write_problem

from plugins.merging.problem import load_hidden_round
from plugins.merging.tasks import hidden_sets, write_hidden_round
from tokenmart import cli
from warehouse.paths import find_workspace

WORKSPACE = find_workspace(Path(__file__))
RIGHT = {"kind": "merge_round", "name": "final", "tasks": ["a"]}


def test_what_the_organiser_writes_is_read_again(tmp_path: Path) -> None:
    _, final = hidden_sets(4, "a long enough secret", 0.5)
    found = load_hidden_round(write_hidden_round("final", final, tmp_path), WORKSPACE)
    assert (found.name, found.weight) == ("final", 1.0)
    assert found.tasks == ("mini_final_reading", "mini_final_maths", "mini_final_code")
    assert all((tmp_path / f"{task}.yaml").is_file() for task in found.tasks)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "another kind": ({"kind": "merge"}, "not a round of merged models"),
    "overall": ({"name": "overall"}, "'overall' is for all rounds"),
    "no tasks": ({"tasks": []}, "tasks"),
    "weight": ({"weight": -1}, "weight"),
    "path as a task": ({"tasks": ["../open"]}, "tasks"),
    "unknown key": ({"taks": ["a"]}, "taks"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_round_is_refused_in_one_line(tmp_path: Path, case: str) -> None:
    change, said = WRONG[case]
    experts = [{"name": "base", "source": local(make_expert(tmp_path / "base"))}]
    problem = write_problem(tmp_path / "made.yml", experts=experts)
    path = tmp_path / "final.yml"
    path.write_text(yaml.safe_dump({**RIGHT, **change}))
    words = ["merge", "eval", "--problem", str(problem), "--hidden-round", str(path)]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 1 and len(done.stderr.splitlines()) == 1, done.output
    assert said in done.stderr
    both = CliRunner().invoke(cli, [*words, "--round", "open", "--tasks", "boolq"])
    assert both.exit_code == 1 and "either --round and --tasks, or --hidden-round" in both.stderr
