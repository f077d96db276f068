"""Folders that can't be written, full disks and a wrong clock: real mounts, real times."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from extract.cli import extract
from warehouse.maintenance.cli import data as commands
from warehouse.paths import find_workspace
from warehouse.store.ledger import read_units
from warehouse.store.token_files import published_path

pytestmark = pytest.mark.hostile


def _mount(folder: Path, *options: str) -> bool:
    command = ["mount", *options, str(folder)]
    return not subprocess.run(command, capture_output=True).returncode


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A small disk of its own as data folder."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if shutil.which("mount") is None or not _mount(folder, "-t", "tmpfs", "tmpfs"):
        pytest.skip("mounting needs root")
    monkeypatch.setenv("TOKENMART_DATA", str(folder))
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def check() -> None:
    checked = CliRunner().invoke(commands, ["check", "--problem", "tiny"])
    assert checked.exit_code == 0, checked.output


def test_a_read_only_folder_is_said_in_one_line_and_can_still_be_checked(tiny_problem, disk):
    path = str(tiny_problem(texts=2))
    arguments = ["--problem", path, "--device", "cpu"]
    done = CliRunner().invoke(extract, [*arguments, "--probe", "full"])
    assert done.exit_code == 0, done.output
    target = published_path(find_workspace(), "tiny", "tiny--one", "full")
    before = target.read_bytes()
    assert _mount(disk, "-o", "remount,ro")
    refused = CliRunner().invoke(extract, arguments)
    assert refused.exit_code == 4, refused.output
    last = refused.output.strip().splitlines()[-1]
    assert "Read-only" in last and str(disk) in last and "Traceback" not in refused.output
    assert target.read_bytes() == before
    check()


def test_a_disk_that_fills_up_is_one_line_and_what_is_done_is_kept(tiny_problem, disk):
    arguments = ["--problem", str(tiny_problem(texts=4)), "--device", "cpu", "--probe", "full"]
    assert _mount(disk, "-o", "remount,size=44k")
    refused = CliRunner().invoke(extract, arguments)
    assert refused.exit_code in (4, 5), refused.output
    last = refused.output.strip().splitlines()[-1]
    assert last.startswith("error: ") and "Traceback" not in refused.output
    assert not list(disk.rglob("*.tmp")) and "No space left on device" in refused.output
    check()
    assert _mount(disk, "-o", "remount,size=64m")
    done = CliRunner().invoke(extract, arguments)
    assert done.exit_code == 0, done.output
    check()
    assert len(read_units(published_path(find_workspace(), "tiny", "tiny--one", "full"))) == 4


def test_a_clock_that_was_set_back_changes_nothing(workspace, tiny_problem):
    """Everything that is there was written next year."""
    path = tiny_problem(texts=2)
    arguments = ["--problem", str(path), "--device", "cpu", "--probe", "full"]
    assert CliRunner().invoke(extract, [*arguments, "--documents", "1"]).exit_code == 0
    file = published_path(workspace, "tiny", "tiny--one", "full")
    (first,) = read_units(file)
    later = time.time() + 365 * 86_400
    for each in [path, *workspace.data.rglob("*")]:
        os.utime(each, (later, later))
    done = CliRunner().invoke(extract, arguments)
    assert done.exit_code == 0, done.output
    assert "2 of 4 were there already" in done.output
    assert first in read_units(file) and len(read_units(file)) == 2
    check()
    kept = CliRunner().invoke(commands, ["gc", "--problem", "tiny", "--yes"])
    assert kept.exit_code == 0, kept.output
    assert len(read_units(file)) == 2
