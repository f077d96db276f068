"""Fixtures every test folder may use."""

from __future__ import annotations

from pathlib import Path

import pytest

from warehouse.paths import Workspace, find_workspace


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """An empty checkout in a temporary folder, found by every command of the test."""
    root = tmp_path / "checkout"
    (root / "dbt_project").mkdir(parents=True)
    (root / "dbt_project" / "dbt_project.yml").write_text("name: tokenmart\n")
    (root / "data" / "problems").mkdir(parents=True)
    monkeypatch.setenv("TOKENMART_HOME", str(root))
    monkeypatch.delenv("TOKENMART_DATA", raising=False)
    monkeypatch.delenv("TOKENMART_DATABASE", raising=False)
    return find_workspace()
