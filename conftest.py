"""Fixtures that all tests may use: the core's in tests/, a plugin's in its own folder."""

from __future__ import annotations

import gc
import shutil
import signal
from pathlib import Path

import pytest
from dbt_harness import SHAPE, NewWarehouse, Warehouse
from filelock import FileLock
from made_up_marts import Marts, fill_minilong
from made_up_warehouse import Shape, write_warehouse
from sql_samples import fill

from warehouse.paths import Workspace, find_workspace, workspace_of

pytest_plugins = ["tiny_problems"]


def pytest_configure() -> None:
    """A suite started by `nohup … &` ignores Ctrl-C, and so would the commands it interrupts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with real models first, then slow ones, the longest first: workers end together.

    Before these, one file with the warehouse that workers share: while it is built, none waits.
    """
    marks: dict[Path, set[str]] = {}
    longest: dict[Path, float] = {}
    for item in items:
        marks.setdefault(item.path, set()).update(mark.name for mark in item.iter_markers())
        for mark in item.iter_markers("timeout"):
            longest[item.path] = max([longest.get(item.path, 0.0), *mark.args])
    with_built = (item.path for item in items if "built" in getattr(item, "fixturenames", ()))
    first = next(with_built, None)
    items.sort(
        key=lambda item: (
            item.path != first,
            "models" not in marks[item.path],
            "slow" not in marks[item.path],
            -longest.get(item.path, 0.0),
        )
    )


def pytest_collection_finish() -> None:
    """Every library is imported by now: collecting garbage need not look at all of it again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Objects set aside are finalised in order, as without tests."""
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Output goes to no terminal, whatever the tests were started from."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """An empty checkout in a temporary folder, found by every command of the test."""
    root = tmp_path / "checkout"
    (root / "dbt_project").mkdir(parents=True)
    (root / "dbt_project" / "dbt_project.yml").write_text("name: tokenmart\n")
    (root / "data" / "problems").mkdir(parents=True)
    monkeypatch.setenv("TOKENMART_HOME", str(root))
    for name in ("TOKENMART_DATA", "TOKENMART_DATABASE", "DBT_TARGET_PATH"):
        monkeypatch.delenv(name, raising=False)
    return find_workspace()


@pytest.fixture(scope="session")
def filled_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that `filled` starts from."""
    root = tmp_path_factory.mktemp("filled")
    fill(workspace_of(root))
    return root / "data"


@pytest.fixture
def filled(workspace: Workspace, filled_store: Path) -> Workspace:
    """Two models, one document, all probes; `bad` also has a failed unit."""
    shutil.copytree(filled_store, workspace.data, dirs_exist_ok=True)
    return workspace


@pytest.fixture(scope="session")
def new_warehouse(tmp_path_factory: pytest.TempPathFactory) -> NewWarehouse:
    """Write a shape into a fresh folder; nothing is built yet."""

    def write(shape: Shape) -> Warehouse:
        folder = tmp_path_factory.mktemp("warehouse")
        write_warehouse(folder / "data", shape)
        return Warehouse(folder / "data", folder / "tokenmart.duckdb")

    return write


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Warehouse:
    """`SHAPE`, built once by the first worker that needs it, with all variants; each has a copy.

    A run within a test is no worker, though it inherits a worker's environment: what is next to
    its temporary folder may be of any earlier run.
    """
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if hasattr(pytestconfig, "workerinput") else base) / "built"
    shared.mkdir(exist_ok=True)
    first = Warehouse(shared / "data", shared / "tokenmart.duckdb")
    with FileLock(shared / "lock"):
        if not (shared / "done").exists():
            write_warehouse(first.data, SHAPE)
            first.build(grids=True)
            (shared / "done").touch()
    copied = tmp_path_factory.mktemp("built")
    shutil.copytree(shared, copied, dirs_exist_ok=True, ignore=shutil.ignore_patterns("data"))
    return Warehouse(first.data, copied / first.database.name)


@pytest.fixture
def marts(workspace: Workspace) -> Marts:
    """An empty warehouse with the mart tables and the shipped problem files."""
    return Marts(workspace)


@pytest.fixture(scope="session")
def filled_minilong(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkout that tests of `minilong` start from."""
    root = tmp_path_factory.mktemp("minilong")
    (root / "dbt_project").mkdir()
    fill_minilong(Marts(workspace_of(root)))
    return root


@pytest.fixture
def minilong(workspace: Workspace, filled_minilong: Path) -> Marts:
    """`minilong` with a made-up target, a good metric, a bad one, perplexity and noise."""
    shutil.copytree(filled_minilong, workspace.root, dirs_exist_ok=True)
    return Marts(workspace, empty=False)
