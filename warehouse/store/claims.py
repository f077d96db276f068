"""Claims: who owns a claim file, and whether that process is alive.

A process is known by its machine, its id and when it started. Containers may have one hostname, and
their process ids the same numbers: the boot and the PID namespace tell them apart.

Age is measured by the clock of the file system. A clock that is set while a process works can cost
it a claim: another process then computes the same unit, and the later of both is kept.
"""

from __future__ import annotations

import os
import socket
import uuid
from contextlib import suppress
from functools import cache
from pathlib import Path

import psutil

EXPIRY_SECONDS = 120.0
CLOCK_SECONDS = 60.0
"""By how much the start time of a process may differ: it follows the wall clock."""


def identity() -> str:
    """This process: machine, process id, when it started."""
    return f"{machine()} {os.getpid()} {psutil.Process().create_time():.2f}"


@cache
def machine() -> str:
    """Where process ids are this process's: hostname, and on Linux the boot and PID namespace."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return "/".join(parts)


def abandoned_owner(path: Path) -> str | None:
    """The owner's identity when it died or has not touched its claim for long, else None.

    Raises:
        OSError: the folder can't be written (its clock can't be read).
    """
    try:
        owner, touched = path.read_text(), path.stat().st_mtime
    except FileNotFoundError:
        return None
    if died(owner) or file_system_now(path.parent) - touched > EXPIRY_SECONDS:
        return owner
    return None


def file_system_now(folder: Path) -> float:
    """The time as the file system of this folder has it, in seconds.

    Raises:
        OSError: the folder can't be written.
    """
    stamp = folder / f".now-{uuid.uuid4().hex}"
    stamp.write_bytes(b"")
    try:
        return stamp.stat().st_mtime
    finally:
        stamp.unlink(missing_ok=True)


def died(owner: str) -> bool:
    """Whether the owner ran on this machine and is gone."""
    try:
        place, pid, started = owner.split()
        if place != machine():
            return False
        return abs(psutil.Process(int(pid)).create_time() - float(started)) > CLOCK_SECONDS
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return True
    except (ValueError, psutil.AccessDenied):
        return False
