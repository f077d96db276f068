"""`tokenmart dbt`: dbt's own exit status and a named environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from warehouse.metrics import manifest
from warehouse.paths import Workspace


def write_program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_variables_of_another_dbt_project_do_not_reach_dbt(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = write_program(tmp_path / "dbt", f"env > {tmp_path}/env\npwd >> {tmp_path}/env\nexit 7")
    monkeypatch.setattr(manifest, "command", lambda: [str(fake)])
    for name in ("PROJECT_DIR", "PROFILES_DIR", "PROFILE", "TARGET", "ENGINE_TARGET", "VARS"):
        monkeypatch.setenv(f"DBT_{name}", "/another")
    monkeypatch.setenv("DBT_TARGET_PATH", str(tmp_path / "target"))
    monkeypatch.setenv("TOKENMART_MEMORY", "2GiB")
    assert manifest.run_dbt(("build",), workspace) == 7
    *lines, folder = (tmp_path / "env").read_text().splitlines()
    found = dict(line.partition("=")[::2] for line in lines)
    assert folder == str(workspace.dbt_project)
    assert {name for name in found if name.startswith("DBT_")} == {"DBT_TARGET_PATH"}
    assert found["TOKENMART_DATABASE"] == str(workspace.database)
    assert found["TOKENMART_MEMORY"] == "2GiB"
