"""Claims: who owns a claim file, whether that process is alive, and claims in a bucket.

Age is measured by the clock of the file system or of the bucket, and on Linux a process is known by
when it started on the clock that runs since boot, so a machine whose clock jumps neither loses nor
steals a claim. In a bucket nothing is renamed or locked: each step names the version it has read,
so of two processes that see the same abandoned claim one takes it.
"""

from __future__ import annotations

import os
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import psutil

from warehouse.errors import StorageError
from warehouse.remote import ChangedError, RemotePath

EXPIRY_SECONDS = 120.0
HEARTBEAT_SECONDS = 20.0
CLOCK_SECONDS = 60.0
"""By how much a start time may differ where it is known from the wall clock only."""

_held: set[str] = set()
"""Names of this process's claims in a bucket. One that isn't here could not be released."""


def identity() -> str:
    """This process: machine, process id, when it started; the same however the clock is set."""
    return _identity(os.getpid())


@cache  # by process id: a forked child is another
def _identity(pid: int) -> str:
    started = f"{psutil.Process(pid).create_time():.2f}"
    return f"{socket.gethostname()} {pid} {'_'.join(filter(None, (started, _ticks(pid))))}"


def _ticks(pid: int) -> str:
    """Start time of a process, in ticks since boot; empty if the system doesn't report it."""
    if not psutil.LINUX:
        return ""
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


@contextmanager
def lease(path: RemotePath) -> Iterator[bool]:
    """Try to claim an object; yields whether it is ours. It is kept alive inside the block.

    Raises:
        StorageError: the store can't be asked.
    """
    name = f"{identity()} {uuid.uuid4().hex}"
    version = _take(path, name)
    if version is None:
        yield False
        return
    _held.add(name)
    stop = threading.Event()

    def beat() -> None:
        mine, count = version, 0
        while not stop.wait(HEARTBEAT_SECONDS):
            count += 1
            try:
                mine = path.put(f"{name} {count}".encode(), mine)
            except ChangedError:  # this machine slept too long, and another has taken over
                return
            except StorageError:
                continue

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield True
    finally:
        stop.set()
        thread.join()
        _held.discard(name)
        with suppress(StorageError, FileNotFoundError):
            if path.look()[0].startswith(name):
                path.unlink(missing_ok=True)


def _take(path: RemotePath, name: str) -> str | None:
    """The version of our claim; None while another's is alive."""
    with suppress(ChangedError):
        return path.put(name.encode(), "")
    try:
        text, version, age = path.look()
    except FileNotFoundError:  # released just now: the next process that asks gets it
        return None
    if text == name:  # ours: the answer to our own request was lost, and it was sent again
        return version
    if age <= EXPIRY_SECONDS and not _is_nobodys(text):
        return None
    with suppress(ChangedError):
        return path.put(name.encode(), version)
    return None


def _is_nobodys(text: str) -> bool:
    """Whether the process that wrote a claim is known to hold it no more."""
    words = text.split()
    owner = " ".join(words[:3])
    return died(owner) or (owner == identity() and " ".join(words[:4]) not in _held)
