"""Tables and sentences of pages that a script writes from a committed file, and what these show."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

ROOT = Path(__file__).parents[1]
RESULTS, SIGNAL = "benchmarks/RESULTS.md", "docs/explanation/signal_of_benchmarks.md"
MERGING, QUICKSTART = "docs/tutorials/ranking_merged_models.md", "docs/quickstart.md"


def committed(name: str) -> Any:
    return json.loads((ROOT / name).read_text("utf-8"))


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Import a module of the folder `benchmarks`, which is no package."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))

    def load(name: str) -> Any:
        module = importlib.import_module(name)
        assert Path(module.__file__ or "").parent == ROOT / "benchmarks", "a helper has this name"
        return module

    yield load
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(ROOT / "benchmarks")):
            del sys.modules[name]


WRITTEN: list[tuple[str, str, str, Callable[[Any, Any], list[str]]]] = [
    (SIGNAL, "curate_series", "benchmarks/curate_series.json", lambda m, f: m.docs_tables(f)),
    (
        QUICKSTART,
        "demo_figures",
        "docs/demo_figures.json",
        lambda m, f: [m.page_block(f), m.times_text(f["seconds"])],
    ),
    (RESULTS, "gpu_results", "benchmarks/bench_gpu.json", lambda m, f: [m.section(f)]),
    (
        RESULTS,
        "gpu_results",
        "benchmarks/bench_gpu_own_layers.json",
        lambda m, f: [m.layers_section(f)],
    ),
    *(
        (RESULTS, "gpu_results", path, lambda m, f, path=path: [m.section(f, path)])
        for path in (
            "benchmarks/bench_gpu_families.json",
            "benchmarks/bench_gpu_correctness.json",
        )
    ),
    (RESULTS, "gpu_results", "benchmarks/bench_gpu.json", lambda m, f: [m.hours_section(f)]),
    (RESULTS, "growth", "benchmarks/growth.json", lambda m, f: [m.results_block(f)]),
    (
        RESULTS,
        "engine_differences",
        "benchmarks/engine_differences.json",
        lambda m, f: [m.results_block(f)],
    ),
    (RESULTS, "audits", "benchmarks/audits.json", lambda m, f: [m.results_block(f)]),
    (MERGING, "minimerge", "benchmarks/minimerge.json", lambda m, f: [m.docs_block(f)]),
    (RESULTS, "eval_harness", "benchmarks/eval_harness.json", lambda m, f: [m.section(f)]),
    (
        RESULTS,
        "inference_simulation",
        "benchmarks/inference_simulation.json",
        lambda m, f: [m.results_block(f)],
    ),
    (
        RESULTS,
        "equal_entries",
        "benchmarks/equal_entries.json",
        lambda m, f: [m.results_block(f)],
    ),
    (
        "docs/explanation/statistics.md",
        "inference_simulation",
        "benchmarks/inference_simulation.json",
        lambda m, f: [m.summary_block(f)],
    ),
    (
        "docs/how_to/divergence.md",
        "divergence_figures",
        "docs/divergence_figures.json",
        lambda m, f: m.table_rows(f),
    ),
]
"""Page, script, its committed figures, and what the script makes of them."""


@pytest.mark.parametrize(("page", "module", "figures", "blocks"), WRITTEN)
def test_a_page_has_what_the_script_writes(page, module, figures, blocks, script):
    text = (ROOT / page).read_text("utf-8")
    assert [each for each in blocks(script(module), committed(figures)) if each not in text] == []


def test_the_figures_of_the_demo_are_those_of_correlate(minilong, script):
    demo_figures, kept = script("demo_figures"), committed("docs/demo_figures.json")
    found = demo_figures.demo_figures("minilong")
    assert found.keys() == kept.keys() - {"seconds"}
    assert found["rows"][0].keys() == kept["rows"][0].keys()
    assert found["models"] == 23
    assert found["rows"][0]["spearman"] >= found["best_spearman"] > 0
    assert 0 < found["not_distinguishable"] <= found["variants"] <= found["tested"]


def test_hours_of_no4k_are_those_measured(script):
    """A model of a measured shape takes what was measured, 50 times."""
    record, gpu_results = committed("benchmarks/bench_gpu.json"), script("gpu_results")
    found = {row["model"]: row["hours"] for row in gpu_results.hours(record)}
    for row in record["rows"]:
        if (row["what"], row["tokens"]) == ("ours: all probes", 32_768):
            shape = row["model"].removeprefix("random/")
            assert found[f"Qwen/{shape}-Instruct"] * 3600 == pytest.approx(
                50 * row["seconds"], rel=0.03
            )
    of_model = {row["model"]: row["share"] for row in gpu_results.hours(record)}
    smaller, middle, larger = (of_model[f"Qwen/Qwen2.5-{n}B-Instruct"] for n in ("0.5", "1.5", "7"))
    assert smaller < middle < larger == of_model["Qwen/Qwen2.5-14B-Instruct"]


def test_a_gpu_takes_no_more_memory_than_predicted(script):
    record = committed("benchmarks/bench_gpu.json")
    rows = script("gpu_results").timed(record["rows"])
    whole = [row for row in rows if row["what"] in ("ours: full", "ours: retrieval")]
    assert whole and all(row["peak_bytes"] <= row["predicted_bytes"] for row in whole)


def test_scores_are_those_of_the_harness(script):
    eval_harness, found = script("eval_harness"), committed("benchmarks/eval_harness.json")
    for model in found["models"]:
        row = eval_harness.equality(model)
        assert row["alike"] < eval_harness.ALIKE and row["relative"] < eval_harness.RELATIVE, row
        assert (row["numbers"], row["equal"], row["imported"]) == (71, 66, 66)
        assert all(n["tokenmart"] is not None or n["reason"] for n in model["numbers"])
    for row in eval_harness.timings(found["models"]):
        assert row["ratio_processor"] <= row["goal"], row


def test_at_most_5_percent_of_claims_are_false():
    """With right labels, and every distribution but models that are outlying together."""
    for row in committed("benchmarks/inference_simulation.json")["cells"]:
        assert row["contradiction"][0] == 0.0
        if row["labels"] not in ("right", "series") or row["values"] == "outlying together":
            continue
        for name in {"false_claim", "opposite_claim", "confirmed_null", "false_lead"} & row.keys():
            rate, _, studies = row[name]
            assert rate <= 0.05 + 2 * (0.05 * 0.95 / studies) ** 0.5, (name, row)
        if "covers" in row:
            rate, _, studies = row["covers"]
            assert rate >= 0.95 - 2 * (0.05 * 0.95 / studies) ** 0.5, row


@pytest.mark.parametrize("correlation", [0.6, 0.9])
def test_rho_with_outlying_models_is_that_of_many_draws(script, correlation):
    simulation, generator = script("inference_simulation"), np.random.default_rng(0)
    spreads = np.where(np.arange(170_000) % 17 < 3, 8.0, 1.0)
    target, rest = generator.normal(size=(2, spreads.size))
    metric = correlation * target + np.sqrt(1 - correlation**2) * rest
    for values, scale in (("normal", 1.0), ("outliers", spreads)):
        found = simulation.true_rho(simulation.Cell(17, values=values), correlation)
        assert found == pytest.approx(spearmanr(metric * scale, target * scale)[0], abs=0.005)


@pytest.mark.parametrize("entries", [4, 9, 20])
@pytest.mark.parametrize("units", ["items", "groups"])
def test_equal_entries_have_a_false_distinguishable_pair_in_at_most_5_percent(
    script, entries, units
):
    """400 data sets: with 5%, more than 32 are seen in one of 1,000 such tests."""
    found = script("equal_entries").false_pairs(entries, units, 400)
    assert 400 * found["adjusted"] <= 32 < 400 * found["unadjusted"]
