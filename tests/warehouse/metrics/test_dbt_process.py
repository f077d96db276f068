"""`tokenmart dbt`: dbt's own exit status, a named environment, and one build at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from warehouse.metrics import dbt_process
from warehouse.paths import Workspace

ROOT = Path(__file__).parents[3]
CODE = """
import sys, warehouse.metrics.dbt_process as d, tokenmart
dbt = sys.argv.pop(1)
d.command = lambda: [dbt]
sys.argv[0] = 'tokenmart'
tokenmart.main()
"""


def write_program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def start(workspace: Workspace, dbt: Path, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CODE, str(dbt), "dbt", "parse", name]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_a_second_build_waits_for_the_first(workspace: Workspace, tmp_path: Path) -> None:
    # it continues when its standard input ends
    fake = write_program(
        tmp_path / "dbt",
        f'echo "begin $2" | tee -a {tmp_path}/log\ncat > {tmp_path}/in\n'
        f'echo "end $2" >> {tmp_path}/log',
    )
    with start(workspace, fake, "first") as first:
        assert first.stdout and first.stdin
        said = first.stdout.readline()
        assert said == "begin first\n", first.stderr.read() if first.stderr else ""
        with start(workspace, fake, "second") as second:
            assert second.stderr and second.stdin
            assert "another `tokenmart dbt` is running" in second.stderr.readline()
            first.stdin.close()
            assert first.wait(60) == 0
            second.stdin.close()
            assert second.wait(60) == 0
    told = (tmp_path / "log").read_text().split("\n")
    assert told == ["begin first", "end first", "begin second", "end second", ""]


def test_variables_of_another_dbt_project_do_not_reach_dbt(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = write_program(tmp_path / "dbt", f"env > {tmp_path}/env\npwd >> {tmp_path}/env\nexit 7")
    monkeypatch.setattr(dbt_process, "command", lambda: [str(fake)])
    for name in ("PROJECT_DIR", "PROFILES_DIR", "PROFILE", "TARGET", "ENGINE_TARGET", "VARS"):
        monkeypatch.setenv(f"DBT_{name}", "/another")
    monkeypatch.setenv("DBT_TARGET_PATH", str(tmp_path / "target"))
    monkeypatch.setenv("TOKENMART_MEMORY", "2GiB")
    assert dbt_process.run_dbt(("build",), workspace) == 7
    *lines, folder = (tmp_path / "env").read_text().splitlines()
    found = dict(line.partition("=")[::2] for line in lines)
    assert folder == str(workspace.dbt_project)
    assert {name for name in found if name.startswith("DBT_")} == {"DBT_TARGET_PATH"}
    assert found["TOKENMART_DATABASE"] == str(workspace.database)
    assert found["TOKENMART_MEMORY"] == "2GiB"
