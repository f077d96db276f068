"""In a scratch copy, help and metrics work without each plugin, the core's tests without all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLUGINS = sorted(path.parent.name for path in ROOT.glob("plugins/*/__init__.py"))
QUICK = (
    "tests/test_architecture.py",
    "tests/test_pages.py",
    "tests/warehouse/problem",
    "tests/warehouse/importers",
    "tests/warehouse/store/test_token_files.py",
)


def copy_without(plugins: list[str], scratch: Path) -> Path:
    """Copy the tracked files, but not those in the folders of these plugins."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    removed = {("plugins", name) for name in plugins}
    for name in filter(None, listed.stdout.decode().split("\0")):
        if Path(name).parts[:2] not in removed and (ROOT / name).is_file():
            (scratch / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, scratch / name)
    return scratch


@pytest.fixture(scope="module", params=PLUGINS)
def without(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The copy without one plugin."""
    return copy_without([request.param], tmp_path_factory.mktemp(f"without-{request.param}"))


def run(scratch: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a Python module in the copy, which is first on the path."""
    environment = {**os.environ, "PYTHONPATH": str(scratch), "TOKENMART_HOME": str(scratch)}
    for name in ("TOKENMART_DATA", "TOKENMART_DATABASE", "DBT_TARGET_PATH"):
        environment.pop(name, None)
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=scratch, env=environment, capture_output=True, text=True
    )


def pytest_in(scratch: Path, *words: str) -> None:
    """Run tests of the core in the copy."""
    done = run(scratch, "pytest", "-q", "-x", "-m", "not slow and not models", *words)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr


def test_help_works(without: Path) -> None:
    removed = without.name.removeprefix("without-").rstrip("0123456789")
    done = run(without, "tokenmart", "--help")
    assert done.returncode == 0, done.stderr
    for plugin in PLUGINS:
        code = (ROOT / "plugins" / plugin / "__init__.py").read_text(encoding="utf-8")
        listed = plugin != removed and "def tokenmart_commands" in code
        assert (f"Plugin: {plugin}:" in done.stdout) == listed


def test_metrics_parse(without: Path) -> None:
    done = run(without, "tokenmart", "dbt", "parse", "--quiet")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(600)
def test_quick_tests_of_the_core_pass_without_any_plugin(tmp_path: Path) -> None:
    """That no module of the core imports a plugin is tested apart."""
    pytest_in(copy_without(PLUGINS, tmp_path), *QUICK)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_more_tests_of_the_core_pass_without_any_plugin(tmp_path: Path) -> None:
    """What reads tables and models."""
    alone = copy_without(PLUGINS, tmp_path)
    analysis = ("ranking/test_metric_table.py", "test_preregistration.py", "report")
    there = (f"tests/analysis/{name}" for name in analysis)
    pytest_in(alone, *there, "tests/warehouse/sql", "tests/extract/test_plans.py")
