"""Claims: several processes or machines share a folder without doing a unit twice.

A claim is a file created exclusively; its owner touches it while it works. Age is measured by
the file system's own clock, so a machine whose clock jumps neither loses nor steals a claim.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from warehouse.store import storage_errors

EXPIRY_SECONDS = 120.0
HEARTBEAT_SECONDS = 20.0


def _identity() -> str:
    started = psutil.Process().create_time()
    return f"{socket.gethostname()} {os.getpid()} {started:.2f}"


def _owner_died(text: str) -> bool:
    """Whether the owner ran on this machine and is gone."""
    try:
        host, pid, started = text.split()
        if host != socket.gethostname():
            return False
        return abs(psutil.Process(int(pid)).create_time() - float(started)) > 1
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return True
    except (ValueError, psutil.AccessDenied):
        return False


def _file_system_now(folder: Path) -> float:
    probe = folder / f".now-{socket.gethostname()}-{os.getpid()}-{threading.get_ident()}"
    probe.write_bytes(b"")
    try:
        return probe.stat().st_mtime
    finally:
        probe.unlink(missing_ok=True)


def _is_abandoned(path: Path) -> bool:
    try:
        text, touched = path.read_text(), path.stat().st_mtime
    except FileNotFoundError:
        return False
    if _owner_died(text):
        return True
    return _file_system_now(path.parent) - touched > EXPIRY_SECONDS


def _take_over(path: Path) -> bool:
    """Remove an abandoned claim; of several processes that try, one succeeds."""
    grave = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}")
    try:
        path.rename(grave)
    except FileNotFoundError:
        return False
    grave.unlink(missing_ok=True)
    return True


@contextmanager
def claim(path: Path) -> Iterator[bool]:
    """Try to claim; yields whether it is ours. Kept alive inside the block, released after it.

    Raises:
        StorageError: the folder can't be written.
    """
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        ours = _create(path)
        if not ours and _is_abandoned(path) and _take_over(path):
            ours = _create(path)
    if not ours:
        yield False
        return
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(HEARTBEAT_SECONDS):
            try:
                os.utime(path)
            except FileNotFoundError:
                return

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield True
    finally:
        stop.set()
        thread.join()
        path.unlink(missing_ok=True)


def _create(path: Path) -> bool:
    """Create the claim with its owner inside in one step, so that a kill leaves no empty one."""
    draft = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.draft")
    draft.write_text(_identity())
    try:
        os.link(draft, path)
        return True
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
