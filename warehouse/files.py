"""Files: texts, hashes, writes that appear whole or not at all, and what no output replaces."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from warehouse.errors import TokenmartError, explained
from warehouse.paths import Workspace

TEXT_ENCODING = "utf-8-sig"
"""Of users' texts: a byte-order mark is left out."""
_CHUNK_BYTES = 1 << 20
_HEAD_BYTES = 1 << 14

HASHING_THREADS = 4
_REMEMBERING = threading.Lock()
"""Held while a hash is added to the cache's memory by one of several threads."""


def sha256_file(path: Path, size: float = math.inf) -> str:
    """sha256 of a file's bytes, or of the first `size` of them, as hex digits.

    Raises:
        OSError: it can't be read.
    """
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while size > 0 and (chunk := file.read(int(min(size, _CHUNK_BYTES)))):
            digest.update(chunk)
            size -= len(chunk)
    return digest.hexdigest()


def cached(key: str, compute: Callable[[], str], workspace: Workspace) -> str:
    """A hash from the cache's memory, computed and kept at its first use.

    Raises:
        StorageError: the cache can't be written.
    """
    memory = workspace.cache / "hashes.json"

    def known() -> dict[str, str]:
        with suppress(FileNotFoundError, ValueError, TypeError, RecursionError):
            return dict(json.loads(memory.read_bytes()))
        return {}

    value = known().get(key)
    if value is None:
        value = compute()
        with _REMEMBERING:
            write_whole(memory, json.dumps({**known(), key: value}, indent=1))
    return value


def file_stamp(path: Path) -> str:
    """What changes whenever a file does: size, times, inode.

    A program may put back the size and the modification time, but not the time of the last change
    of the inode (ctime).

    Raises:
        OSError: it isn't there.
    """
    stat = path.stat()
    return f"{stat.st_size}|{stat.st_mtime_ns}|{stat.st_ctime_ns}|{stat.st_ino}"


def stamp_if_there(path: Path) -> str:
    """`file_stamp`; empty for a file that is gone."""
    with suppress(OSError):
        return file_stamp(path)
    return ""


def cached_sha256(path: Path, workspace: Workspace) -> str:
    """sha256 of a file, remembered by its `file_stamp`.

    Raises:
        OSError: it can't be read.
    """
    key = f"{path.resolve()}|{file_stamp(path)}"
    return cached(key, lambda: sha256_file(path), workspace)


def files_sha256(paths: Iterable[Path], workspace: Workspace) -> str:
    """One sha256 of several files, of their names and contents, in the order given.

    The shards of a checkpoint are hashed side by side.
    """
    files = list(paths)
    digest = hashlib.sha256()
    with ThreadPoolExecutor(HASHING_THREADS) as pool:
        hashes = pool.map(partial(cached_sha256, workspace=workspace), files)
        for path, sha256 in zip(files, hashes, strict=True):
            digest.update(f"{path.name}:{sha256}\n".encode())
    return digest.hexdigest()


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn operating-system errors on `path` into one line.

    Raises:
        StorageError: disk full, read-only folder or another failure to write.
    """
    try:
        yield
    except OSError as error:
        raise explained(error, path) from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file in the same folder to write to; it replaces `path` when the block succeeds.

    Readers see the old file or the new one, whole, also after a power failure. A pipe or a device
    can't be replaced: it is written to as it is.

    Args:
        path: the file; its folder is made.

    Raises:
        StorageError: it can't be written.
    """
    with storage_errors(path):
        if path.exists() and not path.is_file() and not path.is_dir():
            yield path
            return
        path = Path(os.path.realpath(path))  # the target of a link is replaced, not the link
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{uuid.uuid4().hex}.tmp")
        try:
            yield draft
            with draft.open("rb+") as file:
                os.fsync(file.fileno())
            draft.replace(path)
            with suppress(OSError):  # the rename lasts through a power failure
                folder = os.open(path.parent, os.O_RDONLY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)
        finally:
            draft.unlink(missing_ok=True)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a text (as UTF-8) or bytes so that readers see the old file or the new one, whole.

    Raises:
        StorageError: it can't be written.
    """
    data = content.encode() if isinstance(content, str) else content
    with replacing(path) as draft:
        draft.write_bytes(data)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file, which is made with its folder.

    Raises:
        StorageError: the folder can't be written.
    """
    from filelock import FileLock

    lock = FileLock(path)
    with storage_errors(path.parent):
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def refuse_protected(
    path: Path,
    workspace: Workspace,
    option: str = "--out",
    *,
    force: bool = False,
    expected: bytes | None = None,
) -> None:
    """Stop before a user's output replaces what the project must keep, or any other file.

    Protected: everything in the data folders (store, problem files, lock files, preregistrations),
    the folder of locked targets, the files that lock files record, and the database.

    Args:
        option: names the output in the message.
        force: replace a file that is there and not protected.
        expected: what a file of the same kind has in its first bytes; such a file is replaced.

    Raises:
        TokenmartError: the path is one of these (`protected-file`), or a file is there
            (`file-exists`).
    """
    place = Path(os.path.realpath(path))
    root = Path(os.path.realpath(workspace.root))
    kept = [workspace.data, root / "data", root / "results" / "downstream", workspace.database]
    for record in workspace.lock_files.glob("*.json"):
        with suppress(OSError, ValueError, AttributeError, TypeError):
            kept += [root / name for name in json.loads(record.read_bytes()).get("files", {})]
    if any(place.is_relative_to(os.path.realpath(each)) for each in kept):
        raise TokenmartError(
            f"{option} {path}: not written, Tokenmart keeps this file; choose another place",
            code="protected-file",
            where=path,
        )
    with storage_errors(path):
        if force or not place.is_file():
            return
        with place.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    if head and (expected is None or expected not in head):
        raise TokenmartError(
            f"{option} {path}: not written, the file is there already; choose another place, or "
            "replace it with --force",
            code="file-exists",
            where=path,
        )


def refuse_no_file(path: Path) -> None:
    """Refuse what is no file before anything opens it: reading a pipe would wait for a writer.

    Raises:
        TokenmartError: no such file, a folder, or a pipe (`no-file`).
    """
    if path.is_file():
        return
    what = "is a folder, a pipe or a device, not a file" if path.exists() else "no such file"
    raise TokenmartError(f"{path}: {what}", code="no-file", where=path)


def read_text(path: Path) -> str:
    """The text of a file without its byte-order mark, with its line ends as they are.

    Raises:
        TokenmartError: no such file, unreadable, or not UTF-8 (`not-utf-8`).
    """
    refuse_no_file(path)
    try:
        return path.read_bytes().decode(TEXT_ENCODING)
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError | UnicodeDecodeError) -> TokenmartError:
    """The error for a text file that can't be read, or is no UTF-8."""
    if isinstance(error, UnicodeDecodeError):
        what = f"{path}: not UTF-8 at byte {error.start}; decompress it, or save it as UTF-8"
        return TokenmartError(what, code="not-utf-8", where=path)
    return TokenmartError(
        f"{path}: can't be read ({error.strerror})", code="unreadable", where=path
    )
