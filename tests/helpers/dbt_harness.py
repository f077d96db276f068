"""A warehouse in a temporary folder, built by dbt as `tokenmart dbt` starts it."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from made_up_warehouse import Retrieval, Shape, Window

from warehouse.metrics import manifest
from warehouse.paths import Workspace, find_workspace

PROJECT = find_workspace(Path(__file__)).dbt_project

NO_UNIT_TESTS = ("--exclude-resource-type", "unit_test")
"""They test the SQL and no data: test_unit_tests.py runs them once."""

# What dbt remembers of a parsed project: half of each first run in a new folder is parsing.
# Workers of one run inherit the folder.
PARSED_IN = "TOKENMART_TEST_PARSED"
if PARSED_IN not in os.environ:
    os.environ[PARSED_IN] = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, os.environ[PARSED_IN])
PARSED = Path(os.environ[PARSED_IN]) / "partial_parse.msgpack"

SHAPE = Shape(
    models=4,
    documents=4,
    tokens=700,
    windows=(Window(64, 32), Window(256, 64)),
    retrieval=Retrieval(
        excerpts=6,
        excerpt_tokens=16,
        answer_tokens=8,
        min_gap=32,
        controls=("foreign", "shuffled", "tail"),
    ),
    ladder=(32, 64, 128, 256),
    copies=(16, 64),
    halves=(16, 64, 256),
    depths=(0.2, 0.5, 0.9),
    top_k=4,
    divergence=True,
    compare=(("full", "ladder_64"), ("ladder_256", "ladder_32")),
)


@dataclass(frozen=True)
class Warehouse:
    """A data folder and the DuckDB file dbt builds from it."""

    data: Path
    database: Path
    project: Path = PROJECT

    def dbt(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run dbt on this warehouse, from the project folder, as a user would."""
        self.data.mkdir(parents=True, exist_ok=True)
        parsed = self.database.parent / "target" / PARSED.name
        if not parsed.exists() and PARSED.exists():
            parsed.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(PARSED, parsed)
        done = subprocess.run(
            [*manifest.command(), *arguments],
            cwd=self.project,
            env={
                **os.environ,
                "TOKENMART_DATA": str(self.data),
                "TOKENMART_DATABASE": str(self.database),
                "DBT_TARGET_PATH": str(self.database.parent / "target"),
                "DBT_LOG_PATH": str(self.database.parent / "logs"),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        if parsed.exists() and not PARSED.exists():
            copy = PARSED.with_name(f"{os.getpid()}.msgpack")
            shutil.copyfile(parsed, copy)
            copy.replace(PARSED)
        return done

    def build(self, grids: bool = False) -> None:
        """`dbt build`, with all data tests; fails the test with dbt's own output."""
        done = self.dbt("build", "--quiet", "--vars", json.dumps({"grids": grids}), *NO_UNIT_TESTS)
        assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr

    def run(self, *arguments: str) -> None:
        """`dbt run`, the models only."""
        done = self.dbt("run", "--quiet", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr

    def with_threads(self, threads: int, folder: Path, *arguments: str) -> Warehouse:
        """The same data in a new database of `folder`, built with this number of DuckDB threads."""
        profile = yaml.safe_load((self.project / "profiles.yml").read_text(encoding="utf-8"))
        profile["tokenmart"]["outputs"]["local"]["config_options"]["threads"] = threads
        folder.mkdir(parents=True)
        (folder / "profiles.yml").write_text(yaml.safe_dump(profile), encoding="utf-8")
        other = Warehouse(self.data, folder / "tokenmart.duckdb", self.project)
        other.run("--profiles-dir", str(folder), *arguments)
        return other

    def with_own_project(self, folder: Path) -> Warehouse:
        """The same warehouse, built from a copy of the project that a test may edit."""
        project = folder / "dbt_project"
        shutil.copytree(self.project, project, ignore=shutil.ignore_patterns("target", "logs"))
        if not (folder / "plugins").exists():
            (folder / "plugins").symlink_to(PROJECT.parent / "plugins")
        return Warehouse(self.data, self.database, project)

    def copied(self, folder: Path) -> Warehouse:
        """What is built so far, data and project, for a test to change and build further."""
        home = folder / "copied"
        shutil.copytree(self.data, home / "data")
        database = home / "warehouse" / self.database.name
        (database.parent / "target").mkdir(parents=True)
        shutil.copyfile(self.database, database)
        for name in ("manifest.json", PARSED.name):
            shutil.copyfile(
                self.database.parent / "target" / name, database.parent / "target" / name
            )
        return Warehouse(home / "data", database, self.project).with_own_project(home)

    @contextmanager
    def as_workspace(self) -> Iterator[Workspace]:
        """A copy as the checkout that commands find."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TOKENMART_HOME", str(self.project.parent))
            patch.setenv("TOKENMART_DATA", str(self.data))
            patch.setenv("TOKENMART_DATABASE", str(self.database))
            patch.setenv("DBT_TARGET_PATH", str(self.database.parent / "target"))
            yield find_workspace()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Rows of a read-only query."""
        with duckdb.connect(str(self.database), read_only=True) as connection:
            return connection.execute(query).fetchall()

    def values(self, metric: str) -> dict[tuple[str, str], float | None]:
        """(variant, model) → value."""
        found = self.rows(
            f"select variant, model_id, value from metric_values where metric = '{metric}'"
        )
        return {(variant, model): value for variant, model, value in found}

    @property
    def manifest(self) -> dict[str, Any]:
        """dbt's manifest of the last run."""
        path = self.database.parent / "target" / "manifest.json"
        return dict(json.loads(path.read_text(encoding="utf-8")))


def add_variant(warehouse: Warehouse, metric: str, name: str, **settings: str) -> None:
    """A further core variant, in the metric's file of the warehouse's own project."""
    path = warehouse.project / "models" / "metrics" / f"{metric}.sql"
    text = path.read_text(encoding="utf-8")
    assert "variants = {" in text
    added = f"variants = {{{name!r}: {settings!r}, "
    path.write_text(text.replace("variants = {", added, 1), encoding="utf-8")


NewWarehouse = Callable[[Shape], Warehouse]


def assert_same_values(one: Warehouse, other: Warehouse) -> None:
    """Same metrics, variants, models and counts; same values to 1e-9 relative."""
    query = "select metric, variant, model_id, value, tokens, documents from metric_values"
    mine, theirs = (
        {row[:3]: row[3:] for row in warehouse.rows(query)} for warehouse in (one, other)
    )
    assert set(mine) == set(theirs)
    for key, (value, *counts) in mine.items():
        assert list(theirs[key][1:]) == counts, key
        if value is None:
            assert theirs[key][0] is None, key
        else:
            assert theirs[key][0] == pytest.approx(value, rel=1e-9, abs=1e-12), key
