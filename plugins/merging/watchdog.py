"""Run a process, and end it with all its children if it exceeds its limits."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
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

_GUARD = """
import os, signal, subprocess, sys, threading
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)
def end_with_parent():
    os.read(0, 1)
    os.killpg(child.pid, signal.SIGKILL)
threading.Thread(target=end_with_parent, daemon=True).start()
sys.exit(child.wait())
"""
"""Runs a command, and kills it when its standard input ends: when the parent has ended, even if it
was killed."""


@dataclass(frozen=True)
class Cost:
    """Cost of a process: wall-clock seconds, and peaks in bytes.

    `peak_bytes` is resident memory of the process and its children; `disk_bytes` are files that it
    wrote, and that were there at one time; `gpu_bytes` is what the memory
    in use on all GPUs has grown by since the start, other programs' included; None without a GPU.
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


def folder_bytes(folder: Path) -> int:
    """Size of the files in a folder in bytes; targets of links are not counted."""
    total = 0
    # unlike `rglob`, `walk` ignores a folder that was removed meanwhile
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                stated = Path(place, name).lstat()
                total += stated.st_size if stat.S_ISREG(stated.st_mode) else 0
    return total


def run_within(
    command: Sequence[str],
    folder: Path,
    limits: Limits,
    what: str,
    environment: dict[str, str],
    results: Sequence[Path] = (),
) -> Cost:
    """Run a command in a folder; its output goes to `log.txt` there, and so do temporary files.

    Args:
        command: the command's words.
        folder: its working folder; files in it count as its disk space.
        results: other folders that it writes to; what they grow by counts, too.
        limits: limits of the run.
        what: its name in messages.
        environment: its environment variables.

    Raises:
        OverLimitError: a limit was exceeded; the process and all its children were ended.
        TokenmartError: the command failed (`run-failed`), and the message has its last line of
            output; or GPU memory has a limit and can't be measured (`gpu-not-measured`).
    """
    started = time.monotonic()
    before = gpu_bytes() if Path(NVIDIA_DEVICE).exists() else None
    stored = sum(map(folder_bytes, results))
    if limits.gpu_memory_gb is not None and before is None and Path(NVIDIA_DEVICE).exists():
        raise TokenmartError(
            "limits.gpu_memory_gb: nvidia-smi doesn't answer, so GPU memory can't be measured",
            code="gpu-not-measured",
            where="limits.gpu_memory_gb",
        )
    cost = Cost(0, 0, 0, None if before is None else 0)
    with (folder / "log.txt").open("wb") as log, sigterm_interrupts():
        process = subprocess.Popen(
            [sys.executable, "-c", _GUARD, *command],
            cwd=folder,
            env={**environment, "TMPDIR": str(folder.resolve())},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            running = True
            while running:
                running = process.poll() is None
                gpu = None if before is None else (gpu_bytes() or 0) - before
                grown = max(0, sum(map(folder_bytes, results)) - stored)
                cost = Cost(
                    time.monotonic() - started,
                    max(cost.peak_bytes, _resident(process.pid)),
                    max(cost.disk_bytes, folder_bytes(folder) + grown),
                    larger(cost.gpu_bytes, gpu),
                )
                if (over := over_limit(cost, limits)) is not None:
                    raise OverLimitError(f"{what}: ended, {over}", cost)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(POLL_SECONDS)
        finally:
            _end(process)
    if process.returncode != 0:
        lines = (folder / "log.txt").read_text("utf-8", "replace").strip().splitlines()
        reason = lines[-1][:300] if lines else f"exit code {process.returncode}"
        raise TokenmartError(f"{what}: failed ({reason})", code="run-failed")
    return cost


def over_limit(cost: Cost, limits: Limits) -> str | None:
    """A message on the first limit that a cost exceeds; None if it exceeds none."""
    for used, allowed, unit in (
        (cost.seconds, limits.seconds, "seconds"),
        (cost.peak_bytes / GIGABYTE, limits.memory_gb, "GB of memory"),
        ((cost.gpu_bytes or 0) / GIGABYTE, limits.gpu_memory_gb, "GB of GPU memory"),
        (cost.disk_bytes / GIGABYTE, limits.disk_gb, "GB of disk"),
    ):
        if allowed is not None and used > allowed:
            return f"{used:.3g} {unit}, {allowed:.3g} allowed"
    return None


def larger(one: int | None, other: int | None) -> int | None:
    """The larger of two peaks; None if neither was measured."""
    return other if one is None else max(one, other or 0)


def gpu_bytes() -> int | None:
    """Memory in use on all GPUs in bytes, by nvidia-smi; None without an answer.

    Processes can't be told apart: in a container, nvidia-smi lists none.
    """
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
        used = [int(line) for line in done.stdout.split()]
        return sum(used) << 20 if used else None
    return None


def _tree(pid: int) -> list[psutil.Process]:
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []


def _resident(guard: int) -> int:
    """Resident memory of what a guard runs, in bytes."""
    total = 0
    for process in _tree(guard)[1:]:
        with suppress(psutil.Error):
            total += process.memory_info().rss
    return total


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and its children, first with SIGTERM."""
    tree = _tree(process.pid) if process.poll() is None else []
    for member in tree:
        with suppress(psutil.Error):
            member.terminate()
    _, left = psutil.wait_procs(tree, GRACE_SECONDS)
    for member in left:
        with suppress(psutil.Error):
            member.kill()
    process.wait()
