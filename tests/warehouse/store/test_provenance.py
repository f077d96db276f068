"""Which code made a result: its own commit, and whether it was changed."""

from __future__ import annotations

import subprocess
from pathlib import Path

from warehouse.child_process import inherited
from warehouse.store.provenance import code_revision, last_commit_of, versions

FILE = Path("warehouse") / "store" / "provenance.py"


def git(root, *arguments):
    names = (
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@example.org",
        "-c",
        "core.hooksPath=/dev/null",
    )
    command = ["git", "-C", str(root), *names, *arguments]
    subprocess.run(command, env=inherited("GIT_"), check=True, capture_output=True)


def test_revision_and_changes(tmp_path):
    assert code_revision(tmp_path) == {"revision": None, "dirty": None}
    code = tmp_path / FILE
    code.parent.mkdir(parents=True)
    code.write_text("one\n")
    git(tmp_path, "init")
    assert code_revision(tmp_path)["revision"] is None
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    clean = code_revision(tmp_path)
    assert len(clean["revision"]) == 40 and clean["dirty"] is False
    assert clean["revision"].startswith(last_commit_of(tmp_path, [FILE]) or "none")
    (tmp_path / "notes.txt").write_text("not code")
    assert code_revision(tmp_path)["dirty"] is False
    (tmp_path / "plugins" / "mine").mkdir(parents=True)
    for new in (code.parent / "new.py", tmp_path / "plugins" / "mine" / "__init__.py"):
        new.write_text("code")
        assert code_revision(tmp_path)["dirty"] is True, new
        new.unlink()
    code.write_text("two\n")
    assert code_revision(tmp_path) == clean | {"dirty": True}


def test_git_answers_for_its_folder_while_a_hook_of_another_runs(tmp_path, monkeypatch):
    for variable, value in {"DIR": ".git", "WORK_TREE": "", "INDEX_FILE": "none"}.items():
        monkeypatch.setenv(f"GIT_{variable}", str(tmp_path / "theirs" / value))
    test_revision_and_changes(tmp_path)


def test_versions_name_what_is_installed():
    found = versions(("numpy", "no-such-package"))
    assert set(found) == {"python", "numpy"}
