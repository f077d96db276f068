"""What a plan takes for done is what an extraction would not compute again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny_models import make_checkpoint, make_text
from tiny_runs import ok, run

from extract.planning import status
from extract.planning.plan import documents_of, plan_model
from extract.planning.selection import select
from extract.planning.status import count_finished
from extract.planning.tables import make_plan
from warehouse.paths import Workspace
from warehouse.problem.spec import load_problem
from warehouse.problem.tables import ensure_documents
from warehouse.store.ledger import read_units
from warehouse.store.token_files import published_path

CUT = 40
"""Tokens: fewer than any document of a tiny problem has."""


def done(workspace: Workspace, path: Path, **asked: Any) -> tuple[int, int]:
    """Units of two documents that a plan, and the count of finished ones, take for done."""
    problem = load_problem(str(path), workspace)
    settings = {"probes": ["full"], "device": "cpu", "dtype": "auto"}
    selection = select(problem, workspace, **{**settings, **asked})
    documents = documents_of(ensure_documents(problem, workspace), None)
    (model,) = make_plan(selection).models
    assert model.units == 2 and model.left == 1 - model.done / 2
    return model.done, count_finished(selection, documents)


@pytest.fixture
def path(tiny_problem: Callable[..., Path], workspace: Workspace) -> Path:
    """A problem of one model, read whole."""
    file = tiny_problem(texts=2)
    raw = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump(raw | {"models": raw["models"][:1]}))
    ok(run(file, "--probe", "full"))
    return file


def edited(path: Path, **sections: Any) -> Path:
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | sections))
    return path


def test_units_of_cut_documents_are_not_those_of_whole_ones(
    path: Path, workspace: Workspace
) -> None:
    assert done(workspace, path) == (2, 2)
    # what read more stays, unless it is to be replaced
    assert done(workspace, path, max_tokens=CUT) == (2, 2)
    assert done(workspace, path, max_tokens=CUT, force=True) == (0, 0)
    ok(run(path, "--probe", "full", "--max-tokens", str(CUT), "--force"))
    assert done(workspace, path, max_tokens=CUT) == (2, 2)
    assert done(workspace, path) == (0, 0)


def test_a_context_that_cuts_is_no_cut_of_the_command_line(
    path: Path, workspace: Workspace
) -> None:
    raw = yaml.safe_load(path.read_text())
    documents = {**raw["documents"], "too_long": "truncate"}
    models = [{**raw["models"][0], "context": 2 * CUT}]
    file = edited(path, documents=documents, models=models)
    ok(run(file, "--probe", "full", "--force"))
    units = read_units(published_path(workspace, "tiny", "tiny--one", "full"))
    assert {unit.document_tokens for unit in units} == {2 * CUT - 1}
    assert done(workspace, file) == (2, 2)
    ok(run(file, "--probe", "full", "--max-tokens", str(CUT), "--force"))
    assert done(workspace, file) == (0, 0)


def test_another_dtype_backend_or_engine_is_to_be_computed(
    path: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert done(workspace, path, dtype="float32") == (2, 2)
    assert done(workspace, path, dtype="bfloat16") == (0, 0)
    monkeypatch.setattr(status, "ENGINE_VERSION", "another")
    assert done(workspace, path) == (0, 0)


@pytest.mark.parametrize("probe", ["full", "window_24"])
def test_another_checkpoint_in_the_same_place_is_to_be_computed(
    tiny_problem: Callable[..., Path], workspace: Workspace, tmp_path: Path, probe: str
) -> None:
    """The fingerprint of a condition has the checkpoint's revision and that of its kind."""
    folder = tmp_path / "checkpoint"
    make_checkpoint(folder, seed=0)
    source = {"kind": "local", "path": str(folder)}
    one = {"full_id": "tiny/one", "family": "one", "dtype": "float32", "source": source}
    path = tiny_problem(texts=2, models=[one])
    ok(run(path, "--probe", probe))

    def planned() -> int:
        problem = load_problem(str(path), workspace)
        selection = select(problem, workspace, probes=[probe], device="cpu", dtype="auto")
        documents = documents_of(ensure_documents(problem, workspace), None)
        return plan_model(selection, problem.models[0], documents).done

    assert planned() == 2
    shutil.rmtree(folder)
    make_checkpoint(folder, seed=5)
    assert planned() == 0


def test_another_text_or_other_parameters_are_to_be_computed(
    path: Path, workspace: Workspace
) -> None:
    problem = load_problem(str(path), workspace)
    selection = select(problem, workspace, probes=["full"], device="cpu", dtype="auto")
    (condition,) = selection.conditions
    changed = replace(selection, conditions=(replace(condition, params={"seed": 1}),))
    assert make_plan(changed).models[0].done == 0
    corpus = workspace.root / "data" / "corpus.json"
    corpus.write_text(json.dumps([make_text(0), make_text(7)]))
    assert done(workspace, path) == (1, 1)
