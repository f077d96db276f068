"""Open doors: a kind in a scratch folder works like one that ships."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from plugin_folders import write_plugin

from warehouse.paths import Workspace

DOCUMENTS = '''
"""Documents in text files of a folder."""
import hashlib
from pathlib import Path
from typing import Literal

from warehouse.sources.folders import RequiredFile
from warehouse.sources.documents import Document
from warehouse.sources.documents import DocumentSource


class HeapDocuments(DocumentSource):
    kind: Literal["heap"]
    path: Path

    def _files(self, folders):
        return sorted(folders.resolve(self.path).glob("*.txt"))

    def required_file(self, folders):
        files = self._files(folders)
        path = str(self.path)
        return RequiredFile("documents", path, bool(files), path)

    def source_sha256(self, folders):
        texts = [file.read_bytes() for file in self._files(folders)]
        return hashlib.sha256(b"".join(texts)).hexdigest()

    def read(self, folders):
        return [Document(file.name, file.read_text()) for file in self._files(folders)]
'''
WEIGHTS = '''
"""Weights in a folder of another machine, seen under a common path."""
from typing import Literal

from warehouse.sources.weights import Located, WeightSource


class SharedSource(WeightSource):
    kind: Literal["shared"]

    def locate(self, full_id, folders):
        return Located(folders.workspace.root / "common" / full_id, "r1")

    def present(self, full_id, folders):
        return None

    def place(self, full_id, folders):
        return "common"
'''
IMPORTER = '''
"""Scores as `item score` on each line."""
from warehouse.problem.importers import ItemsImporter


class LinesImporter(ItemsImporter):
    kind = "lines"

    def read(self, path):
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            item, score = line.split()
            yield f"{path}:{number}", {"task": path.stem, "item": item, "score": score}
'''
PROBLEM = """\
name: tiny
title: t
documents: {kind: heap, path: texts}
models: [{full_id: org/a, family: f, source: {kind: shared}}]
probes: [{kind: full}]
target: {kind: imported}
"""


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    folder = tmp_path / "plugins"
    return write_plugin(folder, documents=DOCUMENTS, weights=WEIGHTS, importers=IMPORTER)


def tokenmart(plugins: Path | str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TOKENMART_PLUGINS": str(plugins)}
    command = [sys.executable, "-m", "tokenmart", *arguments]
    root = Path(__file__).parents[3]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=root)


def test_kinds_from_a_scratch_folder_are_used(workspace: Workspace, plugins: Path) -> None:
    (workspace.problems / "tiny.yml").write_text(PROBLEM)
    (workspace.root / "texts").mkdir()
    (workspace.root / "texts" / "a.txt").write_text("one")
    (workspace.root / "qa.lines").write_text("0 1\n1 0.5\n")
    done = tokenmart(plugins, "data", "fetch", "--problem", "tiny")
    assert done.returncode == 0, done.stderr
    assert f"model: org/a at {workspace.root}/common/org/a (revision r1;" in done.stdout
    command = ["data", "import", "--problem", "tiny", "--model", "org/a", "--format", "lines"]
    done = tokenmart(plugins, *command, str(workspace.root / "qa.lines"))
    assert done.stdout == "org/a: 2 items of 1 task: qa (2); next: tokenmart dbt run\n", done.stderr


def test_without_the_plugin_the_kinds_that_ship_are_named(workspace: Workspace) -> None:
    (workspace.problems / "tiny.yml").write_text(PROBLEM)
    done = tokenmart("", "data", "fetch", "--problem", "tiny")
    assert done.returncode == 1
    assert "tiny.yml:3: documents" in done.stderr and "'heap'" in done.stderr
