"""A strict type checker reads what users write: README's Python, the notebook, mistakes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tokenmart

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "how_to" / "notebooks.md")
NOTEBOOK = ROOT / "docs" / "how_to" / "first_look.ipynb"
MISTAKES = {
    'tm.qurey("from tokens")': "attr-defined",
    'tm.query("from tokens", "panda")': "call-overload",
    'tm.query("from tokens", "relation").fetchal()': "operator",
    'tm.correlate({"a": 0.5}, better="best")': "call-overload",
    "tm.open(1)": "arg-type",
    'tm.show(0, "a", measure="nll")': "arg-type",
    'tm.show(0, "a").veiw': "attr-defined",
}


def check(folder: Path, sources: dict[str, str]) -> dict[str, list[str]]:
    """Source by name → codes of the errors that mypy's strict mode finds in it."""
    files = []
    for name, source in sources.items():
        files.append(folder / f"{name}.py")
        files[-1].write_text(source)
    command = [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, list[str]] = {name: [] for name in sources}
    for path, code in re.findall(r"^(.+?\.py):\d+: error: .*\[([a-z-]+)\]$", done.stdout, re.M):
        found[Path(path).stem].append(code)
    return found


@pytest.mark.slow
def test_examples_pass_a_strict_checker_and_mistakes_do_not(tmp_path):
    pytest.importorskip("mypy")
    examples = {
        f"{page.stem}_{number}": code
        for page in PAGES
        for number, code in enumerate(
            re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
        )
    }
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    examples["first_look"] = "\n".join(code)
    assert len(examples) > 5
    mistakes = {f"mistake_{n}": f"import tokenmart as tm\n\n{m}\n" for n, m in enumerate(MISTAKES)}
    found = check(tmp_path, {**examples, **mistakes})
    assert {name: codes for name, codes in found.items() if name in examples and codes} == {}
    assert [found[name] for name in mistakes] == [[code] for code in MISTAKES.values()]


@pytest.mark.parametrize("name", tokenmart.FUNCTIONS)
def test_a_public_name_is_described(name):
    text = getattr(tokenmart, name).__doc__
    assert "Raises:" in text, name
