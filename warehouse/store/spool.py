"""Finished units on their way to a bucket: kept on this machine until they have arrived."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from warehouse.errors import StorageError
from warehouse.paths import Workspace
from warehouse.remote import RemotePath


@contextmanager
def reaching(workspace: Workspace, path: Path) -> Iterator[Path]:
    """Local path for a unit's file; a file for a bucket is uploaded when the block succeeds.

    Raises:
        StorageError: it can't be sent; it is kept, and `send_spooled` sends it later.
    """
    if not isinstance(path, RemotePath):
        yield path
        return
    kept = _folder(workspace) / str(path.relative_to(workspace.store))
    yield kept
    try:
        _send(kept, path)
    except StorageError as error:
        raise StorageError(
            f"{error.message} (finished units wait in {_folder(workspace)}; the next run sends "
            "them first)"
        ) from error


def send_spooled(workspace: Workspace) -> int:
    """Send what an earlier run could not; returns the number of units.

    Raises:
        StorageError: they can't be sent yet.
    """
    if not workspace.address:
        return 0
    folder = _folder(workspace)
    waiting = sorted(folder.rglob("*.parquet"))
    for kept in waiting:
        _send(kept, workspace.store / kept.relative_to(folder).as_posix())
    return len(waiting)


def _send(kept: Path, path: Path) -> None:
    try:
        path.put(kept)  # type: ignore[attr-defined]
    except FileNotFoundError:  # another process of this machine has sent it
        return
    kept.unlink(missing_ok=True)


def _folder(workspace: Workspace) -> Path:
    """Of one address: what waits for another bucket stays where it is."""
    return workspace.spool / workspace.address.partition("://")[2].replace("/", "+")
