"""The rules of the house: who may import whom, how large a room is, what is never loaded."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOP_FOLDERS = ("warehouse", "extract", "analysis", "plugins", "scripts")
OURS = (*TOP_FOLDERS, "tokenmart", "tests", "benchmarks")

GROUND = "warehouse"
"""The modules in `warehouse/` itself: errors, paths, files, progress, plugins."""

STORE, PROBES = "warehouse.store", "warehouse.probes"
SOURCES, PROBLEM = "warehouse.sources", "warehouse.problem"
SQL, METRICS, MAINTENANCE = "warehouse.sql", "warehouse.metrics", "warehouse.maintenance"
WAREHOUSE = {GROUND, STORE, PROBES, SOURCES, PROBLEM, SQL, METRICS, MAINTENANCE}
ANALYSIS, STATISTICS, RANKING = "analysis", "analysis.statistics", "analysis.ranking"
PREREGISTRATION = "analysis.preregistration"

MAY_IMPORT = {
    GROUND: set[str](),
    STORE: {GROUND},
    PROBES: {GROUND},
    SOURCES: {GROUND, STORE},
    PROBLEM: {GROUND, STORE, PROBES, SOURCES},
    SQL: {GROUND, STORE, PROBES, PROBLEM},
    METRICS: {GROUND, STORE, PROBLEM, SQL},
    MAINTENANCE: WAREHOUSE,
    "extract": WAREHOUSE,
    ANALYSIS: {GROUND, STATISTICS},
    STATISTICS: set[str](),
    PREREGISTRATION: {ANALYSIS, *WAREHOUSE},
    RANKING: {ANALYSIS, STATISTICS, PREREGISTRATION, *WAREHOUSE},
    "analysis.report": {ANALYSIS, STATISTICS, RANKING, *WAREHOUSE},
    "analysis.submission": {ANALYSIS, STATISTICS, RANKING, PREREGISTRATION, *WAREHOUSE},
    "scripts": {"analysis.submission", "tokenmart", *WAREHOUSE},
    "tokenmart": {GROUND, SQL, RANKING, "analysis.report"},
    "plugins": set(),
    "plugins.benchmarks": {"extract", ANALYSIS, STATISTICS, "analysis.report", *WAREHOUSE},
    "plugins.merging": {
        "plugins.benchmarks",
        "extract",
        ANALYSIS,
        STATISTICS,
        "analysis.report",
        *WAREHOUSE,
    },
    "plugins.cluster": {"extract", *WAREHOUSE},
    "plugins.logprobs": {"extract", *WAREHOUSE},
}
"""Package → packages whose modules it may import, besides its own; see the architecture page."""

MOST_FILES = 15
LONGEST_FILE_LINES = 400


def product_files() -> list[Path]:
    files = [ROOT / "tokenmart.py"]
    for folder in TOP_FOLDERS:
        files += sorted((ROOT / folder).rglob("*.py"))
    return [path for path in files if path.relative_to(ROOT).parts[2:3] != ("tests",)]


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str:
    """`warehouse.sql.shell` → `warehouse.sql`; `warehouse.errors` → `warehouse`."""
    parts = module.split(".")
    two = ".".join(parts[:2])
    return two if two in MAY_IMPORT else parts[0]


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Every imported module of a file with its line, also inside functions and for types."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield node.lineno, inner if is_module(inner) else str(node.module)


def is_module(name: str) -> bool:
    place = ROOT.joinpath(*name.split("."))
    return place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()


def test_rooms_import_only_what_they_may():
    broken = []
    for path in product_files():
        room = room_of(module_name(path))
        for line, module in imports(path):
            other = room_of(module)
            if module.split(".")[0] in OURS and other != room and other not in MAY_IMPORT[room]:
                broken.append(f"{path.relative_to(ROOT)}:{line}: {room} imports {module}")
    assert broken == []


def test_the_core_imports_no_plugin():
    core = [room for room in MAY_IMPORT if not room.startswith("plugins")]
    assert not [room for room in core if any(r.startswith("plugins") for r in MAY_IMPORT[room])]


def test_no_file_imports_itself_through_others():
    ours = {module_name(path): path for path in product_files()}
    graph = {
        name: {module for _, module in imports(path) if module in ours} - {name}
        for name, path in ours.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' -> '.join(error.args[1])}")


def test_every_room_is_known():
    rooms = {room_of(module_name(path)) for path in product_files()}
    assert rooms <= set(MAY_IMPORT), rooms - set(MAY_IMPORT)


def test_files_and_rooms_stay_readable():
    files = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in product_files()}
    assert {path: lines for path, lines in files.items() if lines > LONGEST_FILE_LINES} == {}
    counts = Counter(path.parent for path in files if path.name != "__init__.py")
    assert {room: count for room, count in counts.items() if count > MOST_FILES} == {}


def test_torch_is_imported_in_extract_and_plugins_only():
    heavy = ("torch", "transformers", "accelerate")
    found = {
        (path.relative_to(ROOT).as_posix(), module)
        for path in product_files()
        for _, module in imports(path)
        if module.split(".")[0] in heavy
        and path.relative_to(ROOT).parts[0] not in ("extract", "plugins")
    }
    assert found <= {
        ("warehouse/sources/json_documents.py", "transformers"),  # tokenizer of a proxy file
        ("warehouse/maintenance/doctor.py", "torch"),  # its devices
    }


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (["--help"], {"duckdb", "pyarrow", "numpy", "pydantic", "rich", "yaml", "jinja2"}),
        *((words.split(), set()) for words in ("sql --list", "data --help", "doctor --help")),
        (["sql", "select 1"], set()),
    ],
)
def test_what_a_light_command_never_loads(arguments, heavy):
    code = (
        "import sys\nfrom tokenmart import cli\n"
        f"cli({arguments!r}, standalone_mode=False)\nprint(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    assert not {"torch", "transformers", "dbt", "scipy", "sklearn", *heavy} & loaded


def tracked_files() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], capture_output=True, cwd=ROOT, check=False)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in done.stdout.decode().split("\0") if name]


def test_nothing_depends_on_the_machine_it_was_written_on():
    pattern = re.compile(rb"(?:^|[\s'\"=(])/(?:work|home|root|Users)/\w|\.\./shared/")
    found = [
        path.relative_to(ROOT).as_posix()
        for path in tracked_files()
        if path.is_file() and path.name != Path(__file__).name and pattern.search(path.read_bytes())
    ]
    assert found == []
