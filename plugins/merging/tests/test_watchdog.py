"""A SIGTERM ends what a merge has started; memory of GPUs is measured, or not claimed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from plugins.merging import watchdog
from plugins.merging.problem import Limits
from plugins.merging.watchdog import Cost, OverLimitError, run_within
from warehouse.errors import TokenmartError


@pytest.mark.parametrize("signal_", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_ended_ends_the_process_that_it_watches(signal_, tmp_path):
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from plugins.merging.watchdog import run_within\n"
        "from plugins.merging.problem import Limits\n"
        "child = 'import os, time; print(os.getpid(), flush=True); time.sleep(3600)'\n"
        "run_within([sys.executable, '-c', child], Path(sys.argv[1]), Limits(), 'it',"
        " dict(os.environ))"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    log = tmp_path / "log.txt"
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as run:
        while not (log.is_file() and log.read_text().endswith("\n")):
            time.sleep(0.05)
        child = psutil.Process(int(log.read_text()))
        run.send_signal(signal_)
        interrupted = run.stderr is not None and "KeyboardInterrupt" in run.stderr.read()
        assert interrupted == (signal_ == signal.SIGTERM)
    _, left = psutil.wait_procs([child], timeout=30)
    assert not left


def test_files_elsewhere_and_temporary_ones_are_disk_space(tmp_path):
    """Results that were there before, and that are kept, don't count."""
    folder, store = tmp_path / "run", tmp_path / "store"
    folder.mkdir()
    store.mkdir()
    (store / "before").write_bytes(bytes(50_000))
    code = f"open('{store}/rows', 'wb').write(bytes(700_000)); import tempfile, time\n"
    code += "open(tempfile.mkstemp()[1], 'wb').write(bytes(90_000)); time.sleep(1)"
    command = [sys.executable, "-c", code]
    cost = run_within(command, folder, Limits(), "it", dict(os.environ), [store])
    assert 790_000 <= cost.disk_bytes < 800_000
    (store / "rows").unlink()
    with pytest.raises(OverLimitError):
        run_within(command, folder, Limits(disk_gb=0.0005), "it", dict(os.environ), [store])


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A made-up nvidia-smi, which prints the file `devices` beside it: MiB in use on each GPU."""
    (tmp_path / "nvidiactl").touch()
    monkeypatch.setattr(watchdog, "NVIDIA_DEVICE", str(tmp_path / "nvidiactl"))
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\ncat {tmp_path}/devices")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (tmp_path / "devices").write_text("1000\n10\n")
    return tmp_path


def growing(folder: Path, limits: Limits) -> Cost:
    """The cost of a process that takes 3 GiB, and of which 0.5 GiB are on a second GPU."""
    code = f"import time; open('{folder}/devices', 'w').write('3500\\n522\\n'); time.sleep(1.5)"
    return run_within([sys.executable, "-c", code], folder, limits, "it", dict(os.environ))


def test_gpu_memory_is_what_the_devices_have_grown_by(nvidia_smi):
    assert growing(nvidia_smi, Limits(gpu_memory_gb=4)).gpu_bytes == 3012 << 20


def test_a_run_over_its_gpu_memory_is_ended(nvidia_smi):
    with pytest.raises(OverLimitError) as ended:
        growing(nvidia_smi, Limits(gpu_memory_gb=2))
    assert ended.value.cost.gpu_bytes == 3012 << 20 and ended.value.code == "over-limit"


def test_a_limit_that_cannot_be_measured_is_refused(nvidia_smi):
    def run(limits: Limits) -> Cost:
        return run_within([sys.executable, "-c", ""], nvidia_smi, limits, "it", dict(os.environ))

    (nvidia_smi / "devices").write_text("")
    with pytest.raises(TokenmartError) as refused:
        run(Limits(gpu_memory_gb=1))
    assert (refused.value.code, refused.value.where) == (
        "gpu-not-measured", "limits.gpu_memory_gb",
    )  # fmt: skip
    assert run(Limits()).gpu_bytes is None
    (nvidia_smi / "nvidiactl").unlink()  # no GPU
    assert run(Limits(gpu_memory_gb=1)).gpu_bytes is None
