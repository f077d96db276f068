"""Claims: who owns a claim file, and whether that process is alive.

Age is measured by the clock of the file system, and on Linux a process is known by when it started
on the clock that runs since boot, so a machine whose clock jumps neither loses nor steals a claim.
"""

from __future__ import annotations

import os
import socket
import threading
from functools import cache
from pathlib import Path

import psutil

EXPIRY_SECONDS = 120.0
CLOCK_SECONDS = 60.0
"""By how much a start time may differ where it is known from the wall clock only."""


def identity() -> str:
    """This process: machine, process id, when it started; the same however the clock is set."""
    return _identity(os.getpid())


@cache  # by process id: a forked child is another
def _identity(pid: int) -> str:
    started = f"{psutil.Process(pid).create_time():.2f}"
    return f"{socket.gethostname()} {pid} {'_'.join(filter(None, (started, _ticks(pid))))}"


def _ticks(pid: int) -> str:
    """Start time of a process, in ticks since boot; empty if the system doesn't report it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
    except OSError:
        return ""
    # field 22; the second is the command's name, which may contain spaces and brackets
    return stat.rpartition(")")[2].split()[19]


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
    stamp = folder / f".now-{socket.gethostname()}-{os.getpid()}-{threading.get_ident()}"
    stamp.write_bytes(b"")
    try:
        return stamp.stat().st_mtime
    finally:
        stamp.unlink(missing_ok=True)


def died(owner: str) -> bool:
    """Whether the owner ran on this machine and is gone."""
    try:
        host, pid, started = owner.split()
        if host != socket.gethostname():
            return False
        process = psutil.Process(int(pid))
        seconds, _, ticks = started.partition("_")
        if ticks and (now := _ticks(process.pid)):
            return now != ticks
        return abs(process.create_time() - float(seconds)) > CLOCK_SECONDS
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return True
    except (ValueError, psutil.AccessDenied):
        return False
