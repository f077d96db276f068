"""A headless Chromium for tests, where there is one; what the page looks like after loading."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--virtual-time-budget=3000",
)  # fmt: skip


def chromium() -> str:
    """Path of the browser; skips the test when there is none."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    if not found:
        pytest.skip("no Chromium here (apt-get install chromium, or set CHROMIUM)")
    return found


def run(page: Path, profile: Path, *arguments: str) -> str:
    """Load a page, return what the browser printed."""
    done = subprocess.run(
        [chromium(), *_FLAGS, f"--user-data-dir={profile}", *arguments, f"file://{page}"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def evaluate(page: Path, folder: Path, script: str, *arguments: str) -> str:
    """Run JavaScript in a copy of the page and return the text it computes."""
    copy = folder / "evaluated.html"
    tail = (
        "<script>addEventListener('load', () => { document.title = String((() => {"
        f"{script}"
        "})()); });</script></body></html>"
    )
    copy.write_text(page.read_text().replace("</body></html>", tail))
    dom = run(copy, folder / "profile", "--dump-dom", *arguments)
    return dom.split("<title>", 1)[1].split("</title>", 1)[0]
