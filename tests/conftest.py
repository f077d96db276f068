"""Fixtures every test folder may use."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from sql_samples import fill

from warehouse.paths import Workspace, find_workspace


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """An empty checkout in a temporary folder, found by every command of the test."""
    root = tmp_path / "checkout"
    (root / "dbt_project").mkdir(parents=True)
    (root / "dbt_project" / "dbt_project.yml").write_text("name: tokenmart\n")
    macros = Path("dbt_project", "macros", "create_sql_macros.sql")
    (root / macros.parent).mkdir()
    shutil.copy(find_workspace(Path(__file__)).root / macros, root / macros)
    (root / "data" / "problems").mkdir(parents=True)
    monkeypatch.setenv("TOKENMART_HOME", str(root))
    monkeypatch.delenv("TOKENMART_DATA", raising=False)
    monkeypatch.delenv("TOKENMART_DATABASE", raising=False)
    return find_workspace()


@pytest.fixture
def filled(workspace: Workspace) -> Workspace:
    """Two models, one document, all probes; `bad` also has a failed unit."""
    fill(workspace)
    return workspace
