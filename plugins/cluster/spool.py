"""Finished units on their way to a bucket: they wait on this machine while it can't be reached."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from warehouse.errors import StorageError
from warehouse.remote import RemotePath


@contextmanager
def uploading(path: RemotePath, store: Path, spool: Path) -> Iterator[Path]:
    """A file in the folder `spool` of this machine that is uploaded when the block succeeds.

    Raises:
        StorageError: it can't be sent; it is kept, and `send_spooled` sends it later.
    """
    kept = spool / str(path.relative_to(store))
    yield kept
    try:
        _send(kept, path)
    except StorageError as error:
        raise StorageError(
            f"{error.message} (finished units wait in {spool}; the next run sends them first)"
        ) from error


def send_spooled(store: RemotePath, spool: Path) -> int:
    """Send what an earlier run could not; returns the number of units.

    Raises:
        StorageError: they can't be sent yet.
    """
    waiting = sorted(spool.rglob("*.parquet"))
    for kept in waiting:
        _send(kept, store / kept.relative_to(spool).as_posix())
    return len(waiting)


def _send(kept: Path, path: RemotePath) -> None:
    try:
        path.put(kept)
    except FileNotFoundError:  # another process of this machine has sent it
        return
    kept.unlink(missing_ok=True)
