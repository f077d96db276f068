"""Doctor: names what is missing, and fails then."""

from __future__ import annotations

import shutil
import subprocess
import sys
import warnings
from collections import namedtuple
from typing import Any

import pytest
from click.testing import CliRunner

from tokenmart import cli
from warehouse.maintenance import doctor
from warehouse.maintenance.doctor import Check, devices, examine

GIB = 2**30


@pytest.fixture
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting torch takes seconds."""
    monkeypatch.setattr(doctor, "devices", lambda: [Check("device", "stub")])


def test_this_environment_is_healthy(workspace, no_torch):
    checks = {check.name: check for check in examine(workspace)}
    assert [name for name, check in checks.items() if check.is_missing] == []
    assert checks["torch"].finding.startswith("2.") and {"memory", "disk"} <= checks.keys()


def test_a_full_disk_is_missing_space(workspace, monkeypatch, no_torch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**12, 10**12, 10**9))
    assert [check.name for check in examine(workspace) if check.is_missing] == ["disk"]


def test_the_command_fails_when_something_is_missing(workspace, monkeypatch, no_torch):
    assert CliRunner().invoke(cli, ["doctor"]).exit_code == 0
    monkeypatch.setattr(doctor, "devices", lambda: [Check("device", "broken", True)])
    assert CliRunner().invoke(cli, ["doctor"]).exit_code == 1


def no_memory(number: int) -> tuple[int, int]:
    raise RuntimeError("ECC error")


def old_driver() -> bool:
    warnings.warn("CUDA initialization: The NVIDIA driver on your system is too old", stacklevel=1)
    return False


MACHINES: dict[str, tuple[dict[str, Any], list[tuple[str, bool]]]] = {
    "no GPU": ({}, [("device", False)]),
    "a driver too old": ({"is_available": old_driver}, [("device", True)]),
    "healthy cards": (
        {"is_available": lambda: True, "mem_get_info": lambda number: (78 * GIB, 79 * GIB)},
        [("GPU 0", False), ("GPU 1", False)],
    ),
    "broken cards": (
        {"is_available": lambda: True, "mem_get_info": no_memory},
        [("GPU 0", True), ("GPU 1", True)],
    ),
}


@pytest.mark.parametrize("machine", MACHINES)
def test_devices_as_torch_reports_them(machine, monkeypatch):
    import torch

    found, expected = MACHINES[machine]
    usual = {
        "is_available": lambda: False,
        "device_count": lambda: 2,
        "get_device_name": lambda number: "H100",
    }
    for name, value in {**usual, **found}.items():
        monkeypatch.setattr(torch.cuda, name, value)
    assert [(check.name, check.is_missing) for check in devices()] == expected


def test_a_torch_that_does_not_start_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    (check,) = devices()
    assert check.is_missing


def test_nothing_of_extraction_is_imported(workspace):
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
