"""Child processes run our code and no file of the user's folder, and no variable of another
project reaches them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from warehouse.child_process import NOT_FROM_HERE, inherited, python_module

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with scripts that are called as our packages and Python's are."""
    place = tmp_path / "mine"
    place.mkdir()
    for name in ("extract", "warehouse", "random", "tokenmart", "runpy", "json", "pip"):
        (place / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('{name}')\n")
    monkeypatch.chdir(place)
    return place


def test_a_module_runs_whatever_the_folder_has(folder, tmp_path):
    done = subprocess.run(
        [*python_module("tokenmart"), "sql", "--list"],
        env=inherited(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Perplexity and bits per byte" in done.stdout
    code = f"{NOT_FROM_HERE}import json, random\nprint(random.__file__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not Path(done.stdout.strip()).is_relative_to(folder)
    done = subprocess.run(
        [*python_module("pip"), "--version"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 or "No module named pip" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_folder_of_the_path_that_hides_ours_is_named(tmp_path):
    (tmp_path / "analysis").mkdir()
    (tmp_path / "analysis" / "__init__.py").write_text("")
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    for command in (["-m", "tokenmart", "--help"], ["-c", "import tokenmart; tokenmart.correlate"]):
        done = subprocess.run(
            [sys.executable, *command],
            env={**os.environ, "PYTHONPATH": path},
            cwd=tmp_path / "analysis",
            capture_output=True,
            text=True,
            check=False,
        )
        said = f"{(tmp_path / 'analysis' / '__init__.py').resolve()}: is imported in place of"
        assert done.returncode == 1 and said in done.stderr.splitlines()[-1]
        assert command[0] == "-c" or done.stderr.startswith("error: ")
