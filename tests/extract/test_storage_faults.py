"""Folders that can't be written: a real read-only mount."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from extract.cli import extract
from warehouse.maintenance.cli import warehouse as commands
from warehouse.paths import Workspace, find_workspace
from warehouse.store.token_files import published_path


def _mount(folder: Path, *options: str) -> bool:
    command = ["mount", *options, str(folder)]
    return not subprocess.run(command, capture_output=True).returncode


def test_a_read_only_folder_is_said_in_one_line_and_can_still_be_checked(
    workspace: Workspace,
    tiny_problem: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = str(tiny_problem(texts=2))
    disk = tmp_path / "disk"
    disk.mkdir()
    if shutil.which("mount") is None or not _mount(disk, "-t", "tmpfs", "tmpfs"):
        pytest.skip("mounting needs root")
    try:
        monkeypatch.setenv("TOKENMART_DATA", str(disk))
        arguments = ["--problem", path, "--device", "cpu"]
        done = CliRunner().invoke(extract, [*arguments, "--probe", "full"])
        assert done.exit_code == 0, done.output
        target = published_path(find_workspace(), "tiny", "tiny--one", "full")
        before = target.read_bytes()
        assert _mount(disk, "-o", "remount,ro")
        refused = CliRunner().invoke(extract, arguments)
        assert refused.exit_code == 4, refused.output
        last = refused.output.strip().splitlines()[-1]
        assert "read-only" in last and str(disk) in last and "Traceback" not in refused.output
        assert target.read_bytes() == before
        checked = CliRunner().invoke(commands, ["check", "--problem", "tiny"])
        assert checked.exit_code == 0, checked.output
    finally:
        subprocess.run(["umount", str(disk)], check=True)
