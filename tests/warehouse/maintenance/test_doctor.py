"""Doctor: names what is missing, with the command that fixes it, and fails then."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import namedtuple
from typing import Any

import pytest
from click.testing import CliRunner

from tokenmart import cli
from warehouse.maintenance import doctor
from warehouse.maintenance.doctor import Check, devices, examine
from warehouse.paths import Workspace


@pytest.fixture(autouse=True)
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting torch takes seconds; one test does it for real."""
    monkeypatch.setattr(doctor, "devices", lambda: [Check("device", "ok", "stub")])


def by_name(checks: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


def test_this_environment_is_healthy(workspace: Workspace) -> None:
    checks = by_name(examine(workspace))
    assert [name for name, check in checks.items() if check.level == "missing"] == []
    assert checks["torch"].finding.startswith("2.")


def test_a_full_disk_is_missing_space(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**12, 10**12, 10**9))
    disk = by_name(examine(workspace))["disk"]
    assert (disk.level, "set TOKENMART_DATA" in disk.remedy) == ("missing", True)


def test_the_command_fails_when_something_is_missing(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy = CliRunner().invoke(cli, ["doctor", "--json"])
    assert healthy.exit_code == 0
    assert {"name", "level", "finding", "remedy"} == set(json.loads(healthy.stdout)[0])
    monkeypatch.setattr(doctor, "devices", lambda: [Check("device", "missing", "broken")])
    assert CliRunner().invoke(cli, ["doctor"]).exit_code == 1


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
    code = """
import sys
for name in ("torch", "transformers", "huggingface_hub", "tokenizers"):
    sys.modules[name] = None
from warehouse.maintenance import doctor
from warehouse.paths import find_workspace
doctor.find_spec = lambda name: None
assert {"memory", "disk"} <= {check.name for check in doctor.examine(find_workspace())}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
