"""LongPPL from the SQL mart against a plain implementation, on real documents and a real model.

The reference follows the published procedure (arXiv 2410.23771) step by step: full logits,
windows one by one, character intervals, tokens wholly inside an interval.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from click.testing import CliRunner
from dbt_harness import Warehouse

from extract.checkpoints import find_checkpoint
from extract.cli import extract
from extract.scoring.loading import load_model
from warehouse.paths import Workspace, find_workspace
from warehouse.problem.spec import load_problem
from warehouse.sources.fetch import ensure_documents

CONTEXT, STRIDE, TOKENS, DOCUMENTS = 96, 48, 400, 2
THRESHOLDS = [(0.1, -2.0), (0.5, -2.0), (1.0, -2.0), (2.0, -2.0)]


def losses(model: Any, ids: list[int]) -> list[float]:
    """NLL of ids[1:], each after everything before it."""
    with torch.inference_mode():
        logits = model(torch.tensor([ids])).logits[0].float()
    nll = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(ids[1:]), reduction="none")
    return [float(value) for value in nll]


def key_intervals(
    long: dict[int, float],
    short: dict[int, float],
    spans: list[tuple[int, int]],
    alpha: float,
    beta: float,
) -> list[tuple[int, int]]:
    """Character intervals of key tokens, adjacent ones merged."""
    intervals: list[tuple[int, int]] = []
    for position in sorted(short):
        if short[position] - long[position] > alpha and long[position] < -beta:
            start, end = spans[position]
            if intervals and start <= intervals[-1][1]:
                intervals[-1] = (intervals[-1][0], max(end, intervals[-1][1]))
            else:
                intervals.append((start, end))
    return intervals


def longppl(model: Any, tokenizer: Any, texts: list[str]) -> dict[tuple[float, float], float]:
    """Corpus LongPPL for each pair of thresholds; no BOS (the tokenizer adds none)."""
    totals = {pair: [0.0, 0.0] for pair in THRESHOLDS}
    for text in texts:
        batch = tokenizer(text, return_offsets_mapping=True)
        ids, spans = batch["input_ids"][:TOKENS], batch["offset_mapping"][:TOKENS]
        long = dict(enumerate(losses(model, ids), start=1))
        short: dict[int, float] = {}
        start = 0
        while start < len(ids) - CONTEXT:
            window = ids[start : start + CONTEXT + STRIDE]
            values = losses(model, window)
            for offset in range(CONTEXT, len(window)):
                short[start + offset] = values[offset - 1]
            start += STRIDE
        for pair in THRESHOLDS:
            intervals = key_intervals(long, short, spans, *pair)
            inside = [
                long[position]
                for position, (a, b) in enumerate(spans)
                if position in long and any(s <= a and b <= e for s, e in intervals)
            ]
            if inside:
                totals[pair][0] += sum(inside)
                totals[pair][1] += len(inside)
    return {pair: math.exp(log / weight) for pair, (log, weight) in totals.items() if weight}


@pytest.mark.slow
@pytest.mark.models
@pytest.mark.timeout(900)
def test_the_mart_agrees_with_the_published_procedure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoTokenizer

    checkout = find_workspace(Path(__file__))
    data = tmp_path / "data"
    data.mkdir()
    checkout.cache.mkdir(parents=True, exist_ok=True)
    (data / "cache").symlink_to(checkout.cache)
    monkeypatch.setenv("TOKENMART_DATA", str(data))
    raw = yaml.safe_load((checkout.problems / "minilong.yml").read_text(encoding="utf-8"))
    raw["probes"] = [
        {"kind": "full"},
        {"kind": "window", "name": "window_96", "context": CONTEXT, "stride": STRIDE},
    ]
    problem_file = tmp_path / "minilong.yml"
    problem_file.write_text(yaml.safe_dump(raw), encoding="utf-8")
    options = ["--model", "smollm2-135m", "--documents", str(DOCUMENTS), "--dtype", "float32"]
    done = CliRunner().invoke(
        extract,
        ["--problem", str(problem_file), "--device", "cpu", "--max-tokens", str(TOKENS), *options],
    )
    assert done.exit_code == 0, done.output
    mart = Warehouse(data, tmp_path / "tokenmart.duckdb")
    mart.run()

    workspace = Workspace(checkout.root, data, mart.database)
    problem = load_problem(str(problem_file), workspace)
    spec = problem.model("smollm2-135m")
    checkpoint = find_checkpoint(spec, workspace, problem.name)
    texts = ensure_documents(problem, workspace)["text"].to_pylist()[:DOCUMENTS]
    model = load_model(checkpoint, spec, device="cpu", dtype="float32")
    expected = longppl(model, AutoTokenizer.from_pretrained(checkpoint.folder), texts)
    assert expected.keys() == set(THRESHOLDS)

    values = mart.values("longppl")
    for (alpha, beta), wanted in expected.items():
        found = values[(f"alpha_{alpha:g}_beta_{beta:g}@window_96", "smollm2-135m")]
        assert found is not None
        assert found == pytest.approx(wanted, rel=1e-3), (alpha, beta)
