"""Locked files and revisions: recorded once, refused when changed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from refusal import refuses

from warehouse.errors import LockedFileError
from warehouse.paths import Workspace
from warehouse.sources.lock_file import (
    check_sha256,
    lock_path,
    record_revision,
    recorded_files,
    recorded_revision,
)

NAME = "results/target.json"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(root=tmp_path, data=tmp_path / "data", database=tmp_path / "w.duckdb")


def test_first_use_records_later_use_checks(workspace):
    assert check_sha256(workspace, "p", Path(NAME), "0a") is True
    assert check_sha256(workspace, "p", workspace.root / NAME, "0a") is False
    with pytest.raises(LockedFileError) as refusal:
        check_sha256(workspace, "p", Path(NAME), "1b")
    assert (refusal.value.code, refusal.value.where) == ("locked-file-changed", NAME)
    assert refusal.value.exit_code == 3
    assert NAME in refusal.value.message
    assert "0a" in refusal.value.message and "1b" in refusal.value.message
    assert recorded_files(workspace, "p") == {NAME: "0a"}


def test_revisions(workspace):
    assert recorded_revision(workspace, "p", "lab/a") is None
    record_revision(workspace, "p", "lab/a", "c0ffee")
    assert recorded_revision(workspace, "p", "lab/a") == "c0ffee"
    record_revision(workspace, "p", "lab/a", "c0ffee")
    with refuses("revision-changed", "lab/a"):
        record_revision(workspace, "p", "lab/a", "decade")


@pytest.mark.parametrize(
    "text",
    ["{", '{"files": {"a": "1"}, "files": {}}', '{"files": []}', '{"files": {"a": 1}}', "[]"],
)
def test_a_damaged_record_is_refused_never_overwritten(workspace, text):
    path = lock_path(workspace, "p")
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with refuses("damaged-lock-file", str(path)):
        check_sha256(workspace, "p", Path(NAME), "0a")
    assert path.read_text() == text


def test_processes_that_record_in_parallel_lose_nothing(workspace):
    code = (
        "import sys; from pathlib import Path; from warehouse.paths import Workspace; "
        "from warehouse.sources.lock_file import record_revision; root = Path(sys.argv[1]); "
        "w = Workspace(root, root, root); "
        "[record_revision(w, 'p', f'{sys.argv[2]}/{i}', 'r') for i in range(20)]"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(workspace.root), name])
        for name in ("x", "y")
    ]
    assert [process.wait(60) for process in running] == [0, 0]
    record = json.loads(lock_path(workspace, "p").read_text())
    assert len(record["revisions"]) == 40
    assert not list(workspace.lock_files.glob("*.tmp"))
