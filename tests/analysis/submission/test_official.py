"""`official: true` is an equality with the locked problem that ships, and with its code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from analysis.submission.official import why_unofficial
from warehouse.paths import Workspace
from warehouse.problem.spec import load_problem
from warehouse.problem.tables import ensure_documents

ROOT = Path(__file__).parents[3]
CLEAN = {"revision": "abc", "dirty": False}
WHOLE = {"status": "done", "document_tokens": 9, "document_tokens_total": 9, "code_dirty": False}
CUT = WHOLE | {"document_tokens": 8}


@pytest.fixture
def locked(workspace: Workspace) -> Workspace:
    """The locked problem with 50 texts in place of the real ones, and the SQL that ships."""
    workspace.dbt_project.joinpath("dbt_project.yml").unlink()
    for name in ("dbt_project", "plugins"):
        shutil.copytree(
            ROOT / name,
            workspace.root / name,
            dirs_exist_ok=True,
            ignore=shutil.ignore_patterns("target", "logs", "tests", "__pycache__"),
        )
    shutil.copy(ROOT / "data" / "problems" / "no4k.yml", workspace.problems)
    texts = workspace.root / "data" / "proxy" / "govreport_50_32k_tokens.json"
    texts.parent.mkdir()
    texts.write_text(json.dumps([f"text {number} " * 90 for number in range(50)]))
    return workspace


def reasons(workspace: Workspace, edit: Callable[[Workspace], object], **changed: Any) -> list[str]:
    ensure_documents(load_problem("no4k", workspace), workspace)
    edit(workspace)
    problem = load_problem("no4k", workspace)
    arguments = {
        "column": SimpleNamespace(admissible=True),
        "lineage": SimpleNamespace(foreign=()),
        "units": [WHOLE, WHOLE],
        "code": CLEAN,
    }
    return why_unofficial(workspace, problem, **(arguments | changed))


def problem_file(old: str, new: str, store: bool = False) -> Callable[[Workspace], None]:
    def edit(workspace: Workspace) -> None:
        file = workspace.problems / "no4k.yml"
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new, 1))
        if store:
            ensure_documents(load_problem("no4k", workspace), workspace, force=True)

    return edit


def own_folder(workspace: Workspace) -> None:
    (workspace.root / "mine").mkdir()
    (workspace.root / "mine" / "a.txt").write_text("A text of my own.")
    file = workspace.problems / "no4k.yml"
    head, tail = file.read_text().split("documents:\n")
    _, _, tail = tail.partition("  count: 50\n")
    file.write_text(f"{head}documents:\n  kind: folder\n  path: mine\n  count: 50\n{tail}")
    ensure_documents(load_problem("no4k", workspace), workspace)


def text_edited(workspace: Workspace) -> None:
    file = workspace.root / "data" / "proxy" / "govreport_50_32k_tokens.json"
    file.write_text(file.read_text().replace("text 7 ", "text eight ", 1))


def appended(path: str, text: str) -> Callable[[Workspace], None]:
    def edit(workspace: Workspace) -> None:
        file = workspace.root / path
        file.parent.mkdir(exist_ok=True)
        file.write_text((file.read_text() if file.exists() else "") + text)

    return edit


def nothing(workspace: Workspace) -> None:
    """Leave it as it ships."""


DOCUMENTS = "its documents are not the locked ones"
MODELS = "its models are not the 17 locked ones"
PROBES = "its probes are not those of the locked problem"
SQL = "its SQL is not that of this code"
CODE = "the code has local changes, or no known revision"
CASES: list[tuple[str, Callable[[Workspace], None], dict[str, Any], list[str]]] = [
    ("as it ships", nothing, {}, []),
    ("a mirror", problem_file("raw.githubusercontent.com", "mirror.example.org"), {}, []),
    ("a model on request", problem_file("on_request: true", "on_request: true, note: x"), {}, []),
    ("a text edited", text_edited, {},
     ["its texts are not those of the documents file"]),
    ("texts cut", problem_file("count: 50", "count: 50\n  max_characters: 300", store=True), {},
     [DOCUMENTS]),
    ("own texts", own_folder, {}, [DOCUMENTS]),


    ("tokens limited", problem_file("count: 50", "count: 50\n  max_tokens: 300"), {}, [DOCUMENTS]),
    ("units cut", nothing, {"units": [WHOLE, CUT]}, ["1 unit read a part of the document only"]),
    ("failed units are not cut", nothing, {"units": [CUT | {"status": "failed"}]}, []),
    ("a model's positions", problem_file("theta: 305921.968074124", "theta: 10000"), {}, [MODELS]),
    ("a model's files", problem_file("source: {kind: hub}", "source: {kind: local, path: x}"), {},
     [MODELS]),
    ("a probe", problem_file("context: 4096, stride", "context: 2048, stride"), {}, [PROBES]),
    ("one more probe", problem_file("  - {kind: full}", "  - {kind: full}\n  - {kind: window, "
     "name: window_64, context: 64, stride: 64}"), {}, [PROBES]),
    ("a metric's SQL", appended("dbt_project/models/tokens/fct_tokens.sql", "-- mine"), {}, [SQL]),
    ("a metric", appended("dbt_project/models/metrics/mine.sql", "select 1"), {}, [SQL]),
    ("a plugin's SQL", appended("plugins/benchmarks/dbt/macros/mine.sql", "select 1"), {}, [SQL]),
    ("a dirty checkout", nothing, {"code": CLEAN | {"dirty": True}}, [CODE]),
    ("no checkout", nothing, {"code": {"revision": None, "dirty": None}}, [CODE]),
    ("units of changed code", nothing, {"units": [WHOLE | {"code_dirty": True}]},
     ["units were computed by code with local changes"]),
    ("a second model", nothing, {"column": SimpleNamespace(admissible=False)},
     ["the metric needs more than the model and the proxy text"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "edit", "changed", "expected"), CASES, ids=[c[0] for c in CASES])
def test_official_is_an_equality(name, edit, changed, expected, locked):
    assert reasons(locked, edit, **changed) == expected


def test_a_plugin_from_elsewhere_is_named(locked, tmp_path, monkeypatch):
    file = tmp_path / "mine.py"
    file.write_text("")
    monkeypatch.setenv("TOKENMART_PLUGINS", str(file))
    assert reasons(locked, nothing) == ["plugins from elsewhere are loaded: mine"]
