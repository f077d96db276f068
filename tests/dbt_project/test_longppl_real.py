"""LongPPL from the SQL mart against the authors' package, on a real document and a real model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from dbt_harness import Warehouse

from extract.cli import extract
from warehouse.paths import find_workspace
from warehouse.problem.spec import load_problem
from warehouse.problem.tables import ensure_documents
from warehouse.store.token_files import STEP_NATS

DOCUMENT = "docs/ref/settings.txt"
CONTEXT, STRIDE, TOKENS = 1024, 512, 4096
PUBLISHED = {(0.5, -2): (2.9017155, 27), (0.1, -1): (1.7399317, 76)}
"""(alpha, beta) → LongPPL and key tokens, by the package `longppl` of arXiv 2410.23771: the model
is its own evaluator, in float32, and the document cut at the end of its last token."""
EXACT = {(0.5, -2): 2.9017400, (0.1, -1): 1.7399479}
"""The same procedure by a forward of transformers in float64. The package's float32 is 8.4e-6 and
9.3e-6 (relative) below it, transformers' own float32 9.8e-6 and 8.7e-6."""


@pytest.mark.slow
@pytest.mark.models
@pytest.mark.timeout(900)
def test_the_mart_gives_the_figures_of_the_authors_package(tmp_path, monkeypatch):
    checkout = find_workspace(Path(__file__))
    data = tmp_path / "data"
    data.mkdir()
    checkout.cache.mkdir(parents=True, exist_ok=True)
    (data / "cache").symlink_to(checkout.cache)
    monkeypatch.setenv("TOKENMART_DATA", str(data))
    documents = ensure_documents(load_problem("minilong", checkout), checkout).to_pylist()
    (text,) = [row["text"] for row in documents if row["name"].endswith(DOCUMENT)]
    (tmp_path / "texts.json").write_text(json.dumps([text]))
    problem = yaml.safe_load((checkout.problems / "minilong.yml").read_text(encoding="utf-8"))
    problem["documents"] = {"kind": "json", "path": str(tmp_path / "texts.json")}
    problem["probes"] = [
        {"kind": "full"},
        {"kind": "window", "name": "window", "context": CONTEXT, "stride": STRIDE},
    ]
    (tmp_path / "minilong.yml").write_text(yaml.safe_dump(problem), encoding="utf-8")
    options = ["--problem", str(tmp_path / "minilong.yml"), "--model", "smollm2-135m"]
    options += ["--device", "cpu", "--dtype", "float32", "--max-tokens", str(TOKENS)]
    done = CliRunner().invoke(extract, options)
    assert done.exit_code == 0, done.output

    mart = Warehouse(data, tmp_path / "tokenmart.duckdb")
    mart.run("--vars", "{grids: [longppl]}")
    found = {
        variant: (value, tokens)
        for variant, value, tokens in mart.rows(
            "select variant, value, tokens from metric_values where metric = 'longppl'"
        )
    }
    for (alpha, beta), (value, tokens) in PUBLISHED.items():
        got = found[f"alpha_{alpha:g}_beta_{beta:g}@window"]
        # rounding may be twice as unlucky on another machine; a stored log-prob is half a step off
        own = 3 * abs(value / EXACT[alpha, beta] - 1)
        rel = own + STEP_NATS["logprob"] / 2
        assert got == (pytest.approx(EXACT[alpha, beta], rel=rel), tokens), (alpha, beta)
