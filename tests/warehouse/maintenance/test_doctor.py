"""Doctor: names what is missing, with the command that fixes it, and fails then."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tokenmart import cli
from warehouse.files import sha256_file
from warehouse.maintenance import doctor
from warehouse.maintenance.doctor import Check, devices, examine
from warehouse.paths import Workspace
from warehouse.sources.lock_file import check_sha256

PROBLEMS = Path(__file__).parents[3] / "data" / "problems"

PROBLEM = """\
name: tiny
title: t
models:
  - {full_id: local, family: f, source: {kind: local, path: here}}
  - {full_id: org/hub, family: f, source: {kind: hub}}
probes: [{kind: full}]
documents: {kind: json, path: data/proxy/docs.json, locked: true}
target: {kind: file, path: results/target.json}
"""


@pytest.fixture(autouse=True)
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting torch takes seconds; one test does it for real."""
    monkeypatch.setattr(doctor, "devices", lambda: [Check("device", "ok", "stub")])


def by_name(checks: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


def test_this_environment_is_healthy(workspace: Workspace) -> None:
    checks = by_name(examine(workspace, None))
    assert [name for name, check in checks.items() if check.level == "missing"] == []
    assert checks["torch"].finding.startswith("2.")


def test_a_problem_that_lacks_everything(workspace: Workspace) -> None:
    (workspace.problems / "tiny.yml").write_text(PROBLEM)
    checks = by_name(examine(workspace, "tiny"))
    fetch = "tokenmart data fetch --problem tiny"
    assert checks["documents: data/proxy/docs.json"].remedy.startswith(f"{fetch} --only documents")
    target = checks["target: target.json"]
    assert target.level == "note" and f"{fetch} --only target" in target.remedy
    assert checks["models"].finding == "2 not here: local, org/hub"
    assert checks["models"].remedy == f"{fetch} --only models"
    assert checks["models"].level == "missing"


def test_what_is_there_is_not_missing(workspace: Workspace) -> None:
    (workspace.problems / "tiny.yml").write_text(
        PROBLEM.replace("{kind: hub}", "{kind: local, path: here}")
    )
    for path in ("here/config.json", "data/proxy/docs.json", "results/target.json"):
        (workspace.root / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace.root / path).touch()
    assert {check.level for check in examine(workspace, "tiny")[-3:]} == {"ok"}


def test_a_locked_file_that_changed_is_not_ok(workspace: Workspace) -> None:
    (workspace.problems / "tiny.yml").write_text(PROBLEM)
    path = workspace.root / "results" / "target.json"
    path.parent.mkdir()
    path.write_text("{}")
    locked = sha256_file(path)
    assert check_sha256(workspace, "tiny", path, locked)
    assert by_name(examine(workspace, "tiny"))["target: target.json"].level == "ok"
    path.write_text("[]")
    target = by_name(examine(workspace, "tiny"))["target: target.json"]
    assert target.level == "missing" and target.remedy.startswith(f"restore {path}")
    assert f"expected sha256 {locked}, found {sha256_file(path)}" in target.finding
    path.unlink()
    gone = by_name(examine(workspace, "tiny"))["target: target.json"]
    assert gone.level == "missing", "a target that was read already is no later step"


def test_a_full_disk_is_missing_space(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**12, 10**12, 10**9))
    disk = by_name(examine(workspace, None))["disk"]
    assert (disk.level, "set TOKENMART_DATA" in disk.remedy) == ("missing", True)


def test_the_command_fails_when_something_is_missing(workspace: Workspace) -> None:
    (workspace.problems / "tiny.yml").write_text(PROBLEM)
    healthy = CliRunner().invoke(cli, ["doctor"])
    assert healthy.exit_code == 0
    result = CliRunner().invoke(cli, ["doctor", "--problem", "tiny"])
    assert result.exit_code == 1
    assert "→ tokenmart data fetch --problem tiny --only models" in result.stdout
    assert result.stderr.startswith("error: missing: documents: data/proxy/docs.json, ")
    assert CliRunner().invoke(cli, ["doctor", "--problem", "none"]).exit_code == 1


def test_a_problem_without_a_target(workspace: Workspace) -> None:
    (workspace.problems / "tiny.yml").write_text(PROBLEM.split("target:")[0])
    result = CliRunner().invoke(cli, ["doctor", "--json", "--problem", "tiny"])
    findings: list[dict[str, Any]] = json.loads(result.stdout)
    assert {"name", "level", "finding", "remedy"} == set(findings[0])
    assert not any(finding["name"].startswith("target") for finding in findings)


def test_imported_scores_are_counted(workspace: Workspace) -> None:
    imported = PROBLEM.split("target:")[0] + "target: {kind: imported}\n"
    (workspace.problems / "tiny.yml").write_text(imported)
    folder = workspace.downstream / "problem=tiny" / "model_id=org--hub"
    folder.mkdir(parents=True)
    (folder / "items.parquet").touch()
    target = by_name(examine(workspace, "tiny"))["target"]
    assert (target.level, target.finding) == ("note", "scores of 1 of 2 models are here")
    assert target.remedy == "tokenmart data import --problem tiny"


def test_models_still_to_fetch_are_sized(workspace: Workspace) -> None:
    (workspace.problems / "tiny.yml").write_text(PROBLEM)
    assert "unknown size" in by_name(examine(workspace, "tiny"))["downloads"].finding
    sized = PROBLEM.replace("{kind: hub}", "{kind: hub}, parameters: 1000000000")
    (workspace.problems / "tiny.yml").write_text(sized)
    assert "2.0 GB" in by_name(examine(workspace, "tiny"))["downloads"].finding
    shutil.copy(PROBLEMS / "no4k.yml", workspace.problems)
    models = by_name(examine(workspace, "no4k"))["models"]
    assert models.finding.startswith("17 not here") and "stock-dynamic" not in models.finding


H100 = ["NVIDIA H100 80GB HBM3", int(78.6 * 2**30), int(79.2 * 2**30), ""]
NO_GPU: dict[str, Any] = {"gpus": [], "mps": False, "warned": []}
TOO_OLD = "CUDA initialization: The NVIDIA driver on your system is too old (found version 12080)"
MACHINES: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "no GPU": (NO_GPU, [("device", "note")]),
    "a driver too old": ({**NO_GPU, "warned": [TOO_OLD]}, [("device", "missing")]),
    "healthy cards": ({**NO_GPU, "gpus": [H100, H100]}, [("GPU 0", "ok"), ("GPU 1", "ok")]),
    "broken card": ({**NO_GPU, "gpus": [["A", 0, 0, "ECC error"]]}, [("GPU 0", "missing")]),
    "a Mac": ({**NO_GPU, "mps": True}, [("device", "ok")]),
}


@pytest.mark.parametrize("machine", MACHINES)
def test_devices_as_torch_reports_them(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found, expected = MACHINES[machine]
    done = subprocess.CompletedProcess([], 0, json.dumps(found), "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    assert [(check.name, check.level) for check in devices()] == expected


def test_a_torch_that_does_not_start_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any, **options: Any) -> None:
        raise subprocess.CalledProcessError(1, "python", stderr="x\nImportError: libcudart\n")

    monkeypatch.setattr(subprocess, "run", broken)
    (check,) = devices()
    assert check.level == "missing" and "ImportError: libcudart" in check.finding


def test_nothing_of_extraction_is_imported(workspace: Workspace) -> None:
    """A light installation has no huggingface_hub and no torch."""
    (workspace.problems / "tiny.yml").write_text(PROBLEM)
    code = """
import sys
for name in ("torch", "transformers", "huggingface_hub", "tokenizers"):
    sys.modules[name] = None
from warehouse.maintenance import doctor
from warehouse.paths import find_workspace
doctor.find_spec = lambda name: None
assert {"models", "downloads"} <= {check.name for check in doctor.examine(find_workspace(), "tiny")}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
