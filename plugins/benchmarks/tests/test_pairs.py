"""Every two models on the same items: against numpy, and on the page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from dbt_harness import Warehouse

from plugins.benchmarks.page.pairs_data import PREFERRED
from tokenmart import cli
from warehouse.paths import Workspace

MODELS = ("good", "middling", "poor")
CHANCES = (0.9, 0.6, 0.3)
ITEMS = 40
PROBLEM = """\
name: tiny
title: Tiny
models:
{}probes: [{{kind: full}}]
documents: {{kind: json, path: docs.json}}
"""
MODEL = "- {{full_id: '{}', family: f, source: {{kind: hub}}}}\n"


def rights() -> dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    draw = np.random.default_rng(0)
    return {m: (draw.random(ITEMS) < p).astype(float) for m, p in zip(MODELS, CHANCES, strict=True)}


def invoke(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


@pytest.fixture
def built(workspace: Workspace, tmp_path: Path) -> Warehouse:
    """Two choices an item, as another program scored them, through the import and dbt."""
    models = "".join(MODEL.format(name) for name in MODELS)
    (workspace.problems / "tiny.yml").write_text(PROBLEM.format(models))
    for name, right in rights().items():
        path = tmp_path / "answers.jsonl"
        with path.open("w") as file:
            for item, is_right in enumerate(right):
                for choice in (0, 1):
                    row = {
                        "task": "qa", "item": item, "choice": choice, "context": f"Is it {item}?",
                        "continuation": (" no", " yes")[choice], "is_gold": choice == 0,
                        "backend": "mine", "token_ids": [choice], "ranks": [1],
                        "logprobs": [-0.5 if (choice == 0) == bool(is_right) else -1.5],
                    }  # fmt: skip
                    file.write(json.dumps(row) + "\n")
        words = ["data", "import", "--problem", "tiny", "--model", name]
        done = invoke(*words, "--format", "token-logprobs", str(path))
        assert done.exit_code == 0, done.output
    warehouse = Warehouse(workspace.data, workspace.database)
    warehouse.run("--select", "+eval_pairs", "+eval_noise")
    return warehouse


def test_pairs_are_those_of_numpy_and_the_page_shows_them(built: Warehouse, tmp_path: Path) -> None:
    rows = built.rows(
        "select model_id, other_model_id, items, difference, stderr, wins, ties, losses,"
        " smallest_difference, items_needed, is_distinguishable from eval_pairs"
        " where metric = 'acc' order by all"
    )
    assert [row[:2] for row in rows] == [
        ("good", "middling"),
        ("good", "poor"),
        ("middling", "poor"),
    ]
    for row in rows:
        apart = rights()[row[0]] - rights()[row[1]]
        stderr = apart.std(ddof=1) / np.sqrt(ITEMS)
        assert row[2:5] == (ITEMS, pytest.approx(apart.mean()), pytest.approx(stderr))
        assert row[5:8] == tuple(int((np.sign(apart) == sign).sum()) for sign in (1, 0, -1))
        assert row[8] == pytest.approx(2.801585 * stderr)
        assert row[9] == int(np.ceil(ITEMS * (2.801585 * stderr / apart.mean()) ** 2))
        assert row[10] == (abs(apart.mean()) > 1.959964 * stderr)
    out = tmp_path / "pairs.html"
    done = invoke("e2lm", "report", "--problem", "tiny", "--metric", "acc", "--out", str(out))
    assert done.exit_code == 0, done.output
    text = out.read_text("utf-8").replace("<wbr>", "")
    assert len(re.findall(r'<svg[^>]*class="figure"', text)) == 2  # wide and narrow
    assert "good minus poor: +" in text
    wins, ties, losses = rows[1][5:8]
    assert f"<td>{wins} / {ties} / {losses}</td>" in text
    assert f"{sum(row[10] for row in rows)} of 3</td>" in text
    assert "default-src 'none'" in text and not re.findall(r"@import|url\(", text)
    wrong = invoke("e2lm", "report", "--problem", "tiny", "--metric", "ac", "--out", str(out))
    assert wrong.exit_code == 1 and "did you mean 'acc'" in wrong.stderr


def test_a_query_of_pairs_takes_a_problem_without_extraction(
    built: Warehouse, workspace: Workspace
) -> None:
    (workspace.problems / "tiny.yml").unlink()  # it may be in another folder
    words = ("sql", "--name", "benchmark_difference", "--format", "json")
    models = ("--param", "model_a=poor", "--param", "model_b=good")
    done = invoke(*words, "--param", "problem=tiny", *models)
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)
    right = rights()
    assert row["difference"] == pytest.approx((right["good"] - right["poor"]).mean())
    without = invoke(*words)
    assert "nothing was extracted to choose problem, model_a, model_b from" in without.stderr
    assert "give --param problem=… (tiny)" in without.stderr
    without_models = invoke(*words, "--param", "problem=tiny")
    assert "give --param model_a=… (good, middling, poor)" in without_models.stderr
    wrong = invoke(*words, "--param", "problem=tini", *models)
    assert wrong.exit_code == 1 and "did you mean 'tiny'" in wrong.stderr


def test_the_help_names_the_default_metrics_of_pairs() -> None:
    shown = " ".join(invoke("e2lm", "report", "--help").stdout.split())
    assert f"the first that a task has of {', '.join(PREFERRED)}." in shown


def test_what_is_missing_is_named(workspace: Workspace, tmp_path: Path) -> None:
    (workspace.problems / "tiny.yml").write_text(PROBLEM.format(MODEL.format("a")))
    Warehouse(workspace.data, workspace.database).run("--select", "+eval_pairs", "--empty")
    done = invoke("e2lm", "report", "--problem", "tiny", "--out", str(tmp_path / "p.html"))
    assert done.exit_code == 1 and "no two models have answered the same items" in done.stderr


def test_another_fewshot_seed_is_another_condition(workspace: Workspace, tmp_path: Path) -> None:
    pytest.importorskip("lm_eval")
    (workspace.problems / "tiny.yml").write_text(PROBLEM.format(MODEL.format("a")))
    words = ["e2lm", "new", "drawn", "--num-fewshot", "2", "--sampler", "random", "--seed", "1"]
    assert invoke(*words, "--folder", str(tmp_path)).exit_code == 0
    words = ["eval", "--problem", "tiny", "--tasks", "drawn", "--dry-run", "--device", "cpu"]
    words += ["--include-path", str(tmp_path / "drawn"), "--limit", "3"]
    for more, condition in (
        ([], "drawn-2shot-first3"),
        (["--fewshot-seed", "7"], "drawn-2shot-seed7-first3"),
    ):
        done = invoke(*words, *more)
        assert done.exit_code == 0, done.output
        assert f"{condition}: 12 requests in 1 unit" in done.output
