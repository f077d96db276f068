"""Check a release, and tag it: `make release`.

The version of pyproject.toml is that of CITATION.cff, CHANGELOG.md has a dated section for it, git
has no change that is not committed and no such tag, and `.ci/run` passes. The tag is annotated with
the section.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path


def git(root: Path, *words: str) -> str:
    """What git prints.

    Raises:
        subprocess.CalledProcessError: git fails.
    """
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def version_in(file: Path, pattern: str) -> str:
    """The version that a line of the file gives; empty without one."""
    match = re.search(pattern, file.read_text("utf-8"), re.MULTILINE)
    return match[1] if match else ""


def changes_of(version: str, changelog: Path) -> str:
    """The section of a version with its date, `## 0.2.0 (2026-12-01)`; empty without one."""
    dated = rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)\n(.*?)(?=^## |\Z)"
    match = re.search(dated, changelog.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return match[1].strip() if match else ""


def faults(root: Path, version: str) -> list[str]:
    """What a release must not have, one line each."""
    lines = []
    cited = version_in(root / "CITATION.cff", r"^version: (\S+)$")
    if cited != version:
        lines.append(f"CITATION.cff: version {cited!r}, pyproject.toml has {version!r}")
    if not changes_of(version, root / "CHANGELOG.md"):
        lines.append(f"CHANGELOG.md: write what changed below '## {version} (YYYY-MM-DD)'")
    if changed := git(root, "status", "--porcelain"):
        lines.append(f"not committed: {changed.splitlines()[0]}; commit or remove it")
    if git(root, "tag", "--list", f"v{version}"):
        lines.append(f"tag v{version} exists; raise the version in pyproject.toml")
    return lines


def main() -> int:
    """Check, test and tag the repository of the current folder; 1 with a line for each fault."""
    root = Path.cwd()
    version = version_in(root / "pyproject.toml", r'^version = "([^"]+)"$')
    lines = faults(root, version)
    if not lines and subprocess.run([root / ".ci" / "run"], check=False).returncode:
        lines = [".ci/run failed; correct what it printed"]
    lines = lines or faults(root, version)  # tests must not have changed the tree
    for fault in lines:
        print(f"error: {fault}", file=sys.stderr)
    if lines:
        return 1
    message = f"Tokenmart {version}\n\n{changes_of(version, root / 'CHANGELOG.md')}"
    git(root, "tag", "--annotate", "--cleanup=verbatim", f"v{version}", "--message", message)
    print(f"tagged v{version}; publish it with: git push origin v{version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
