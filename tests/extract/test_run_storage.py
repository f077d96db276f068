"""Published and pending files that are damaged, and a disk that is full."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tiny_runs import ok, one_line_error, run

from warehouse.paths import Workspace
from warehouse.store.ledger import read_units
from warehouse.store.token_files import pending_folder, published_path


def test_a_damaged_published_file_is_named_and_kept(
    workspace: Workspace, tiny_problem: Callable[..., Path]
) -> None:
    path = tiny_problem()
    ok(run(path))
    target = published_path(workspace, "tiny", "tiny--one", "full")
    whole = target.read_bytes()
    target.write_bytes(whole[: len(whole) // 2])
    assert str(target) in one_line_error(run(path), 4)
    target.unlink()
    assert "extracted 4 units" in ok(run(path))


def test_a_damaged_pending_unit_is_computed_again(
    workspace: Workspace, tiny_problem: Callable[..., Path]
) -> None:
    path = tiny_problem()
    folder = pending_folder(workspace, "tiny", "tiny--one", "full")
    folder.mkdir(parents=True)
    (folder / "doc-000001.parquet").write_bytes(b"half a fi")
    assert "extracted 32 units" in ok(run(path))
    assert (folder / "doc-000001.damaged").is_file()


@pytest.fixture
def small_disk(tmp_path: Path) -> Any:
    """A real file system of 200 kB, where this user may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_keeps_what_was_computed(
    workspace: Workspace,
    tiny_problem: Callable[..., Path],
    small_disk: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tiny_problem(texts=60)
    monkeypatch.setenv("TOKENMART_DATA", str(small_disk))
    message = one_line_error(run(path), 4)
    assert str(small_disk) in message and "No space left" in message
    kept = [p for p in small_disk.rglob("*.parquet") if p.parts[-1].startswith(("doc-", "tokens"))]
    assert kept
    for file in kept:
        assert read_units(file)
        pq.read_table(file, partitioning=None)
    assert not list(small_disk.rglob("*.tmp"))
