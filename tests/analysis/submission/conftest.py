"""The official script, and a run of it on the made-up target."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from click.testing import CliRunner

SCRIPT = Path(__file__).parents[3] / "scripts" / "verify_locked_no4k.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("verify_locked_no4k", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def run(script, target, workspace, monkeypatch):
    monkeypatch.setattr(script, "ROOT", workspace.root)

    def run(*arguments):
        return CliRunner().invoke(script.main, [str(a) for a in arguments])

    return run
