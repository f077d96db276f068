"""The device a plan is made for: torch, slow to import, is asked only where a GPU may be."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest
from refusal import refuses

from extract import devices


@pytest.mark.parametrize(
    ("system", "machine", "driver", "expected"),
    [
        ("darwin", "arm64", None, "mps"),
        ("darwin", "x86_64", None, "cpu"),
        ("linux", "aarch64", None, "cpu"),
        ("linux", "x86_64", None, "cpu"),
        ("linux", "x86_64", "/proc/driver/nvidia", "mps"),
        ("linux", "x86_64", "/dev/kfd", "mps"),
        ("linux", "x86_64", "/dev/dxg", "mps"),
    ],
)
def test_torch_is_asked_where_a_gpu_may_be(system, machine, driver, expected, monkeypatch):
    """`mps` is a placeholder for torch's choice."""
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(Path, "exists", lambda path: str(path) == driver)
    monkeypatch.setattr(devices, "resolve_device", lambda asked: "mps")
    assert devices.likely_device() == expected
    assert devices.planned_device("auto") == (expected, True)


@pytest.mark.parametrize("asked", ["xpu", "xpu:1", "cuda:1", "mps", "auto-map", "cpu"])
def test_a_plan_is_made_for_any_device_that_there_is_somewhere(asked, monkeypatch):
    def not_here(*_: object, **__: object) -> None:
        # what torch says of a device that it was not built for
        raise {"mps": NotImplementedError, "xpu": AssertionError}.get(asked[:3], RuntimeError)

    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.empty", not_here)
    if asked in ("cpu", "auto-map"):
        assert devices.planned_device(asked) == (asked, True)
        return
    with refuses("no-device", "--device"):
        devices.resolve_device(asked)
    assert devices.planned_device(asked) == (asked, False)


@pytest.mark.parametrize("asked", ["gpu", "cuda:", "xpu:a", "cpu:0 ", ""])
def test_a_word_that_is_no_device_anywhere_is_refused(asked):
    with refuses("no-device", "--device"):
        devices.planned_device(asked)
