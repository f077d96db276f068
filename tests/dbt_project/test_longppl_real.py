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
from warehouse.sources.fetch import ensure_documents
from warehouse.store.token_files import STEP_NATS

DOCUMENT = "docs/ref/settings.txt"
CONTEXT, STRIDE, TOKENS = 1024, 512, 4096
PUBLISHED = {(0.5, -2): (2.9017155, 27), (0.1, -1): (1.7399317, 76)}
"""(alpha, beta) → LongPPL and key tokens, by the package `longppl` of arXiv 2410.23771: the model
is its own evaluator, in float32, and the document cut at the end of its last token."""


@pytest.mark.slow
@pytest.mark.models
@pytest.mark.timeout(900)
def test_the_mart_gives_the_figures_of_the_authors_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        # Log-probs as computed give 9.0e-6 and 7.9e-6 less than the package, within 1e-5: that is
        # float32 in other kernels. As stored it is 9.2e-6 and 1.04e-5. What is asked is the most
        # that rounding alone could do, half a step, and the seven figures of the package.
        rel = STEP_NATS["logprob"] / 2 + 1e-7
        assert got == (pytest.approx(value, rel=rel), tokens), (alpha, beta)
