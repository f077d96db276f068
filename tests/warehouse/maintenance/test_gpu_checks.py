"""What doctor finds of GPUs, by what torch and the driver say: cases of machines that differ."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from warehouse.maintenance import gpu_checks
from warehouse.maintenance.gpu_checks import Check

GIB = 2**30
NO_GPU: dict[str, Any] = {
    "gpus": [], "mps": False, "torch": "2.13.0+cu130", "cuda": "13.0", "hip": None, "archs": [],
    "said": [], "bf16": True,
}  # fmt: skip
ARCHS = ["sm_75", "sm_80", "sm_90", "sm_120"]
TOO_OLD = (
    "CUDA initialization: The NVIDIA driver on your system is too old (found version 12080). "
    "Please update your GPU driver"
)
VERSION = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build\n"
    "GCC version: gcc version 12.2.0\n"
)


def gpus(*cards: list[Any], **changes: Any) -> dict[str, Any]:
    return {**NO_GPU, "gpus": list(cards), "archs": ARCHS, **changes}


H100 = ["NVIDIA H100 80GB HBM3", int(79.2 * GIB), int(78.6 * GIB), [9, 0]]

CASES: dict[str, tuple[dict[str, Any], str, list[tuple[str, str, str, str]]]] = {
    "no GPU": (NO_GPU, "", [("device", "note", "no GPU, ", "make demo")]),
    "a driver too old for the build": (
        {**NO_GPU, "said": [TOO_OLD]},
        VERSION,
        [
            (
                "device",
                "missing",
                "NVIDIA driver 570.124.06; torch 2.13.0+cu130 is built for CUDA 13.0, which needs "
                "driver 580 or newer",
                "update the driver, or install a build of torch for an older CUDA",
            )
        ],
    ),
    "only torch's words": (
        {**NO_GPU, "said": [TOO_OLD]},
        "",
        [("device", "missing", "driver on your system is too old", "update the driver")],
    ),
    "a build for processors": (
        {**NO_GPU, "torch": "2.13.0+cpu", "cuda": None},
        VERSION,
        [("device", "missing", "is a build for processors", "build of torch for CUDA")],
    ),
    "healthy cards": (
        gpus(H100, H100),
        VERSION,
        [
            ("GPU 0", "ok", "78.6 of 79.2 GiB free, compute capability 9.0", ""),
            ("GPU 1", "ok", "NVIDIA H100", ""),
            ("FlashAttention", "ok", "", ""),
        ],
    ),
    "a card that others use": (
        gpus([*H100[:2], 40 * GIB, [9, 0]]),
        VERSION,
        [
            ("GPU 0", "note", "40.0 of 79.2 GiB free", "nvidia-smi"),
            ("FlashAttention", "ok", "", ""),
        ],
    ),
    "a card without bfloat16": (
        gpus(["Tesla T4", int(14.6 * GIB), int(14.5 * GIB), [7, 5]]),
        VERSION,
        [
            ("GPU 0", "note", "bfloat16 would be emulated", "--dtype float16"),
            ("FlashAttention", "ok", "", ""),
        ],
    ),
    "a card older than the build": (
        gpus(["Tesla V100-SXM2-16GB", 16 * GIB, 16 * GIB, [7, 0]]),
        VERSION,
        [
            ("GPU 0", "missing", "is built for 7.5 and newer", "older CUDA"),
            ("FlashAttention", "ok", "", ""),
        ],
    ),
    "a broken card beside a healthy one": (
        gpus(H100, [*H100[:2], "CUDA error: uncorrectable ECC error encountered", [9, 0]]),
        VERSION,
        [
            ("GPU 0", "ok", "", ""),
            ("GPU 1", "missing", "can't be used (CUDA error: uncorrectable", "without 1"),
            ("FlashAttention", "ok", "", ""),
        ],
    ),
    "AMD": (
        gpus(["AMD Instinct MI300X", 192 * GIB, 191 * GIB, [9, 4]], hip="6.4", archs=["gfx942"]),
        "",
        [("GPU 0", "ok", "191.0 of 192.0 GiB", ""), ("FlashAttention", "ok", "", "")],
    ),
    "a Mac": ({**NO_GPU, "mps": True}, "", [("device", "ok", "Apple GPU", "")]),
}


@pytest.mark.parametrize("case", CASES)
def test_what_torch_and_the_driver_say_decides(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, version, expected = CASES[case]
    driver = tmp_path / "version"
    if version:
        driver.write_text(version)
    monkeypatch.setattr(gpu_checks, "DRIVER_VERSION", driver)
    monkeypatch.setattr(gpu_checks.shutil, "which", lambda name: None)
    monkeypatch.setattr(
        gpu_checks.subprocess,
        "run",
        lambda *args, **options: subprocess.CompletedProcess(args, 0, json.dumps(said), ""),
    )
    found = gpu_checks.gpu_checks()
    assert [(check.name, check.level) for check in found] == [each[:2] for each in expected]
    for check, (_, level, finding, remedy) in zip(found, expected, strict=True):
        assert finding in check.finding and remedy in check.remedy
        assert bool(check.remedy) == (level != "ok")


def test_the_probe_runs_for_real() -> None:
    checks = gpu_checks.gpu_checks()
    assert checks and all(isinstance(check, Check) for check in checks)
    assert not any("does not start" in check.finding for check in checks)


def test_a_torch_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_checks, "_PROBE", "raise ImportError('libcudart.so.13')")
    (check,) = gpu_checks.gpu_checks()
    assert check.level == "missing" and "libcudart.so.13" in check.finding
