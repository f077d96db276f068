"""`make release`, in a small repository of its own: what it refuses, and the tag that it makes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

CHANGES = "### New\n\n- # not a comment of git's"
FILES = {
    "pyproject.toml": '[project]\nversion = "1.2.3"\n',
    "CITATION.cff": "cff-version: 1.2.0\nversion: 1.2.3\n",
    "CHANGELOG.md": f"## 1.2.3 (2026-12-01)\n\n{CHANGES}\n\n## 1.2.2 (2026-11-01)\n\nold\n",
    ".ci/run": "#!/bin/sh\nexit 0\n",
}
FAULTS = {
    "another version is cited": ("CITATION.cff", "1.2.3", "1.2.4", "CITATION.cff"),
    "no date": ("CHANGELOG.md", "2026-12-01", "unreleased", "CHANGELOG.md"),
    "nothing changed": ("CHANGELOG.md", f"{CHANGES}\n\n", "", "CHANGELOG.md"),
    "tests fail": (".ci/run", "exit 0", "exit 1", ".ci/run"),
    "tests change the tree": (".ci/run", "exit 0", "echo >> pyproject.toml", "not committed"),
}


def git(root, *words):
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def release(root, monkeypatch):
    for name in ("GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(name, "somebody")
    script = [sys.executable, ROOT / "scripts" / "release.py"]
    return subprocess.run(script, cwd=root, capture_output=True, text=True, timeout=60)


@pytest.fixture
def repository(tmp_path):
    for name, text in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "all")
    return tmp_path


def test_a_release_is_an_annotated_tag_with_its_changes(repository, monkeypatch):
    assert release(repository, monkeypatch).returncode == 0
    assert git(repository, "cat-file", "-t", "v1.2.3") == "tag"
    written = git(repository, "tag", "--list", "--format=%(contents)", "v1.2.3")
    assert written.strip() == f"Tokenmart 1.2.3\n\n{CHANGES}"
    again = release(repository, monkeypatch)
    assert again.returncode == 1 and "tag v1.2.3 exists" in again.stderr


@pytest.mark.parametrize("fault", FAULTS)
def test_a_release_with_a_fault_makes_no_tag(repository, monkeypatch, fault):
    name, before, after, named = FAULTS[fault]
    file = repository / name
    file.write_text(file.read_text().replace(before, after, 1))
    git(repository, "commit", "-qam", "fault")
    done = release(repository, monkeypatch)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert named in done.stderr
    assert git(repository, "tag") == ""


def test_what_is_not_committed_is_not_released(repository, monkeypatch):
    (repository / "new.txt").write_text("")
    done = release(repository, monkeypatch)
    assert done.returncode == 1 and "new.txt" in done.stderr


def test_this_repository_has_one_version():
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.M)[1]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == version
    assert {"cff-version", "message", "title", "authors", "license"} <= set(cited)
    newest = re.search(r"^## (\S+) \(", (ROOT / "CHANGELOG.md").read_text(), re.M)[1]
    assert newest == version


def test_hooks_before_a_commit_have_the_locked_versions():
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    hooks = [hook for repository in config["repos"] for hook in repository["hooks"]]
    pinned = {line for hook in hooks for line in hook["additional_dependencies"]}
    locked = (ROOT / "requirements.lock").read_text().splitlines()
    assert {line.partition("==")[0] for line in pinned} == {"ruff", "sqlfluff"}
    assert pinned <= set(locked)


def test_the_workflow_runs_what_is_run_by_hand():
    (job,) = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"].values()
    assert job["strategy"]["matrix"]["python"] == ["3.10", "3.x"]
    assert job["steps"][-1] == {"run": ".ci/run"}


def test_the_container_installs_as_the_makefile_does():
    """No step of its own beside the compiler: the same rule, with the extras of a GPU box."""
    container = (ROOT / "Dockerfile").read_text()
    steps = re.findall(r"^RUN (?:apt-get|make (\S+) WITH=(\S+))", container, re.MULTILINE)
    assert steps == [("", ""), (".venv/.ready-to-run", "cuda,report")]
    words = ["make", "-n", "-B", steps[1][0], f"WITH={steps[1][1]}"]
    outside = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, env=outside)
    assert "-c requirements.lock -e '.[cuda,report]'" in done.stdout
