"""The import rules between rooms, and what must never be loaded or named."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("warehouse", "extract", "analysis", "scripts", "tokenmart", "tests", "benchmarks")
MAY_IMPORT = {
    "warehouse": set(),
    "extract": {"warehouse"},
    "analysis": {"warehouse"},
    "scripts": {"analysis", "warehouse"},
    "tokenmart": {"warehouse"},
}
LONGEST_FILE_LINES = 480
"""About 400, says the style; a fifth more is let through."""


def product_files() -> list[Path]:
    files = [ROOT / "tokenmart.py"]
    for room in ("warehouse", "extract", "analysis", "scripts"):
        files += sorted((ROOT / room).rglob("*.py"))
    return files


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Every imported module of a file with its line, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            yield node.lineno, node.module or ""


def test_rooms_import_only_what_they_may() -> None:
    broken = []
    for path in product_files():
        room = path.relative_to(ROOT).parts[0].removesuffix(".py")
        for line, module in imports(path):
            other = module.split(".")[0]
            if other in ROOMS and other != room and other not in MAY_IMPORT[room]:
                broken.append(f"{path.relative_to(ROOT)}:{line}: {room} imports {module}")
    assert broken == []


def test_the_rule_would_notice(tmp_path: Path) -> None:
    source = tmp_path / "x.py"
    source.write_text("def f():\n    from extract.engine import score\n    import analysis.cli\n")
    assert list(imports(source)) == [(2, "extract.engine"), (3, "analysis.cli")]


def test_torch_is_imported_in_extract_only() -> None:
    heavy = ("torch", "transformers", "accelerate")
    found = [
        f"{path.relative_to(ROOT)}:{line}: {module}"
        for path in product_files()
        for line, module in imports(path)
        if module.split(".")[0] in heavy and path.relative_to(ROOT).parts[0] != "extract"
    ]
    tokenizer_of_a_proxy_file = [
        hit for hit in found if "warehouse/sources/documents/json_file.py" in hit
    ]
    assert found == tokenizer_of_a_proxy_file
    assert len(found) <= 1


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["sql", "select 1"], ["sql", "--list"], ["data", "--help"], ["doctor", "--help"]],
)
def test_light_commands_never_load_torch(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom tokenmart import cli\n"
        f"cli({arguments!r}, standalone_mode=False)\n"
        "heavy = {'torch', 'transformers', 'dbt', 'scipy', 'sklearn'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_help_loads_almost_nothing() -> None:
    code = (
        "import sys\nfrom tokenmart import cli\ncli(['--help'], standalone_mode=False)\n"
        "heavy = {'duckdb', 'pyarrow', 'numpy', 'pydantic', 'rich', 'yaml'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def tracked_files() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], capture_output=True, cwd=ROOT, check=False)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in done.stdout.decode().split("\0") if name]


def test_nothing_depends_on_the_machine_it_was_written_on() -> None:
    pattern = re.compile(rb"(?:^|[\s'\"=(])/(?:work|home|root|Users)/\w|\.\./shared/")
    found = [
        path.relative_to(ROOT).as_posix()
        for path in tracked_files()
        if path.is_file() and path.name != Path(__file__).name and pattern.search(path.read_bytes())
    ]
    assert found == []


def test_files_stay_readable() -> None:
    long = {
        path.relative_to(ROOT).as_posix(): lines
        for path in product_files()
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > LONGEST_FILE_LINES
    }
    assert long == {}


def public_definitions(
    tree: ast.Module,
) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Public functions and classes of a module, and public methods of public classes."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    for node in tree.body:
        if isinstance(node, kinds) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                methods = (child for child in node.body if isinstance(child, kinds))
                yield from (child for child in methods if not child.name.startswith("_"))


def test_everything_public_says_what_it_does() -> None:
    silent = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}"
        for path in product_files()
        for node in public_definitions(ast.parse(path.read_text(encoding="utf-8")))
        if ast.get_docstring(node) is None
    ]
    assert silent == []
