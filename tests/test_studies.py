"""The studies: figures recomputed from their tables, pages written from the figures."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from analysis.statistics.correlations import partial_spearman, spearman
from analysis.statistics.decisions import decide

ROOT = Path(__file__).parents[1]
MINILONG = ROOT / "studies" / "minilong"
EARLY = ROOT / "studies" / "early_decisions"
MODELS90 = ROOT / "studies" / "models90"


def script(folder: Path) -> SimpleNamespace:
    """The names of a study's script, which is part of no package and imports nothing of ours."""
    path = folder / "recompute.py"
    ours = r"^\s*(from|import) (analysis|extract|warehouse|tokenmart)"
    assert not re.search(ours, path.read_text("utf-8"), re.MULTILINE)
    return SimpleNamespace(**runpy.run_path(str(path), run_name="recompute"))


def committed(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "figures.json").read_text("utf-8"))
    return found


def same(one: Any, other: Any, where: str = "") -> None:
    """Equal up to float64 rounding, part by part."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key, value in one.items():
            same(value, other[key], f"{where}/{key}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), where
        for number, pair in enumerate(zip(one, other, strict=True)):
            same(*pair, f"{where}/{number}")
    elif isinstance(one, float):
        assert one == pytest.approx(other, abs=1e-9), where
    else:
        assert one == other, where


@pytest.mark.parametrize(
    "folder",
    [MINILONG, EARLY, pytest.param(MODELS90, marks=pytest.mark.slow)],
    ids=lambda folder: folder.name,
)
def test_figures_are_recomputed_from_the_tables(folder):
    same(json.loads(json.dumps(script(folder).figures())), committed(folder))


def test_pages_are_written_from_the_figures():
    written = runpy.run_path(str(ROOT / "studies" / "pages.py"), run_name="pages")["pages"]()
    assert {path.parent.name for path in written} >= {"minilong", "early_decisions", "models90"}
    for path, text in written.items():
        assert path.read_text("utf-8") == text, f"{path}: run python studies/pages.py"


def test_the_product_agrees_with_the_study_of_models():
    """The correlations that `select` prints are those of the second implementation."""
    study = script(MODELS90)
    models = study.Models()
    target, mean = models.targets()["mean"], models.bits.mean(axis=1)
    f = committed(MODELS90)
    assert spearman(mean, target) == pytest.approx(f["targets"]["mean"]["mean"], abs=1e-12)
    known = np.isfinite(models.parameters)
    rho = partial_spearman(mean[known], target[known], np.log(models.parameters[known]))
    assert rho == pytest.approx(f["given"]["parameters"]["partial"], abs=1e-12)
    rho = float(decide(mean[None], target, models.families).within.rho[0])
    assert rho == pytest.approx(f["within_families"]["rho"], abs=1e-12)


def test_the_models_are_those_registered():
    entry = json.loads((ROOT / "data/preregistered/minilong.json").read_text("utf-8"))["entries"][0]
    models = json.loads((MINILONG / "models.json").read_text("utf-8"))
    assert [{k: v for k, v in m.items() if k != "dose"} for m in models] == entry["models"]


def test_the_target_is_that_of_the_committed_scores():
    """The mean of items is what `tokenmart recall` stored as the overall score."""
    study = script(MINILONG)
    models = [m["full_id"] for m in json.loads((MINILONG / "models.json").read_text("utf-8"))]
    made = study.target(models, lambda task, length: length in study.COUNTED)
    stored = {
        row["model_id"]: row["score"]
        for row in pq.read_table(MINILONG / "tables/downstream_scores.parquet").to_pylist()
        if row["task"] == "overall"
    }
    assert np.allclose(made, [stored[model] for model in models], atol=1e-9)


@pytest.mark.slow
@pytest.mark.models
def test_answers_that_are_asked_again_are_those_of_the_study(tmp_path):
    """On another processor a digit of a tie may differ: one answer of five digits in all."""
    out = tmp_path / "answers.parquet"
    model = "smollm2-135m"
    options = ["--models", model, "--lengths", "1024", "--contexts", "1", "--out", str(out)]
    command = [sys.executable, str(MINILONG / "ask_again.py"), *options]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    answers = pq.read_table(out).to_pylist()
    stored = {
        row["task"]: (row["score"], row["items"])
        for row in pq.read_table(MINILONG / "tables" / "item_groups.parquet").to_pylist()
        if (row["model_id"], row["cluster"]) == (model, 0)
    }
    for task, column in (("single_key", "recall"), ("multi_key", "multi_key"),
                         ("multi_value", "multi_value"),
                         ("variable_tracking", "variable_tracking")):  # fmt: skip
        digits = [row["digits"] for row in answers if row["task"] == task]
        score, items = stored[f"{column}_1024"]
        assert len(digits) == items
        assert sum(digits) == pytest.approx(score * items, abs=0.2 + 1e-9)
    controls = [row for row in answers if row["task"] == "no_key"]
    assert len(controls) == 4 * sum(row["task"] == "single_key" for row in answers)


def test_the_tasks_are_those_of_the_problem_files():
    study = script(EARLY)
    for name, tasks in (("dclm", study.DCLM_CORE), ("pythia", study.PYTHIA_TASKS)):
        problem = yaml.safe_load((ROOT / "data" / "problems" / f"{name}.yml").read_text("utf-8"))
        assert tuple(problem["target"]["benchmarks"]) == tasks
