"""In a scratch copy, help, metrics and the core's tests work without the plugins."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from dbt_harness import PARSED_IN

ROOT = Path(__file__).parents[1]
PLUGINS = sorted(path.parent.name for path in ROOT.glob("plugins/*/__init__.py"))
CORE = (
    *("tests/test_architecture.py", "tests/test_pages.py", "tests/extract/test_plans.py"),
    *(f"tests/warehouse/{name}" for name in ("problem", "sql", "store")),
    *(f"tests/analysis/{name}" for name in ("ranking/test_metric_table.py", "report")),
    "tests/analysis/test_preregistration.py",
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


def run(scratch: Path, *words: str) -> str:
    """Output of a Python module in the copy, which is first on the path."""
    environment = {**os.environ, "PYTHONPATH": str(scratch), "TOKENMART_HOME": str(scratch)}
    # a project without a plugin's macros, parsed, is no start for one with them
    for name in ("TOKENMART_DATA", "TOKENMART_DATABASE", "DBT_TARGET_PATH", PARSED_IN):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=scratch, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "removed",
    [
        pytest.param(PLUGINS, id="all"),
        *(pytest.param([name], id=name, marks=pytest.mark.slow) for name in PLUGINS),
    ],
)
def test_help_works_and_metrics_parse(removed, tmp_path):
    scratch = copy_without(removed, tmp_path)
    shown = run(scratch, "tokenmart", "--help")
    for plugin in PLUGINS:
        code = (ROOT / "plugins" / plugin / "__init__.py").read_text(encoding="utf-8")
        listed = plugin not in removed and "def tokenmart_commands" in code
        assert (f"Plugin: {plugin}:" in shown) == listed
    run(scratch, "tokenmart", "dbt", "parse", "--quiet")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_tests_of_the_core_pass_without_any_plugin(tmp_path):
    """That no module of the core imports a plugin is tested apart."""
    scratch = copy_without(PLUGINS, tmp_path)
    run(scratch, "pytest", "-q", "-x", "-m", "not slow and not models", *CORE)
