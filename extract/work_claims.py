"""Claims: several processes or machines share a folder without doing a unit twice.

A claim is a file created exclusively; its owner touches it while it works.

filelock's `SoftFileLease` keeps all promises but one: a contender takes over a silent owner of
another machine only after it has itself watched the file for the whole lease, so a worker that
tries once and continues with the next document, as ours does, never takes it over. Ours reads the
age of a claim once, by the file system's own clock.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from warehouse.files import locked, storage_errors
from warehouse.store.claims import abandoned_owner, identity

HEARTBEAT_SECONDS = 20.0


def _remove_abandoned(path: Path) -> None:
    """Remove a claim that is still abandoned once nobody else can be doing so.

    Without the lock a process that read the dead owner's claim could remove its successor's.
    """
    with locked(path.with_name("abandoned.lock")):
        if abandoned_owner(path) is not None:
            path.unlink(missing_ok=True)


@contextmanager
def claim(path: Path) -> Iterator[bool]:
    """Try to claim a document; yields whether this process has the claim, inside the block.

    Raises:
        StorageError: the folder can't be written.
    """
    mine = identity()  # once: the start time in it changes where the wall clock is set
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        ours = _create(path, mine)
        if not ours and abandoned_owner(path) is not None:
            _remove_abandoned(path)
            ours = _create(path, mine)
    if not ours:
        yield False
        return
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(HEARTBEAT_SECONDS):
            with suppress(OSError):
                if path.read_text() == mine:
                    os.utime(path)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield True
    finally:
        stop.set()
        thread.join()
        # after a long sleep of this machine the claim may be another's
        with suppress(OSError):
            if path.read_text() == mine:
                path.unlink(missing_ok=True)


def _create(path: Path, owner: str) -> bool:
    """Create the claim, exclusively: file systems without hard links can do so, too.

    A kill before the owner is in it leaves an empty one, which expires.
    """
    try:
        with path.open("x") as file:
            file.write(owner)
    except FileExistsError:
        return False
    except OSError:  # a full disk
        path.unlink(missing_ok=True)
        raise
    return True
