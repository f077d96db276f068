"""Claims in a bucket.

Age is measured by the bucket's clock. Nothing is renamed or locked: each step names the version it
has read, so of two processes that see the same abandoned claim one takes it.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from warehouse.errors import StorageError
from warehouse.remote import ChangedError, RemotePath
from warehouse.store import claims

HEARTBEAT_SECONDS = 20.0

_held: set[str] = set()
"""Names of this process's claims in a bucket. One that isn't here could not be released."""


@contextmanager
def lease(path: RemotePath) -> Iterator[bool]:
    """Try to claim an object; yields whether it is ours. It is kept alive inside the block.

    Raises:
        StorageError: the store can't be asked.
    """
    name = f"{claims.identity()} {uuid.uuid4().hex}"
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
    if age <= claims.EXPIRY_SECONDS and not _is_nobodys(text):
        return None
    with suppress(ChangedError):
        return path.put(name.encode(), version)
    return None


def _is_nobodys(text: str) -> bool:
    """Whether the process that wrote a claim is known to hold it no more."""
    words = text.split()
    owner = " ".join(words[:3])
    return claims.died(owner) or (owner == claims.identity() and " ".join(words[:4]) not in _held)
