"""A real checkpoint: metrics of imported log-probs are those of an extraction, or have a reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from dbt_harness import Warehouse

from extract.checkpoints import find_checkpoint
from plugins.logprobs.tests.prompt_dumps import PlainScores, sglang, vllm, write_lines
from tokenmart import cli
from warehouse.paths import Workspace, find_workspace
from warehouse.problem.spec import load_problem
from warehouse.problem.tables import ensure_documents

pytestmark = [pytest.mark.models, pytest.mark.slow, pytest.mark.timeout(900)]

LENGTH, CONTEXT, STRIDE = 512, 96, 64
NO_RANK = {"rank", "rank_gain", "min_context", "confident_mistakes", "calibration_error"}
LACKING = {
    "vllm": {"entropy", "entropy_drop", "entropy_resolved"},
    "sglang": {"entropy", "entropy_drop", "entropy_resolved", *NO_RANK},
}
"""Metrics without a value, by form; top-5 tokens are given."""


@pytest.fixture
def mine(real_workspace: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Workspace:
    monkeypatch.setenv("TOKENMART_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("TOKENMART_DATABASE", str(tmp_path / "t.duckdb"))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "cache").symlink_to(real_workspace.cache)
    return find_workspace()


def test_metrics_agree(mine, tmp_path):
    from transformers import AutoModelForCausalLM

    raw = yaml.safe_load((mine.problems / "minilong.yml").read_text())
    documents = {**raw["documents"], "count": 3, "max_tokens": LENGTH}
    window = {"kind": "window", "name": "short", "context": CONTEXT, "stride": STRIDE}
    path = tmp_path / "real.yml"
    path.write_text(
        yaml.safe_dump(
            {
                "name": "real",
                "title": "One real model",
                "documents": documents,
                "models": raw["models"][:1],
                "probes": [{"kind": "full"}, window],
            }
        )
    )
    problem = load_problem(str(path), mine)
    spec = problem.models[0]
    warehouse = Warehouse(mine.data, tmp_path / "t.duckdb")
    run("extract", "--problem", str(path), "--device", "cpu", "--dtype", "float32")
    warehouse.run()
    expected = values(warehouse)
    computed = {key for key, (value, _) in expected.items() if value is not None}
    assert len(computed) >= 40

    folder = find_checkpoint(spec, mine, problem.name).folder
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32").eval()
    ids = tokens(folder, ensure_documents(problem, mine)["text"].to_pylist())
    whole = [PlainScores(model, each) for each in ids]
    starts = range(STRIDE, LENGTH - CONTEXT, STRIDE)
    windows = [
        PlainScores(model, each[start : start + CONTEXT + STRIDE])
        for each in ids
        for start in starts
    ]
    makers: dict[str, Callable[[PlainScores], Any]] = {
        "vllm": lambda scores: vllm(scores, 5),
        "sglang": lambda scores: sglang(scores, 5),
    }
    for form, make in makers.items():
        for condition, scored in (("full", whole), ("short", windows)):
            dump = write_lines(tmp_path / f"{condition}.jsonl", [make(each) for each in scored])
            words = ["--problem", str(path), "--model", spec.full_id, "--force"]
            words += ["--format", "prompt-logprobs", "--condition", condition, str(dump)]
            run("data", "import", *words)
        warehouse.run()
        found = values(warehouse)
        assert found.keys() == expected.keys()
        without = {key for key in computed if found[key][0] is None}
        assert {metric for metric, _ in without} == LACKING[form]
        for key in without:
            assert "imported without" in found[key][1], (key, found[key])
        differing = {
            key: (value, expected[key][0])
            for key, (value, _) in found.items()
            if value is not None and value != pytest.approx(expected[key][0], rel=2e-3, abs=2e-4)
        }
        assert not differing, differing


def run(*words: str) -> None:
    done = CliRunner().invoke(cli, list(words))
    assert done.exit_code == 0, done.output


def tokens(folder: Path, texts: list[str]) -> list[list[int]]:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    return [tokenizer(text, add_special_tokens=False).input_ids[:LENGTH] for text in texts]


def values(warehouse: Warehouse) -> dict[tuple[str, str], tuple[Any, Any]]:
    """Value and reason by metric and variant."""
    found = warehouse.rows("select metric, variant, value, reason from metric_values")
    return {(metric, variant): (value, reason) for metric, variant, value, reason in found}
