"""Run a process, and end it with all its children if it exceeds its limits."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from extract.workers import sigterm_interrupts
from plugins.merging.problem import GIGABYTE, Limits
from warehouse.errors import TokenmartError

POLL_SECONDS = 0.2
NVIDIA_DEVICE = "/dev/nvidiactl"
GRACE_SECONDS = 5.0


@dataclass(frozen=True)
class Cost:
    """Cost of a process: wall-clock seconds, and peaks in bytes.

    `peak_bytes` is resident memory of the process and its children; `gpu_bytes` None without a GPU.
    """

    seconds: float
    peak_bytes: int
    disk_bytes: int
    gpu_bytes: int | None = None


class OverLimitError(TokenmartError):
    """A process exceeded its limits and was ended; `cost` is its cost until then."""

    def __init__(self, message: str, cost: Cost) -> None:
        super().__init__(message, code="over-limit")
        self.cost = cost


def raise_all(failures: Sequence[TokenmartError]) -> None:
    """Print all failures of several runs but the last, which is raised."""
    for failure in failures[:-1]:
        failure.show()
    if failures:
        raise failures[-1]


def folder_bytes(folder: Path) -> int:
    """Size of the files in a folder in bytes; targets of links are not counted."""
    total = 0
    # unlike `rglob`, `walk` ignores a folder that was removed meanwhile
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                found = Path(place, name).lstat()
                total += found.st_size if stat.S_ISREG(found.st_mode) else 0
    return total


def run_within(
    command: Sequence[str],
    folder: Path,
    limits: Limits,
    what: str,
    environment: dict[str, str],
    tick: Callable[[float], None] = lambda seconds: None,
    kept: str = "nothing of it was kept",
) -> Cost:
    """Run a command in a folder; its output goes to `log.txt` there.

    Args:
        command: the command's words.
        folder: its working folder; files in it count as its disk space.
        limits: limits of the run.
        what: its name in messages.
        environment: its environment variables.
        tick: called while it runs, with the seconds so far.
        kept: text on the files that a failure leaves.

    Raises:
        OverLimitError: a limit was exceeded; the process and all its children were ended.
        TokenmartError: the command failed, and the message has its last line of output; or GPU
            memory has a limit and can't be measured.
    """
    started = time.monotonic()
    peak = disk = 0
    gpu: int | None = None
    meter = GpuMeter(limits)
    with (folder / "log.txt").open("wb") as log, sigterm_interrupts():
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            while process.poll() is None:
                peak = max(peak, _resident(process.pid))
                disk = max(disk, folder_bytes(folder))
                gpu = larger(gpu, meter.bytes_of(process.pid))
                cost = Cost(time.monotonic() - started, peak, disk, gpu)
                if (over := over_limit(cost, limits)) is not None:
                    raise OverLimitError(f"{what}: ended, {over}; {kept}", cost)
                tick(cost.seconds)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(POLL_SECONDS)
        finally:
            _end(process)
    cost = Cost(time.monotonic() - started, peak, max(disk, folder_bytes(folder)), gpu)
    if process.returncode != 0:
        lines = (folder / "log.txt").read_text("utf-8", "replace").strip().splitlines()
        reason = lines[-1][:300] if lines else f"exit code {process.returncode}"
        raise TokenmartError(f"{what}: failed ({reason}); {kept}")
    if (over := over_limit(cost, limits)) is not None:
        raise OverLimitError(f"{what}: refused, {over}; {kept}", cost)
    return cost


def over_limit(cost: Cost, limits: Limits) -> str | None:
    """A message on the first limit that a cost exceeds; None if it exceeds none."""
    costs = (
        cost.seconds,
        cost.peak_bytes / GIGABYTE,
        (cost.gpu_bytes or 0) / GIGABYTE,
        cost.disk_bytes / GIGABYTE,
    )
    for used, (name, allowed) in zip(costs, _named(limits), strict=True):
        if allowed is not None and used > allowed:
            return f"{used:.3g} {name}, {allowed:.3g} allowed"
    return None


def list_limits(limits: Limits) -> str:
    """All limits in one line."""
    given = [f"{allowed:g} {name}" for name, allowed in _named(limits) if allowed is not None]
    return ", ".join(given) or "none"


def _named(limits: Limits) -> list[tuple[str, float | None]]:
    return [
        ("seconds", limits.seconds),
        ("GB of memory", limits.memory_gb),
        ("GB of GPU memory", limits.gpu_memory_gb),
        ("GB of disk", limits.disk_gb),
    ]


def _tree(pid: int) -> list[psutil.Process]:
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []


def _resident(pid: int) -> int:
    total = 0
    for process in _tree(pid):
        with suppress(psutil.Error):
            total += process.memory_info().rss
    return total


class GpuMeter:
    """Memory on all GPUs used by a process and its children, by nvidia-smi.

    In a container, nvidia-smi lists no process: then it is what the memory of the devices has grown
    by since the meter was made, other programs' included.

    Raises:
        TokenmartError: there is a GPU and a limit of its memory, but nvidia-smi doesn't answer.
    """

    def __init__(self, limits: Limits) -> None:
        self._there = Path(NVIDIA_DEVICE).exists()
        self._before = self._devices() if self._there else None
        if self._there and self._before is None and limits.gpu_memory_gb is not None:
            raise TokenmartError(
                "limits.gpu_memory_gb: GPU memory can't be measured here (nvidia-smi doesn't "
                "answer); install it, or leave the limit out",
                code="gpu-not-measured",
                where="limits.gpu_memory_gb",
            )

    def bytes_of(self, pid: int) -> int | None:
        """Bytes in use; None without a GPU, or without an answer."""
        if self._before is None:
            return None
        rows = _nvidia_smi("--query-compute-apps=pid,used_memory")
        ids = {process.pid for process in _tree(pid)}
        own = [used for owner, used in rows if owner in ids] if rows else []
        if own:
            return sum(own) << 20
        now = self._devices()
        return None if now is None else max(0, now - self._before)

    def _devices(self) -> int | None:
        rows = _nvidia_smi("--query-gpu=index,memory.used")
        return sum(used for _, used in rows) << 20 if rows else None


def _nvidia_smi(query: str) -> list[tuple[int, int]]:
    """Rows of two whole numbers; none without an answer."""
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
        cells = [line.split(",") for line in done.stdout.splitlines() if "," in line]
        return [(int(one), int(other)) for one, other in cells]
    return []


def larger(one: int | None, other: int | None) -> int | None:
    """The larger of two peaks; None if neither was measured."""
    return other if one is None else max(one, other or 0)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and its children, first with SIGTERM."""
    tree = _tree(process.pid) if process.poll() is None else []
    for each in tree:
        with suppress(psutil.Error):
            each.terminate()
    _, left = psutil.wait_procs(tree, GRACE_SECONDS)
    for each in left:
        with suppress(psutil.Error):
            each.kill()
    process.wait()
