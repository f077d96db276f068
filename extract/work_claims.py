"""Claims: several processes or machines share a folder without doing a unit twice.

A claim is a file created exclusively; its owner touches it while it works.

filelock's `SoftFileLease` keeps all promises but one: a contender takes over a silent owner of
another machine only after it has itself watched the file for the whole lease, so a worker that
tries once and continues with the next document, as ours does, never takes it over. Ours reads the
age of a claim once, by the file system's own clock.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from warehouse.files import storage_errors
from warehouse.store.claims import abandoned_owner, identity

HEARTBEAT_SECONDS = 20.0


def _take_over(path: Path, owner: str) -> bool:
    """Remove the abandoned claim of `owner`; of several processes that try, one succeeds."""
    aside = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}")
    try:
        path.rename(aside)
    except FileNotFoundError:
        return False
    try:
        if aside.read_text() == owner:
            return True
        # another process took it over in between: its claim goes back
        with suppress(FileExistsError):
            path.hardlink_to(aside)
        return False
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def claim(path: Path) -> Iterator[bool]:
    """Try to claim; yields whether it is ours. Kept alive inside the block, released after it.

    Raises:
        StorageError: the folder can't be written.
    """
    mine = identity()  # once: the start time in it changes where the wall clock is set
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        ours = _create(path, mine)
        if not ours:
            owner = abandoned_owner(path)
            ours = owner is not None and _take_over(path, owner) and _create(path, mine)
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
    """Create the claim with its owner inside in one step, so that a kill leaves no empty one."""
    draft = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.draft")
    draft.write_text(owner)
    try:
        os.link(draft, path)
        return True
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
