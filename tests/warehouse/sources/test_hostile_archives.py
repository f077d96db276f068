"""Archives that are bombs, encrypted, damaged or of another path: one line, and nothing is kept."""

from __future__ import annotations

import io
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from fetch_samples import make_sdist, sdist_problem

from warehouse.errors import StorageError
from warehouse.paths import Workspace
from warehouse.problem.tables import ensure_documents
from warehouse.sources import packages
from warehouse.sources.packages import archive_texts, concatenate_members

pytestmark = pytest.mark.hostile

MEMBER = "docs/a.txt"


def packed(folder: Path, content: bytes, method: int = zipfile.ZIP_DEFLATED) -> Path:
    path = folder / "tiny_a-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", method) as wheel:
        wheel.writestr(MEMBER, content)
    return path


def bomb(folder: Path) -> Path:
    return packed(folder, bytes(64 << 20))


def changed(path: Path, *bytes_: tuple[bytes, int, int]) -> Path:
    """The archive with other bytes at places behind a signature."""
    data = bytearray(path.read_bytes())
    for signature, offset, value in bytes_:
        data[data.index(signature) + offset] = value
    path.write_bytes(data)
    return path


def encrypted(folder: Path) -> Path:
    path = packed(folder, b"secret text", zipfile.ZIP_STORED)
    return changed(path, (b"PK\x03\x04", 6, 1), (b"PK\x01\x02", 8, 1))


def packed_in_a_way_nobody_knows(folder: Path) -> Path:
    path = packed(folder, b"text", zipfile.ZIP_STORED)
    return changed(path, (b"PK\x03\x04", 8, 99), (b"PK\x01\x02", 10, 99))


def flipped(folder: Path) -> Path:
    return changed(packed(folder, bytes(range(256)) * 64), (b"PK\x03\x04", 60, 0x5A))


def cut_off(folder: Path) -> Path:
    path = packed(folder, b"text" * 1000)
    path.write_bytes(path.read_bytes()[:-30])
    return path


def sdist(folder: Path, members: dict[str, bytes]) -> Path:
    path = folder / "corpus-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


def sdist_cut_off(folder: Path) -> Path:
    path = make_sdist(folder, {MEMBER: bytes(range(256)) * 4000})
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return path


def sdist_that_is_none(folder: Path) -> Path:
    path = folder / "corpus-1.0.tar.gz"
    path.write_bytes(b"no archive")
    return path


BROKEN: dict[Callable[[Path], Path], str] = {
    bomb: "archive-bomb",
    encrypted: "damaged-archive",
    packed_in_a_way_nobody_knows: "damaged-archive",
    flipped: "damaged-archive",
    cut_off: "damaged-archive",
    sdist_cut_off: "damaged-archive",
    sdist_that_is_none: "damaged-archive",
}


def refused(call: Callable[[], object], path: Path) -> str:
    """The code of the error, which comes without delay and names the archive."""
    started = time.process_time()
    with pytest.raises(StorageError) as caught:
        call()
    assert time.process_time() - started < 5
    assert caught.value.where == str(path) and "\n" not in caught.value.message
    return caught.value.code


@pytest.mark.parametrize("make", BROKEN, ids=lambda make: make.__name__)
def test_a_broken_archive_is_refused(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    path = make(tmp_path)
    assert refused(lambda: list(archive_texts(path, "docs/*")), path) == BROKEN[make]
    if path.suffix == ".whl":
        out = io.BytesIO()
        found = refused(lambda: concatenate_members([path], ("docs/*",), out), path)
        assert (found, out.getvalue()[1:]) == (BROKEN[make], b"")


def test_a_source_distribution_that_unpacks_to_too_much(
    tmp_path: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "LARGEST_UNPACKED_BYTES", 1 << 20)
    folder = workspace.cache / "archives"
    folder.mkdir(parents=True)
    path = sdist(folder, {"x/junk": bytes(4 << 20), f"x/{MEMBER}": b"document one"})
    problem = sdist_problem(path, include=MEMBER, count=1)
    read = lambda: ensure_documents(problem, workspace, offline=True)  # noqa: E731
    assert refused(read, path) == "archive-bomb"
    assert not workspace.documents.exists()
    monkeypatch.setattr(packages, "LARGEST_UNPACKED_BYTES", 8 << 20)
    assert read()["text"].to_pylist() == ["document one"]


def test_no_member_is_written_under_a_path_of_its_own(tmp_path: Path) -> None:
    """Members are read, never unpacked: a path out of the archive is a name and nothing else."""
    folder = tmp_path / "archives"
    folder.mkdir()
    path = sdist(folder, {"x/../../escaped.txt": b"one", "/etc/escaped.txt": b"two"})
    assert [text for _, text in archive_texts(path, "*.txt")] == [b"one", b"two"]
    wheel = folder / "tiny_a-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("../escaped.txt", b"three")
    assert [text for _, text in archive_texts(wheel, "*.txt")] == [b"three"]
    assert sorted(found.name for found in tmp_path.rglob("*")) == [
        "archives",
        "corpus-1.0.tar.gz",
        "tiny_a-1.0-py3-none-any.whl",
    ]
