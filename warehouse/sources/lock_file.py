"""Locked files: their download, and recorded hashes and revisions: the first use pins them.

`data/locks/<problem>.json` is meant to be committed. A file whose bytes differ from the
record, or a model whose hub revision moved, is refused until the record is edited.
"""

from __future__ import annotations

import http.client
import json
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import click
from filelock import FileLock
from pydantic import BaseModel, ConfigDict, ValidationError

from warehouse.errors import LockedFileError, StorageError, TokenmartError, first_line
from warehouse.files import write_whole
from warehouse.paths import Workspace
from warehouse.strict_json import StrictJsonError, read_json

if TYPE_CHECKING:
    from warehouse.sources.folders import ProblemFolders

_MAXIMUM_BYTES = 4 << 20
TIMEOUT_SECONDS = 30


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
    return _check(workspace, problem, "files", name, sha256, "locked-file-changed")


def record_revision(workspace: Workspace, problem: str, full_id: str, commit: str) -> None:
    """Record the hub commit of a model on first use, or check it against the record.

    Raises:
        LockedFileError: another commit is on record.
    """
    _check(workspace, problem, "revisions", full_id, commit, "revision-changed")


def recorded_revision(workspace: Workspace, problem: str, full_id: str) -> str | None:
    """The commit on record for a model, or None before first use."""
    return _read(lock_path(workspace, problem)).revisions.get(full_id)


def recorded_files(workspace: Workspace, problem: str) -> dict[str, str]:
    """Every locked file on record: path relative to the root → sha256."""
    return _read(lock_path(workspace, problem)).files


def name_in(workspace: Workspace, path: Path) -> str:
    """A file's name in records: its path relative to the root, if it is inside."""
    absolute = (workspace.root / path).absolute()
    root = workspace.root.absolute()
    return absolute.relative_to(root).as_posix() if absolute.is_relative_to(root) else str(absolute)


def _check(
    workspace: Workspace, problem: str, section: str, key: str, value: str, code: str
) -> bool:
    """Compare a value with the one on record; whether there was none and it is recorded now."""
    path = lock_path(workspace, problem)
    expected = getattr(_read(path), section).get(key)
    if first_use := expected is None:
        try:
            with FileLock(f"{path}.lock", timeout=30):
                record = _read(path)
                expected = getattr(record, section).setdefault(key, value)
                text = json.dumps(record.model_dump(), indent=2, sort_keys=True)
                write_whole(path, text + "\n")
        except (OSError, StorageError) as error:
            what = f"{path}: can't record {key} on first use ({error}); make the folder writable"
            raise LockedFileError(what, code="not-recorded", where=path) from error
    if expected != value:
        raise LockedFileError(
            f"{key}: changed since it was locked: expected {expected}, found {value}; restore it, "
            f"or remove its entry from {path} if the change is meant",
            code=code,
            where=key,
        )
    return first_use


def _read(path: Path) -> _Record:
    if not path.exists():
        return _Record()
    try:
        return _Record.model_validate(read_json(path, _MAXIMUM_BYTES).content)
    except (StrictJsonError, ValidationError) as error:
        what = f"{path}: {first_line(error)}; restore it from the repository"
        raise LockedFileError(what, code="damaged-lock-file", where=path) from error


class DownloadError(TokenmartError):
    """An address gave no usable file."""


def download_json(url: str, path: Path) -> None:
    """Download a JSON file to `path`; it appears there only when complete and parseable.

    Raises:
        DownloadError: no answer, an error status, cut short, or not JSON.
        StorageError: the file can't be written.
    """
    click.echo(f"downloading {url}", err=True)
    try:
        if not url.startswith(("https://", "http://")):
            raise ValueError("not an http(s) address")
        request = urllib.request.Request(url, headers={"User-Agent": "tokenmart"})
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
            content = response.read()
        json.loads(content)
    # URLError and timeouts are OSErrors, text that isn't JSON is a ValueError
    except (OSError, http.client.HTTPException, ValueError) as error:
        what = f"{url}: {type(error).__name__}: {first_line(error)}"
        raise DownloadError(what, code="download", where=url) from error
    write_whole(path, content)


def ensure_locked_file(path: Path, url: str | None, folders: ProblemFolders, part: str) -> Path:
    """A file under its locked path, downloaded when it is missing.

    Args:
        path: relative to the checkout.
        url: the problem file's address of it.
        part: documents or target, as `data fetch --only` calls it: who fetches documents may not
            want the target yet.

    Raises:
        LockedFileError: missing, and not downloaded.
    """
    file = folders.resolve(path)
    if file.is_file():
        return file
    reason = "offline" if folders.offline else "no url in the problem file"
    if url and not folders.offline:
        try:
            download_json(url, file)
            return file
        except DownloadError as error:
            reason = error.format_message()
    raise LockedFileError(
        f"{path}: missing and not downloaded ({reason}); place the file at {file}, or run "
        f"`{folders.fetch_command} --only {part}` where there is a network",
        code="locked-file-missing",
        where=path,
    )
