"""The competition's own scoring functions compared with ours.

They are in the notebook '5 Scoring' of its starter kit, a third-party file: it is read where it is,
and nothing of it is kept. $E2LM_SCORING_NOTEBOOK names the notebook and $E2LM_SITE_SCORES the file
of scores that it reads (`assets/data/plot-data-combined-all.json` of the competition's site);
without them the tests are skipped. A public copy of the notebook is
`examples/starter_kit/5_Scoring.ipynb` of github.com/tatami-galaxy/e2lm-cruise.
"""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from signal_oracle import site_query

from plugins.benchmarks.e2lm.score import SignalScores, open_table, score_table
from plugins.benchmarks.model_sql import ModelSql
from warehouse.paths import find_workspace

WORKSPACE = find_workspace(Path(__file__))
NOTEBOOK = Path(os.environ.get("E2LM_SCORING_NOTEBOOK", ""))
SCORES = Path(os.environ.get("E2LM_SITE_SCORES", ""))

pytestmark = pytest.mark.skipif(
    not (NOTEBOOK.is_file() and SCORES.is_file()),
    reason="third-party files: set $E2LM_SCORING_NOTEBOOK and $E2LM_SITE_SCORES",
)

Windows = dict[tuple[str, str], list[float]]


def functions(numpy: Any = np) -> dict[str, Any]:
    """The notebook's functions; its other statements, which read files and draw, are left out."""
    names: dict[str, Any] = {"np": numpy}
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] != "code" or source.startswith(("!", "%")):
            continue
        kept = [each for each in ast.parse(source).body if isinstance(each, ast.FunctionDef)]
        exec(compile(ast.Module(kept, []), str(NOTEBOOK), "exec"), names)
    return names


def stable_numpy() -> SimpleNamespace:
    """numpy, but `argsort` keeps equal scores in their order."""
    names = {name: getattr(np, name) for name in dir(np) if not name.startswith("_")}
    return SimpleNamespace(**{**names, "argsort": lambda a: np.argsort(a, kind="stable")})


@pytest.fixture(scope="module")
def official() -> Windows:
    """The early window of each model and benchmark, as the notebook selects it."""
    tokens = functions()["convert_iter_to_gt"]
    site = json.loads(SCORES.read_text(encoding="utf-8"))
    found: Windows = {}
    for model, columns in site["data"].items():
        for benchmark in site["metadata"]["metrics"]:
            rows = zip(columns["iteration"], columns[benchmark], strict=True)
            kept = [(step, score) for step, score in rows if step % 4000 == 0]
            billions = tokens([step for step, _ in kept])
            found[model, benchmark] = [
                score for at, (_, score) in zip(billions, kept, strict=True) if at <= 206
            ]
    return found


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site's scores as a plain table, by the query of the tutorial."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "plot-data-combined-all.json").symlink_to(SCORES.resolve())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(site_query(), {})
    return folder / "site_scores.csv"


@pytest.fixture(scope="module")
def ours(table: Path) -> SignalScores:
    return score_table(table, WORKSPACE)


def test_the_early_windows_are_the_notebooks(official, table):
    with open_table(table)[0] as database:
        series = ModelSql(database, WORKSPACE).build("int_benchmark_series")
        rows = database.execute(
            f"select full_id, benchmark, list(score order by early_checkpoint) from {series}"
            " where early_checkpoint is not null group by all"
        ).fetchall()
    assert {(model, benchmark): scores for model, benchmark, scores in rows} == official
    assert len(official) == 144


def test_with_stable_ties_every_score_is_the_notebooks(official, ours):
    score = functions(stable_numpy())["signal_quality_score"]
    for (model, benchmark), window in official.items():
        monotonicity, autocorrelation, quality = score(np.array(window))
        entry = ours.entries[model][benchmark]
        assert entry["monotonicity"] == pytest.approx(monotonicity, abs=1e-9), (model, benchmark)
        assert entry["autocorrelation"] == pytest.approx(autocorrelation, abs=1e-9)
        assert entry["sq"] == pytest.approx(quality, abs=1e-9), (model, benchmark)


def test_the_notebooks_score_is_in_our_range(official, ours):
    """numpy's order of equal scores depends on the machine; the range covers every order."""
    score = functions()["signal_quality_score"]
    for (model, benchmark), window in official.items():
        quality = score(np.array(window))[2]
        entry = ours.entries[model][benchmark]
        assert entry["sq_low"] - 1e-9 <= quality <= entry["sq"] + 1e-9, (model, benchmark)


def test_the_published_figures_to_four_digits(ours):
    entries = ours.entries
    dense = entries["dense-1b-arch1"]

    def four(benchmark: str) -> list[float]:
        names = ("monotonicity", "autocorrelation", "sq")
        return [round(dense[benchmark][name], 4) for name in names]

    assert four("anli_r3") == [0.0, 0.3473, 0.1737]
    assert four("arc_challenge") == [0.8198, 0.9139, 0.8669]
    sizes = [entries[f"dense-{size}-arch1"]["mmluvar"]["sq"] for size in ("500m", "1b", "3b")]
    assert [round(value, 4) for value in sizes] == [0.9354, 0.9814, 0.9601]
    assert round(float(np.mean(sizes)), 3) == 0.959
    counts = {entry["early_checkpoints"] for model in entries.values() for entry in model.values()}
    assert counts == {14}
