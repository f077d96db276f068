"""Recorded hashes of locked files and revisions of models: the first use pins them.

`data/locks/<problem>.json` is meant to be committed. A file whose bytes differ from the
record, or a model whose hub revision moved, is refused until the record is edited.
"""

from __future__ import annotations

import json
from pathlib import Path

from filelock import FileLock
from pydantic import BaseModel, ConfigDict, ValidationError

from warehouse.errors import LockedFileError, StorageError, first_line
from warehouse.files import write_whole
from warehouse.paths import Workspace
from warehouse.strict_json import StrictJsonError, read_json

_MAXIMUM_BYTES = 4 << 20


class _Record(BaseModel):
    """Content of a lock file: path of a file → sha256, id of a model → commit."""

    model_config = ConfigDict(strict=True)

    files: dict[str, str] = {}
    revisions: dict[str, str] = {}


def lock_path(workspace: Workspace, problem: str) -> Path:
    """The lock file of a problem."""
    return workspace.lock_files / f"{problem}.json"


def check_sha256(workspace: Workspace, problem: str, path: Path, sha256: str) -> bool:
    """Check a locked file against its record, or record it on first use.

    Args:
        path: absolute, or relative to the workspace's root.
        sha256: of the bytes that are used.

    Returns:
        Whether this call recorded it.

    Raises:
        LockedFileError: the file is not the one recorded.
    """
    name = name_in(workspace, path)
    expected, first_use = _recorded(workspace, problem, "files", name, sha256)
    if expected != sha256:
        raise LockedFileError(
            f"{name}: changed since it was locked: expected sha256 {expected}, found {sha256}; "
            f"restore the file, or remove its entry from {lock_path(workspace, problem)} "
            "if the change is meant",
            code="locked-file-changed",
            where=name,
        )
    return first_use


def record_revision(workspace: Workspace, problem: str, full_id: str, commit: str) -> bool:
    """Record the hub commit of a model on first use, or check it against the record.

    Returns:
        Whether this call recorded it.

    Raises:
        LockedFileError: another commit is on record.
    """
    expected, first_use = _recorded(workspace, problem, "revisions", full_id, commit)
    if expected != commit:
        raise LockedFileError(
            f"{full_id}: revision changed since it was locked: expected {expected}, found "
            f"{commit}; pin `revision: {expected}` in the problem file, or remove its entry "
            f"from {lock_path(workspace, problem)} if the change is meant",
            code="revision-changed",
            where=full_id,
        )
    return first_use


def recorded_revision(workspace: Workspace, problem: str, full_id: str) -> str | None:
    """The commit on record for a model, or None before first use."""
    value: str | None = _read(lock_path(workspace, problem))["revisions"].get(full_id)
    return value


def recorded_files(workspace: Workspace, problem: str) -> dict[str, str]:
    """Every locked file on record: path relative to the root → sha256."""
    return dict(_read(lock_path(workspace, problem))["files"])


def name_in(workspace: Workspace, path: Path) -> str:
    """A file's name in records: its path relative to the root, if it is inside."""
    absolute = (workspace.root / path).absolute()
    root = workspace.root.absolute()
    return absolute.relative_to(root).as_posix() if absolute.is_relative_to(root) else str(absolute)


def _recorded(
    workspace: Workspace, problem: str, section: str, key: str, value: str
) -> tuple[str, bool]:
    """The value on record for a key, writing `value` when there is none."""
    path = lock_path(workspace, problem)
    found = _read(path)[section].get(key)
    if found is not None:
        return str(found), False
    try:
        with FileLock(f"{path}.lock", timeout=30):
            record = _read(path)
            found = record[section].get(key)
            if found is not None:
                return str(found), False
            record[section][key] = value
            write_whole(path, json.dumps(record, indent=2, sort_keys=True) + "\n")
    except (OSError, StorageError) as error:
        what = f"{path}: can't record {key} on first use ({error}); make the folder writable"
        raise LockedFileError(what, code="not-recorded", where=path) from error
    return value, True


def _read(path: Path) -> dict[str, dict[str, str]]:
    if not path.exists():
        return _Record().model_dump()
    try:
        return _Record.model_validate(read_json(path, _MAXIMUM_BYTES).content).model_dump()
    except (StrictJsonError, ValidationError) as error:
        what = f"{path}: {first_line(error)}; restore it from the repository"
        raise LockedFileError(what, code="damaged-lock-file", where=path) from error
