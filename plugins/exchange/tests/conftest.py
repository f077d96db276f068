"""Two labs and what the far one exports."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from two_labs import MODELS, Lab, Run

from analysis.ranking.cli import correlate
from tokenmart import cli


@pytest.fixture
def tell(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in a lab's checkout."""
    for name in ("TOKENMART_DATA", "TOKENMART_DATABASE", "TOKENMART_STORE"):
        monkeypatch.delenv(name, raising=False)

    def run(lab: Lab, *words: str, code: int = 0) -> Result:
        monkeypatch.setenv("TOKENMART_HOME", str(lab.root))
        command = correlate if words[0] == "correlate" else cli
        rest = words[1:] if words[0] == "correlate" else words
        done = CliRunner().invoke(command, list(rest))
        assert done.exit_code == code, done.output + str(done.exception)
        assert "Traceback" not in done.output
        return done

    return run


@pytest.fixture
def near(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "near", MODELS[:4])


@pytest.fixture
def far(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "far", MODELS[3:])


_exported: dict[str, Path] = {}


@pytest.fixture
def bundle(far: Lab, tell: Run, tmp_path: Path) -> Path:
    """The far lab's export, made once."""
    if "bundle" not in _exported:
        folder = Path(tempfile.mkdtemp(prefix="tokenmart-exchange-"))
        atexit.register(shutil.rmtree, folder)
        tell(far, "exchange", "export", str(folder / "shared"), "--problem", "synthetic")
        _exported["bundle"] = folder / "shared"
    shutil.copytree(_exported["bundle"], tmp_path / "shared")
    return tmp_path / "shared"
