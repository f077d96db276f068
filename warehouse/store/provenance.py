"""Provenance of a result: code revision and versions."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from warehouse.child_process import inherited

CODE_ROOT = Path(__file__).resolve().parents[2]
CODE_FOLDERS = (
    "analysis", "dbt_project", "extract", "plugins", "scripts", "warehouse", ":(glob)*.py",
)  # fmt: skip


def code_revision(root: Path = CODE_ROOT) -> dict[str, Any]:
    """The commit of the running code, and whether tracked files or code differ from it.

    Args:
        root: the checkout of the code; not the workspace, which may lie elsewhere.

    Returns:
        `revision` (None when git doesn't track this code) and `dirty`.
    """
    tracked = _git(root, "ls-files", "--error-unmatch", "--", "warehouse/store/provenance.py")
    revision = _git(root, "rev-parse", "HEAD")
    if tracked is None or revision is None:
        return {"revision": None, "dirty": None}
    changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    untracked = _git(root, "ls-files", "--others", "--exclude-standard", "--", *CODE_FOLDERS)
    return {"revision": revision, "dirty": bool(changed) or bool(untracked)}


def last_commit_of(root: Path, paths: Sequence[Path]) -> str:
    """The short hash of the last commit that touched one of the paths; empty without git or one.

    Args:
        root: the checkout. paths: relative to it; they need not exist any more.
    """
    names = [path.as_posix() for path in paths]
    return _git(root, "log", "-1", "--format=%h", "--", *names) or ""


def foreign_modules(packages: tuple[str, ...]) -> list[str]:
    """Loaded packages that aren't the installed ones: something on the path comes before them.

    Args:
        packages: names of distributions; those that aren't installed or loaded are passed over.
    """
    foreign = []
    for package in packages:
        try:
            distribution = metadata.distribution(package)
        except metadata.PackageNotFoundError:
            continue
        names = {path.parts[0] for path in distribution.files or () if path.name == "__init__.py"}
        for name in sorted(names & sys.modules.keys()):
            loaded = getattr(sys.modules[name], "__file__", None)
            installed = Path(str(distribution.locate_file(f"{name}/__init__.py")))
            if loaded is not None and Path(loaded).resolve() != installed.resolve():
                foreign.append(name)
    return foreign


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Installed versions of the packages that are there, and Python's."""
    version_of = {"python": platform.python_version()}
    for package in packages:
        try:
            version_of[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return version_of


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
            # a repository is named by its folder, not by what a hook has set
            env=inherited("GIT_"),
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
