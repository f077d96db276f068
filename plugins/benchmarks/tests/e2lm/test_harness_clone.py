"""Submissions packaged against a clone of lm-evaluation-harness, and run by its own command.

The clone is made of the installed harness; $LM_EVAL_CLONE names another, bare or not, whose HEAD is
used.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from plugins.benchmarks.e2lm.new_task import KINDS, METRIC, Kind, new_task
from plugins.benchmarks.e2lm.patch import TASKS, git
from plugins.benchmarks.scores.harness_results import read_results
from tokenmart import cli

# six checkouts of 15,000 files and six starts of the harness, on a machine that may be busy
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

TOKEN = "hf_" + "NotARealTokenJustLetters" + "0123"
IDENTITY = ("-c", "user.name=t", "-c", "user.email=t@example.org")
METRICS = "lm_eval/api/metrics.py"

OWN_AGGREGATION = '''

@register_aggregation("middle")
def middle(items):
    """The upper median."""
    return sorted(items)[len(items) // 2]
'''


def name_of(kind: Kind) -> str:
    return "real_" + kind.replace("-", "_")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = importlib.util.find_spec("lm_eval")
    if found is None or found.origin is None:
        pytest.skip("lm_eval is not installed (run make setup)")
    if named := os.environ.get("LM_EVAL_CLONE"):
        return Path(named).resolve()
    installed, folder = Path(found.origin).parent, tmp_path_factory.mktemp("clone")

    def most_tasks(place: str, names: list[str]) -> list[str]:
        tasks = installed / "tasks"
        top = Path(place) == tasks
        return [n for n in names if n == "__pycache__" or (top and (tasks / n).is_dir())]

    shutil.copytree(installed, folder / "lm_eval", ignore=most_tasks)
    shutil.copytree(installed / "tasks" / "arc", folder / "lm_eval/tasks/arc")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, *IDENTITY, "commit", "-q", "-m", "x")
    return folder


def cloned(source: Path, folder: Path) -> Path:
    git(folder.parent, "clone", "--quiet", "--shared", str(source), folder.name)
    return folder


@pytest.fixture(scope="module")
def mine(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The user's clone."""
    return cloned(source, tmp_path_factory.mktemp("mine") / "lm-evaluation-harness")


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    return TOKEN


def scaffold(kind: Kind, folder: Path, name: str = "") -> Path:
    name = name or name_of(kind)
    done = CliRunner().invoke(cli, ["e2lm", "new", name, "--kind", kind, "--folder", str(folder)])
    assert done.exit_code == 0, done.output
    return folder / name


def package(task: Path, harness: Path, out: Path, *more: str) -> Result:
    words = ["--task", str(task), "--harness", str(harness), "--out", str(out), "--limit", "5"]
    return CliRunner().invoke(cli, ["e2lm", "package", *words, *more])


def own_run(clone: Path, names: list[str], out: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Results and samples of the harness's own command and dummy model, in the clone."""
    words = ["--model", "dummy", "--model_args", "pretrained=none", "--tasks", ",".join(names)]
    words += ["--limit", "5", "--log_samples"]
    done = subprocess.run(
        [sys.executable, "-m", "lm_eval", *words, "--output_path", str(out)],
        cwd=clone,
        env={**os.environ, "PYTHONPATH": str(clone), "HF_HUB_OFFLINE": "1"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    (results,) = out.rglob("results_*.json")
    samples = {}
    for name in names:
        (path,) = out.rglob(f"samples_{name}_*.jsonl")
        samples[name] = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return json.loads(results.read_text("utf-8"))["results"], samples


def test_all_kinds_are_packaged_and_run_by_the_harness_itself(source, mine, tmp_path, token):
    official = cloned(source, tmp_path / "official")
    for kind in KINDS:
        name, out = name_of(kind), tmp_path / f"{kind}.zip"
        task = scaffold(kind, tmp_path)
        (task / "NOTES.md").write_bytes(b"a line with spaces at its end  \r\n")
        done = package(task, mine, out)
        assert done.exit_code == 0, done.output
        assert token not in done.output
        assert out.stat().st_mode & 0o077 == 0
        with zipfile.ZipFile(out) as archive:
            assert sorted(archive.namelist()) == ["evaluation.patch", "metadata.yaml"]
            metadata = yaml.safe_load(archive.read("metadata.yaml"))
            patch = archive.read("evaluation.patch")
        named = {"task_name": name, "task_metric": METRIC[kind], "hf_token": token}
        assert metadata == named and token.encode() not in patch
        git(official, "apply", "--index", "-", given=patch)
        for path in task.iterdir():
            assert (official / TASKS / name / path.name).read_bytes() == path.read_bytes()
    assert git(mine, "status", "--porcelain") == b""

    names = [name_of(kind) for kind in KINDS]
    results, samples = own_run(official, names, tmp_path / "results")
    for kind, name in zip(KINDS, names, strict=True):
        (value,) = (v for k, v in results[name].items() if k.split(",")[0] == METRIC[kind])
        assert isinstance(value, int | float)
        assert len(samples[name]) == 5
    collected, _ = read_results([tmp_path / "results"])
    margins = [score.value for score in collected if score.metric == "loglik_margin_mean"]
    assert margins == [results[name_of("multiple-choice")]["loglik_margin_mean,none"]]
    assert {score.limit for score in collected} == {5}
    assert {score.benchmark for score in collected} == {f"{name}-0shot" for name in names}
    better = {score.metric: score.direction for score in collected}
    assert better["perplexity"] == "lower" and better["acc"] == "higher"
    for sample in samples[name_of("multiple-choice")]:
        nats = [float(pair[0]) for pair in sample["filtered_resps"]]
        gold = nats.pop(sample["doc"]["gold"])
        assert sample["loglik_margin_mean"] == pytest.approx(gold - sum(nats) / 3, abs=1e-9)


def test_the_same_task_gives_the_same_patch_in_a_shallow_clone_and_with_a_metric_of_its_own(
    source, mine, tmp_path, token
):
    task = scaffold("cloze", tmp_path)
    git(tmp_path, "clone", "--quiet", "--depth", "1", source.as_uri(), "shallow")
    outs = {name: tmp_path / f"{name}.zip" for name in ("whole", "shallow", "own")}
    for name, clone in (("whole", mine), ("shallow", tmp_path / "shallow")):
        done = package(task, clone, outs[name])
        assert done.exit_code == 0, done.output
    assert outs["whole"].read_bytes() == outs["shallow"].read_bytes()

    metrics = tmp_path / "shallow" / METRICS
    metrics.write_text(metrics.read_text("utf-8") + OWN_AGGREGATION, "utf-8")
    config = task / f"{task.name}.yaml"
    config.write_text(config.read_text().replace("aggregation: perplexity", "aggregation: middle"))
    done = package(task, tmp_path / "shallow", outs["own"], "--metric", "perplexity")
    assert done.exit_code == 0, done.output
    with zipfile.ZipFile(outs["own"]) as archive:
        assert archive.read("evaluation.patch").count(b"diff --git") == 4


def test_other_kinds_run_and_broken_tasks_are_named(mine, tmp_path):
    """In one process of the harness, as `package` runs it: what is found, and what fails how."""
    tasks = tmp_path / "tasks"
    for kind in KINDS:
        new_task(kind.replace("-", "_"), kind, tasks)
    new_task("no_field", "cloze", tasks)
    (tasks / "no_field" / "items.jsonl").write_text('{"question": "q"}\n')
    new_task("no_metric", "cloze", tasks)
    new_task("no_gold", "multiple-choice", tasks)
    with (tasks / "no_gold" / "items.jsonl").open("a") as file:
        file.write('{"question": "Which?", "choices": ["a", "b"]}\n')
        file.write('{"question": "And which?", "choices": ["a", "b"], "gold": 2}\n')
    new_task("no_answer", "cloze", tasks)
    with (tasks / "no_answer" / "items.jsonl").open("a") as file:
        file.write('{"question": "Which?"}\n{"answer": "this"}\n')
    new_task("no_json", "multiple-choice", tasks)
    with (tasks / "no_json" / "items.jsonl").open("a") as file:
        file.write("\n{question: 1}\n")
    new_task("no_index", "multiple-choice", tasks)
    with (tasks / "no_index" / "items.jsonl").open("a") as file:
        file.write('{"question": "Which?", "choices": ["a", "b"], "gold": "b"}\n')
    broken = tasks / "no_metric" / "no_metric.yaml"
    broken.write_text(broken.read_text().replace("metric: acc", "metric: !function no_metric.x"))
    script = (
        f"import sys, json; sys.path.insert(0, {str(Path(__file__).parents[4])!r})\n"
        "import lm_eval.tasks as t; original = t.TaskManager\n"
        f"t.TaskManager = lambda: original(include_path={str(tasks)!r}, include_defaults=False)\n"
        "from plugins.benchmarks.e2lm.harness_check import check\n"
        "print(json.dumps({n: check(n, 5) for n in sys.argv[1:]}, default=str))"
    )
    names = ["multiple_choice", "cloze", "no_field", "no_metric", "none"]
    names += ["no_gold", "no_answer", "no_json", "no_index"]
    done = subprocess.run(
        [sys.executable, "-c", script, *names],
        cwd=mine, capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    for kind in KINDS:
        made = found[kind.replace("-", "_")]
        assert made["failed"] is None, made
        assert len(made["items"]) == 118
        assert METRIC[kind] in {key.split(",")[0] for key in made["results"]}
    for name in ("no_field", "no_metric", "none"):
        assert found[name]["failed"] in ("load", "items", "run")
        assert found[name]["error"]
    for name in ("no_gold", "no_answer"):
        assert found[name]["failed"] == "items"
        assert re.findall(r"sample (\d+)", found[name]["error"]) == ["118", "119"]
    for name, line in (("no_json", 120), ("no_index", 119)):
        assert found[name]["failed"] == "load" and f"line {line}" in found[name]["error"]


def test_the_hint_of_a_new_task_is_a_command_that_runs(source, tmp_path):
    folder = tmp_path / "my tasks"
    done = CliRunner().invoke(cli, ["e2lm", "new", "hinted", "--folder", str(folder)])
    words = shlex.split(done.output.splitlines()[-1].removeprefix("try it: tokenmart "))
    done = CliRunner().invoke(cli, [*words, "--dry-run"])
    assert done.exit_code == 0, done.output
    assert "hinted-0shot" in done.output and "80 requests" in done.output
