"""A SIGTERM ends what a merge has started; memory of GPUs is measured, or not claimed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from plugins.merging import watchdog
from plugins.merging.problem import Limits
from plugins.merging.watchdog import GpuMeter, OverLimitError, run_within
from warehouse.errors import TokenmartError


def test_a_terminated_run_ends_the_process_that_it_watches(tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from plugins.merging.watchdog import run_within\n"
        "from plugins.merging.problem import Limits\n"
        "child = 'import os, time; print(os.getpid(), flush=True); time.sleep(3600)'\n"
        "def tick(seconds):\n"
        "    print((Path(sys.argv[1]) / 'log.txt').read_text(), flush=True)\n"
        "run_within([sys.executable, '-c', child], Path(sys.argv[1]), Limits(), 'it',"
        " dict(os.environ), tick)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout and run.stderr
        child = psutil.Process(int(next(line for line in run.stdout if line.strip())))
        run.send_signal(signal.SIGTERM)
        run.stdout.read()
        assert "KeyboardInterrupt" in run.stderr.read()
    assert not child.is_running()


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A made-up nvidia-smi, which prints the files `processes` and `devices` beside it."""
    (tmp_path / "nvidiactl").touch()
    monkeypatch.setattr(watchdog, "NVIDIA_DEVICE", str(tmp_path / "nvidiactl"))
    program = tmp_path / "nvidia-smi"
    program.write_text(
        f'#!/bin/sh\ncd {tmp_path}\ncase "$1" in *apps*) cat processes;; *) cat devices;; esac'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (tmp_path / "processes").write_text("")
    (tmp_path / "devices").write_text("0, 1000\n1, 10\n")
    return tmp_path


def test_memory_is_that_of_the_process_where_it_is_listed(nvidia_smi: Path) -> None:
    meter = GpuMeter(Limits(gpu_memory_gb=1))
    (nvidia_smi / "processes").write_text(f"{os.getpid()}, 300\n1, 7000\n")
    (nvidia_smi / "devices").write_text("0, 9000\n1, 10\n")
    assert meter.bytes_of(os.getpid()) == 300 << 20


@pytest.mark.parametrize("processes", ["", "[Not Found], 200\n"])
def test_in_a_container_it_is_what_the_devices_have_grown_by(
    nvidia_smi: Path, processes: str
) -> None:
    (nvidia_smi / "processes").write_text(processes)
    meter = GpuMeter(Limits(gpu_memory_gb=1))
    assert meter.bytes_of(os.getpid()) == 0
    (nvidia_smi / "devices").write_text("0, 3000\n1, 510\n")
    assert meter.bytes_of(os.getpid()) == 2500 << 20


def test_the_limit_acts_in_a_container(nvidia_smi: Path) -> None:
    devices = nvidia_smi / "devices"
    code = f"import time; open({str(devices)!r}, 'w').write('0, 4000'); time.sleep(60)"
    with pytest.raises(OverLimitError) as ended:
        run_within(
            [sys.executable, "-c", code],
            nvidia_smi,
            Limits(gpu_memory_gb=2),
            "it",
            dict(os.environ),
        )
    assert ended.value.cost.gpu_bytes == 2990 << 20 and ended.value.code == "over-limit"


def test_a_limit_that_cannot_be_measured_is_refused(nvidia_smi: Path) -> None:
    (nvidia_smi / "devices").write_text("")
    with pytest.raises(TokenmartError) as refused:
        GpuMeter(Limits(gpu_memory_gb=1))
    assert (refused.value.code, refused.value.where) == (
        "gpu-not-measured", "limits.gpu_memory_gb",
    )  # fmt: skip
    assert GpuMeter(Limits()).bytes_of(os.getpid()) is None
