"""The script that runs minimerge, on a tiny random model: stages, joins, and what stays hidden."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from merge_samples import local
from tiny_models import make_checkpoint

from plugins.merging.leaks import leaks
from plugins.merging.tasks import hidden_sets

pytest.importorskip("mergekit")
pytest.importorskip("lm_eval")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
SKILLS = ("reading", "maths", "code")
ENTRIES = {"base-alone": "base", "maths-alone": "maths"}


def write_problem(folder: Path) -> Path:
    make_checkpoint(folder / "base")
    experts: list[dict[str, Any]] = [{"name": "base", "source": local(folder / "base")}]
    experts += [
        {"name": each, "adapter": f"data/minimerge/{each}", "base": "base"} for each in SKILLS
    ]
    merges = [
        {"name": name, "recipe": {"merge_method": "linear", "dtype": "float32", "models": models}}
        for name, models in (
            *(
                (name, [{"model": each, "parameters": {"weight": 1}}])
                for name, each in ENTRIES.items()
            ),
            ("linear", [{"model": each, "parameters": {"weight": 1}} for each in SKILLS]),
        )
    ]
    raw = {"kind": "merge", "name": "tiny", "title": "Tiny", "experts": experts, "merges": merges}
    path = folder / "tiny.yml"
    path.write_text(yaml.safe_dump({**raw, "limits": {"seconds": 600, "memory_gb": 64}}))
    return path


def run(folder: Path, problem: Path, items: int) -> subprocess.CompletedProcess[str]:
    words = ["--folder", str(folder / "run"), "--out", str(folder / "figures.json")]
    words += ["--problem", str(problem), "--steps", "2", "--items", str(items)]
    script = str(ROOT / "benchmarks" / "minimerge.py")
    return subprocess.run(
        [sys.executable, script, *words, "--hidden-items", "6"],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip


@pytest.mark.timeout(1500)
def test_every_stage_runs_once_and_nothing_hidden_reaches_the_participant(tmp_path: Path) -> None:
    problem = write_problem(tmp_path)
    done = run(tmp_path, problem, 8)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads((tmp_path / "figures.json").read_text())
    entries = {*ENTRIES, "linear"}
    rounds = {"open": 8, "leaderboard": 6, "final": 6}
    accuracy = {(row["round"], row["task"], row["entry"]): row for row in figures["accuracy"]}
    assert len(accuracy) == len(figures["accuracy"]) == len(entries) * len(rounds) * len(SKILLS)
    assert all(row["items"] == rounds[row["round"]] for row in figures["accuracy"])
    assert {row["entry"] for row in figures["rankings"]} == entries
    assert {row["round"] for row in figures["rankings"]} == {*rounds, "overall"}
    assert figures["cannot_be_told_apart"].keys() == {*rounds, "overall"}
    assert figures["reproduction"][0].startswith("weights are equal, byte for byte")
    winner = figures["winner"]
    scores = {
        task: accuracy["open", task, winner]["accuracy"] for task in map("mini_{}".format, SKILLS)
    }
    assert figures["reproduction"][1:] == [
        f"{task}: {score:.6f}, equal" for task, score in sorted(scores.items())
    ]
    assert set(figures["training"]) == set(SKILLS)
    for stage in figures["stages"].values():
        assert stage["seconds"] > 0 and stage["peak_bytes"] > 10**7 and stage["runs"] == 1
    weights = (tmp_path / "base" / "model.safetensors").stat().st_size
    assert figures["stages"]["merge"]["disk_bytes"] > len(entries) * weights

    participant, organiser = tmp_path / "run" / "participant", tmp_path / "run" / "organiser"
    secret = (organiser / "secret.txt").read_text().strip()
    items = [i for sets in hidden_sets(6, secret, 0.25) for found in sets.values() for i in found]
    assert leaks(participant, items, secret) == []
    assert leaks(organiser / "hidden", items) != []
    results = [path for path in (participant / "data").rglob("*") if path.is_file()]
    assert any("mini_reading" in str(path) for path in results)
    assert not any("leaderboard" in str(path) or "final" in str(path) for path in results)

    again = run(tmp_path, problem, 8)
    assert again.returncode == 0, again.stderr
    stages = json.loads((tmp_path / "figures.json").read_text())["stages"]
    assert stages == figures["stages"]
    other = run(tmp_path, problem, 9)
    assert other.returncode == 1 and len(other.stderr.splitlines()) == 1
    assert "choose another --folder" in other.stderr
