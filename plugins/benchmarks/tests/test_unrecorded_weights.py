"""Answers that an earlier version stored of a checkpoint of which a part was drawn at random."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from eval_tasks import write_tasks
from safetensors.torch import load_file, save_file
from tiny_runs import forget_weights, ok, one_line_error

from plugins.benchmarks.harness.stored_items import eval_store
from warehouse.maintenance.check import token_files
from warehouse.paths import Workspace
from warehouse.store.ledger import read_units

pytest.importorskip("lm_eval")
from plugins.benchmarks.cli.eval import eval_command

pytestmark = pytest.mark.slow
TASK = "made_two"


@pytest.mark.parametrize("whole", [True, False])
def test_they_stay_only_if_the_files_have_all_tensors(
    whole: bool,
    tiny_problem: Callable[..., Path],
    tiny_checkpoint: Callable[..., Path],
    workspace: Workspace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "m"
    shutil.copytree(tiny_checkpoint(), folder)
    weights = load_file(folder / "model.safetensors")
    if not whole:
        del weights["model.layers.1.mlp.down_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    source = {"kind": "local", "path": str(folder)}
    problem = tiny_problem(models=[{"full_id": "m", "family": "m", "source": source}])
    words = ["--problem", str(problem), "--tasks", TASK, "--device", "cpu"]
    words += ["--include-path", str(write_tasks(tmp_path / "tasks"))]
    with monkeypatch.context() as earlier:
        earlier.setattr("extract.models.weights.refuse_incomplete", lambda *args: None)
        ok(CliRunner().invoke(eval_command, words))
    (path,) = token_files(eval_store(workspace), "tiny")
    forget_weights(path)
    again = CliRunner().invoke(eval_command, words)
    if whole:
        assert "evaluated 0 units" in ok(again)
        return
    one_line_error(again, 5)
    assert "its files lack 1 of its tensors" in again.output
    assert {(unit.status, unit.rows) for unit in read_units(path)} == {("failed", 0)}
