"""Plant small faults, one at a time, and see which test of the fast suite notices each.

    python tests/mutations/check.py [--only TEXT]... [--whole]

Each fault of mutations.yml and plugins.yml is planted in a copy of the last commit. The tests named
there run first, up to the first failure; they must pass without a fault. With `--whole` the fast
suite runs after them where they notice nothing. Writes mutations.json: the test that noticed each,
or null; with `--only`, which can be repeated, the lines of the other faults stay as they were.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LISTS, RESULTS = ("mutations.yml", "plugins.yml"), HERE / "mutations.json"
LIMIT_S = 1800


def mutations() -> list[dict[str, str]]:
    """The lists of faults: file, was, now, tests; without those of a plugin that isn't here."""
    found: list[dict[str, str]] = []
    for name in LISTS:
        found += yaml.safe_load((HERE / name).read_text("utf-8"))
    return [line for line in found if _plugin(line["file"]).is_dir()]


def _plugin(file: str) -> Path:
    """The plugin's folder, or the checkout of another file."""
    return ROOT.joinpath(*Path(file).parts[:2]) if file.startswith("plugins/") else ROOT


def fault(line: dict[str, Any]) -> dict[str, str]:
    """What a line of the list or of the results is about."""
    return {key: line[key] for key in ("file", "was", "now")}


@contextmanager
def planted(root: Path, mutation: dict[str, str]) -> Iterator[None]:
    """The fault in the file, which is put back afterwards.

    Raises:
        ValueError: the text to replace doesn't stand in the file exactly once.
    """
    path = root / mutation["file"]
    text = path.read_text("utf-8")
    if text.count(mutation["was"]) != 1:
        raise ValueError(
            f"{mutation['file']}: {mutation['was']!r} stands {text.count(mutation['was'])} times"
        )
    path.write_text(text.replace(mutation["was"], mutation["now"]), "utf-8")
    try:
        yield
    finally:
        path.write_text(text, "utf-8")


def first_failure(root: Path, tests: list[str]) -> str | None:
    """The first test of the fast suite that fails or can't be collected; None if all pass."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-m",
        "not slow",
        "-p",
        "no:cacheprovider",
    ]
    env = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [*command, *tests], cwd=root, env=env, capture_output=True, text=True, timeout=LIMIT_S
    )
    if run.returncode == 0:
        return None
    named = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if run.returncode != 1 or not named:
        raise RuntimeError(
            f"pytest {' '.join(tests)} ended with {run.returncode}: {run.stdout[-800:]}"
        )
    return named[0].split(" - ")[0].split(maxsplit=1)[1]


def main() -> None:
    """See the head of this file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", help="faults whose file or text contains this")
    parser.add_argument("--whole", action="store_true", help="the whole fast suite where needed")
    options = parser.parse_args()
    listed = mutations()
    chosen = [
        mutation
        for mutation in listed
        if any(text in f"{mutation['file']} {mutation['was']}" for text in options.only or [""])
    ]
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "copy"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(root)], check=True)
        for tests in sorted({mutation["tests"] for mutation in chosen}):
            if failing := first_failure(root, tests.split()):
                raise SystemExit(f"{failing} fails without any fault")
        for number, mutation in enumerate(chosen, 1):
            start = time.monotonic()
            with planted(root, mutation):
                noticed = first_failure(root, mutation["tests"].split())
                if noticed is None and options.whole:
                    noticed = first_failure(root, ["-n", "2", "--dist", "loadfile"])
            results.append(fault(mutation) | {"noticed_by": noticed})
            seconds = round(time.monotonic() - start)
            said = noticed or "NOT NOTICED"
            print(f"{number}/{len(chosen)} {mutation['file']}: {said} ({seconds} s)", flush=True)
    earlier = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else []
    table = [
        line
        for mutation in listed
        for line in [line for line in [*results, *earlier] if fault(line) == fault(mutation)][:1]
    ]
    RESULTS.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n", "utf-8")
    count = sum(line["noticed_by"] is not None for line in results)
    print(f"{count} of {len(results)} noticed")


if __name__ == "__main__":
    main()
