"""Hashes of large files, computed once and remembered in the cache."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path

from warehouse.files import sha256_file, write_whole
from warehouse.paths import Workspace


def remembered(key: str, compute: Callable[[], str], workspace: Workspace) -> str:
    """A hash from the cache's memory, computed and kept at its first use.

    Raises:
        StorageError: the cache can't be written.
    """
    memory = workspace.cache / "hashes.json"
    try:
        known: dict[str, str] = json.loads(memory.read_bytes())
    except (FileNotFoundError, ValueError):
        known = {}
    if key not in known:
        known[key] = compute()
        write_whole(memory, json.dumps(known, indent=1))
    return known[key]


def remembered_sha256(path: Path, workspace: Workspace) -> str:
    """sha256 of a file, remembered by its size and modification time.

    Raises:
        OSError: it can't be read.
    """
    stat = path.stat()
    key = f"{path.resolve()}|{stat.st_size}|{stat.st_mtime_ns}"
    return remembered(key, lambda: sha256_file(path), workspace)


def files_sha256(paths: Iterable[Path], workspace: Workspace) -> str:
    """One sha256 of several files, of their names and contents, in the order given."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.name}:{remembered_sha256(path, workspace)}\n".encode())
    return digest.hexdigest()
