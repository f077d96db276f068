"""Locked files and revisions: recorded once, refused when changed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from warehouse.errors import LockedFileError
from warehouse.paths import Workspace
from warehouse.sources.lock_file import (
    check_sha256,
    file_sha256,
    lock_path,
    record_revision,
    recorded_files,
    recorded_revision,
)


def check_file(workspace, name, path):
    """The file's hash, and whether this use recorded it."""
    sha256 = file_sha256(workspace.root / path)
    return sha256, check_sha256(workspace, name, path, sha256)


@pytest.fixture
def workspace(tmp_path):
    return Workspace(root=tmp_path, data=tmp_path / "data", database=tmp_path / "w.duckdb")


@pytest.fixture
def file(workspace):
    path = workspace.root / "results" / "target.json"
    path.parent.mkdir()
    path.write_text("{}")
    return path


def test_first_use_records_later_use_checks(workspace, file):
    first = check_file(workspace, "p", Path("results/target.json"))
    again = check_file(workspace, "p", file)
    assert first == (file_sha256(file), True) and again == (first[0], False)
    assert recorded_files(workspace, "p") == {"results/target.json": first[0]}


def test_a_changed_file_is_refused_with_file_expected_and_found(workspace, file):
    expected, _ = check_file(workspace, "p", file)
    file.write_text("[]")
    with pytest.raises(LockedFileError) as refusal:
        check_file(workspace, "p", file)
    for word in ("results/target.json", expected, file_sha256(file)):
        assert word in refusal.value.message
    assert (refusal.value.code, refusal.value.where) == (
        "locked-file-changed",
        "results/target.json",
    )
    assert refusal.value.exit_code == 3
    assert recorded_files(workspace, "p") == {"results/target.json": expected}


def test_a_missing_file_is_refused_and_not_recorded(workspace):
    with pytest.raises(LockedFileError, match="can't be read"):
        check_file(workspace, "p", Path("no.json"))
    assert not lock_path(workspace, "p").exists()


def test_revisions(workspace):
    assert recorded_revision(workspace, "p", "lab/a") is None
    assert record_revision(workspace, "p", "lab/a", "c0ffee")
    assert recorded_revision(workspace, "p", "lab/a") == "c0ffee"
    assert not record_revision(workspace, "p", "lab/a", "c0ffee")
    with pytest.raises(LockedFileError) as refusal:
        record_revision(workspace, "p", "lab/a", "decade")
    assert (refusal.value.code, refusal.value.where) == ("revision-changed", "lab/a")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ('{"files": {"a": "1"}, "files": {}}', "twice"),
        ('{"files": []}', 'field "files"'),
        ('{"files": {"a": 1}}', 'field "files"'),
        ("[]", 'field "files"'),
    ],
)
def test_a_damaged_record_is_refused_never_overwritten(workspace, file, text, words):
    path = lock_path(workspace, "p")
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(LockedFileError, match=words):
        check_file(workspace, "p", file)
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
