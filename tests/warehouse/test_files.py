"""Writes that appear whole or not at all, and places that no output replaces."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from refusal import refuses

from warehouse import files
from warehouse.errors import StorageError, TokenmartError
from warehouse.files import (
    cached_sha256,
    refuse_protected,
    replacing,
    sha256_file,
    storage_errors,
    write_whole,
)
from warehouse.paths import Workspace, find_workspace
from warehouse.store.schema import all_tables


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new" / "a.txt"
    write_whole(path, "café")
    assert path.read_bytes() == "café".encode()
    with pytest.raises(RuntimeError), replacing(path) as draft:
        draft.write_text("half")
        raise RuntimeError
    assert path.read_text(encoding="utf-8") == "café"
    assert [entry.name for entry in path.parent.iterdir()] == ["a.txt"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [("folder", "Is a directory"), ("file/a", "File exists")],
)
def test_what_cant_be_written_is_one_line(tmp_path, name, reason):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(StorageError) as caught:
        write_whole(tmp_path / name, "text")
    assert reason in caught.value.message and "\n" not in caught.value.message


def test_a_pipe_is_written_to_and_a_closed_one_is_one_line(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_whole(pipe, "through")
    reader.join(timeout=10)
    assert read == [b"through"] and stat.S_ISFIFO(pipe.stat().st_mode)

    def leave() -> None:
        os.close(os.open(pipe, os.O_RDONLY))

    gone = threading.Thread(target=leave)
    gone.start()
    with pytest.raises(StorageError, match="Broken pipe"):
        write_whole(pipe, "x" * (1 << 22))
    gone.join(timeout=10)


def test_errors_inside_the_block_name_the_path(tmp_path):
    with pytest.raises(StorageError, match="never-made"), storage_errors(tmp_path / "never-made"):
        (tmp_path / "never-made" / "x").write_text("")


def refused(path: Path, workspace: Workspace, **options: Any) -> str:
    """The code of the error."""
    with pytest.raises(TokenmartError) as caught:
        refuse_protected(path, workspace, **options)
    assert caught.value.where == str(path)
    return caught.value.code


def test_what_the_project_keeps_is_never_an_output(workspace, tmp_path):
    workspace.lock_files.mkdir(parents=True)
    record = {"files": {"elsewhere/labels.json": "0" * 64}, "revisions": {}}
    (workspace.lock_files / "p.json").write_text(json.dumps(record))
    link = tmp_path / "link.json"
    link.symlink_to(workspace.lock_files / "p.json")
    kept = (
        workspace.lock_files / "p.json",
        link,
        workspace.problems / "no4k.yml",
        workspace.root / "elsewhere" / "labels.json",
        workspace.root / "results" / "downstream" / "any.json",
        workspace.root / "data" / "proxy" / "any.json",
        workspace.tokens / "problem=p" / "tokens.parquet",
        workspace.database,
        *(workspace.store / name / "problem=p" / "x.parquet" for name in all_tables()),
    )
    for path in kept:
        assert refused(path, workspace, force=True) == "protected-file"
    for path in (tmp_path / "mine.json", workspace.root / "results" / "mine" / "a.json"):
        refuse_protected(path, workspace)


def test_a_file_that_is_there_is_replaced_with_force_or_by_its_own_kind(workspace, tmp_path):
    mine = tmp_path / "thesis.html"
    mine.write_text("years of work")
    assert refused(mine, workspace, expected=b"tokenmart") == "file-exists"
    refuse_protected(mine, workspace, force=True)
    mine.write_text("<meta content=tokenmart>")
    refuse_protected(mine, workspace, expected=b"tokenmart")
    mine.write_text("")
    refuse_protected(mine, workspace)
    refuse_protected(Path("/dev/stdout"), workspace)
    workspace.database.parent.mkdir(parents=True)
    workspace.database.touch()
    assert refused(workspace.database, workspace, force=True) == "protected-file"


def test_a_data_folder_that_is_missing_names_the_variable(workspace, tmp_path, monkeypatch):
    monkeypatch.setenv("TOKENMART_DATA", str(tmp_path / "unmounted"))
    with pytest.raises(TokenmartError, match=r"TOKENMART_DATA=.*unmounted: no such folder; mount"):
        find_workspace()
    (tmp_path / "unmounted").mkdir()
    assert find_workspace().data == tmp_path / "unmounted"


def test_parquet_files_lie_under_no_path_that_names_a_column(workspace, tmp_path, monkeypatch):
    """DuckDB would read 0 as every token's rank."""
    top = tmp_path / "rank=0" / "lab"
    (top / "dbt_project").mkdir(parents=True)
    (top / "dbt_project" / "dbt_project.yml").touch()
    (top / "data").mkdir()
    (tmp_path / "link").symlink_to(top / "data")
    monkeypatch.setenv("TOKENMART_HOME", str(top))
    for data in ("", str(tmp_path / "link")):
        monkeypatch.setenv("TOKENMART_DATA", data)
        with refuses("partition-in-path", str(top / "data")):
            find_workspace()
    monkeypatch.setenv("TOKENMART_DATA", str(workspace.data))
    assert find_workspace().root == top


def test_a_changed_file_of_equal_size_and_time_has_another_hash(workspace):
    path = workspace.root / "model.safetensors"
    path.write_bytes(b"first weights")
    before = path.stat()
    first = cached_sha256(path, workspace)
    path.write_bytes(b"other weights")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert cached_sha256(path, workspace) == sha256_file(path) != first
    # and one that was put in its place
    (path.parent / "next").write_bytes(b"third weights")
    os.utime(path.parent / "next", ns=(before.st_atime_ns, before.st_mtime_ns))
    (path.parent / "next").replace(path)
    assert cached_sha256(path, workspace) == sha256_file(path)


@pytest.mark.hostile
@pytest.mark.parametrize("text", ["[" * 100_000, "", "{"])
def test_a_damaged_memory_of_hashes_is_made_again(workspace, text):
    workspace.cache.mkdir(parents=True)
    (workspace.cache / "hashes.json").write_text(text)
    assert files.cached("key", lambda: "hash", workspace) == "hash"
    assert files.cached("key", lambda: "another", workspace) == "hash"


def test_files_hashed_side_by_side_are_read_once(workspace, tmp_path, monkeypatch):
    paths = [tmp_path / f"{number}.safetensors" for number in range(12)]
    for number, path in enumerate(paths):
        path.write_bytes(bytes([number]) * 1000)
    read: list[Path] = []
    real = sha256_file
    monkeypatch.setattr(files, "sha256_file", lambda path: read.append(path) or real(path))
    lines = "".join(f"{path.name}:{real(path)}\n" for path in paths)
    expected = hashlib.sha256(lines.encode()).hexdigest()
    assert files.files_sha256(paths, workspace) == expected
    assert files.files_sha256(paths, workspace) == expected
    assert sorted(read) == sorted(paths)
