"""Every two models on the same items: against numpy and scipy."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import duckdb
import numpy as np
import pytest
from click.testing import CliRunner, Result
from dbt_harness import Warehouse
from scipy.stats import binomtest

from plugins.benchmarks.harness.item_rows import CLUSTER_FIELDS, _field
from tokenmart import cli
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace

MARTS = Path(__file__).parents[1] / "dbt" / "models" / "benchmarks" / "marts"
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
        folder = tmp_path / name
        folder.mkdir()
        path = folder / "samples_qa_2026-01-02T03-04-05.jsonl"
        lines = [
            {
                "doc_id": item, "target": "0", "filter": "none",
                "metrics": ["acc"], "acc": is_right,
                "arguments": {c: {"p": f"Is it {item}?", "c": c} for c in (" no", " yes")},
                "filtered_resps": [["-0.5", "False"], ["-1.5", "False"]][:: 1 if is_right else -1],
            }
            for item, is_right in enumerate(right)
        ]  # fmt: skip
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        words = ["data", "import", "--problem", "tiny", "--model", name]
        done = invoke(*words, "--format", "samples", str(path))
        assert done.exit_code == 0, done.output
    warehouse = Warehouse(workspace.data, workspace.database)
    warehouse.run("--select", "+eval_pairs")
    return warehouse


def test_pairs_are_those_of_numpy(built: Warehouse) -> None:
    rows = built.rows(
        "select model_id, other_model_id, items, difference, stderr, wins, ties, losses,"
        " smallest_difference, items_needed, verdict from eval_pairs"
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
        is_clear = abs(apart.mean()) > 1.959964 * stderr
        assert row[10] == ("distinguishable" if is_clear else "not_distinguishable")


@pytest.mark.parametrize("seed", range(3))
def test_verdicts_of_few_items_are_those_of_the_exact_test(seed: int) -> None:
    """The SQL of the mart on made-up differences, by scipy's binomial test."""
    draw = np.random.default_rng(seed)
    sql = (MARTS / "eval_pairs.sql").read_text()
    with duckdb.connect() as database:
        database.execute(
            "create table eval_item_metrics (problem varchar, condition varchar, request_type"
            " varchar, filter varchar, metric varchar, model_id varchar, item int, cluster varchar,"
            " value double, weight double, aggregate varchar);"
            "create table int_eval_scores (problem varchar, condition varchar, metric varchar,"
            " better varchar);"
            "create table eval_metric_catalog (request_type varchar, metric varchar,"
            " better varchar)"
        )
        expected, rows = {}, []
        for n in range(1, 40):
            apart = draw.normal(draw.choice([0, 0.5, 1]), 1, n)
            for item, value in enumerate(apart):
                for model, own in (("a", value), ("b", 0.0)):
                    rows.append(f"('{n}', '{model}', {item}, {own})")
            stderr = apart.std(ddof=1) / np.sqrt(n) if n > 1 else np.inf
            p = binomtest(int((apart > 0).sum()), n).pvalue
            same = np.sign(np.sign(apart).sum()) == np.sign(apart.mean())
            clear = abs(apart.mean()) > 1.959964 * stderr and (n >= 30 or (p <= 0.05 and same))
            verdict = "distinguishable" if clear else "not_distinguishable"
            expected[str(n)] = "too_few" if n < 6 else verdict
        database.execute(
            "insert into eval_item_metrics select 'p', c, 'k', 'none', 'm', m, i, i, v, 1, 'mean'"
            f" from (values {', '.join(rows)}) as t(c, m, i, v)"
        )
        sql = sql.replace("{{ ref('", "").replace("') }}", "")
        found = database.execute(f"select condition, verdict from ({sql})").fetchall()
    assert dict(found) == expected


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


@pytest.mark.parametrize(
    ("named", "found"), [(None, "a passage"), ("section", "7"), ("empty", None)]
)
def test_clusters_of_a_named_field(named: str | None, found: str | None) -> None:
    """`eval --cluster FIELD`: by default the first of the usual names."""
    doc = {"question": "?", "section": 7, "passage": "a passage", "story": "another", "empty": ""}
    task = SimpleNamespace(name="made")
    assert _field(task, doc, named, CLUSTER_FIELDS, "--cluster") == found
    with pytest.raises(TokenmartError):
        _field(task, {"question": "?"}, "passage", (), "--cluster")
