"""Which code made a result: its own commit, and whether it was changed."""

from __future__ import annotations

import subprocess

from warehouse.store.provenance import code_revision, versions


def git(root, *arguments):
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", "-C", str(root), *identity, *arguments], check=True, capture_output=True)


def test_revision_and_changes(tmp_path):
    assert code_revision(tmp_path) == {"revision": None, "dirty": None}
    code = tmp_path / "warehouse" / "store" / "provenance.py"
    code.parent.mkdir(parents=True)
    code.write_text("one\n")
    git(tmp_path, "init")
    assert code_revision(tmp_path)["revision"] is None
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    clean = code_revision(tmp_path)
    assert len(clean["revision"]) == 40 and clean["dirty"] is False
    (tmp_path / "notes.txt").write_text("not code")
    assert code_revision(tmp_path)["dirty"] is False
    (code.parent / "new.py").write_text("code")
    assert code_revision(tmp_path)["dirty"] is True
    (code.parent / "new.py").unlink()
    code.write_text("two\n")
    assert code_revision(tmp_path) == clean | {"dirty": True}


def test_versions_name_what_is_installed():
    found = versions(("numpy", "no-such-package"))
    assert set(found) == {"python", "numpy"}
