"""Stores that are no folder of this machine, such as a bucket: what the core asks of their paths.

A plugin's `stores/` defines the class of an address, such as `s3://bucket/prefix`.
"""

from __future__ import annotations

import io
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, cast

from warehouse.errors import StorageError, TokenmartError
from warehouse.plugins import VARIABLE, kinds


class ChangedError(StorageError):
    """A conditional write lost: another process has written the object since it was read."""


class UnreachableError(StorageError):
    """The store did not answer: nothing is known of the object."""


class RemotePath(PurePosixPath, ABC):
    """An object or a prefix in a store; `kind` is the scheme of its address.

    A subclass also has the methods of `pathlib.Path` that read, list and remove. All raise
    FileNotFoundError if there is no such object, StorageError if the store can't be asked.
    """

    kind: ClassVar[str]
    known: Any = None
    """What `stat` returns, of a path in a listing."""

    @classmethod
    @abstractmethod
    def at(cls, address: str) -> RemotePath:
        """The path of an address.

        Raises:
            TokenmartError: malformed.
        """

    @abstractmethod
    def stat(self) -> Any:
        """`st_size` in bytes, `st_mtime` and `st_mtime_ns` since 1970, and the version `etag`."""

    @abstractmethod
    def open(self, mode: str = "rb") -> io.BytesIO:
        """The whole object, of one version."""

    @abstractmethod
    def tail(self) -> io.RawIOBase:
        """The object for reading its end: one request, unless more is read."""

    @abstractmethod
    def chunks(self, size: int) -> Iterator[bytes]:
        """The first `size` bytes, piece by piece, of one version."""

    @abstractmethod
    def look(self) -> tuple[str, str, float]:
        """A small object's text, its version, and its age in seconds by the store's own clock."""

    @abstractmethod
    def put(self, content: bytes | Path, expected: str | None = None) -> str:
        """Write the object whole; returns its version.

        Args:
            content: bytes, or a file on this machine.
            expected: only if the object still has this version; empty: only if there is none.

        Raises:
            ChangedError: the condition doesn't hold.
        """

    @abstractmethod
    def lease(self) -> AbstractContextManager[bool]:
        """Try to claim the object; gives whether it is ours. It is kept alive inside the block.

        Raises:
            StorageError: the store can't be asked.
        """

    @abstractmethod
    def uploading(self, store: Path, spool: Path) -> AbstractContextManager[Path]:
        """A file of this machine that is uploaded to this path when the block succeeds.

        Args:
            store: the folder of the Parquet files.
            spool: folder of this machine where files wait that can't be sent.

        Raises:
            StorageError: it can't be sent; it is kept, and `send_spooled` sends it later.
        """

    @abstractmethod
    def send_spooled(self, spool: Path) -> int:
        """Of the store's folder: send what an earlier run could not; returns the number of files.

        Raises:
            StorageError: they can't be sent yet.
        """

    @abstractmethod
    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object."""

    @abstractmethod
    def filesystem(self) -> Any:
        """The fsspec file system through which DuckDB reads it."""


def remote_path(address: str) -> Path:
    """The path of an address such as `s3://bucket/prefix`, used like a folder.

    Raises:
        TokenmartError: malformed, or of a scheme that no plugin reads.
    """
    scheme = address.partition("://")[0] if "://" in address else ""
    known = _schemes(os.environ.get(VARIABLE, ""))
    if scheme not in known:
        listed = ", ".join(f"{name}://" for name in known) or "none"
        raise TokenmartError(f"{address}: no address of a store; schemes here: {listed}")
    return cast(Path, known[scheme].at(address))


@lru_cache(maxsize=4)
def _schemes(_: str) -> dict[str, type[RemotePath]]:
    return kinds(RemotePath, "stores")  # type: ignore[type-abstract]


def source(path: Path) -> Any:
    """Source for pyarrow to read a whole file: the path itself, or an object's bytes."""
    return path.open("rb") if isinstance(path, RemotePath) else path


def footer(path: Path) -> Any:
    """Source for pyarrow to read a file's footer; of an object only the end is read."""
    return path.tail() if isinstance(path, RemotePath) else path


def version_of(path: Path) -> str | None:
    """An object's version, empty where there is none; None of a file on this machine.

    Raises:
        StorageError: the store can't be asked.
    """
    if not isinstance(path, RemotePath):
        return None
    try:
        return str(path.stat().etag)
    except FileNotFoundError:
        return ""


def let_duckdb_read(connection: Any, path: Path) -> None:
    """Let a DuckDB connection read objects in place, where the path is a store's."""
    if isinstance(path, RemotePath):
        connection.register_filesystem(path.filesystem())
