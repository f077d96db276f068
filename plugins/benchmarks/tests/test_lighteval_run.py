"""Details that lighteval itself writes: every mean of documents is its own aggregate.

$LIGHTEVAL_PYTHON names an interpreter that has lighteval; without it the tests are skipped. Tried
with 0.8.1 (transformers 4.49, datasets 3.3, xxhash below 3.6) and 0.13.0 (transformers 4.57,
datasets 4.8).
"""

from __future__ import annotations

import json
import math
import os
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from plugins.benchmarks.importers.lighteval import LightevalImporter
from warehouse.errors import TokenmartError

PYTHON = os.environ.get("LIGHTEVAL_PYTHON", "")
START = Path(__file__).parent / "lighteval" / "start.py"

# lighteval's start alone takes half a minute, more on a busy machine
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not PYTHON, reason="set $LIGHTEVAL_PYTHON to a Python with lighteval"),
]

REFUSED = ("no value for each document", "lower is better", "no mean of items")

Run = dict[tuple[str, str], tuple[Path, float]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Task and metric → the file of details, and lighteval's own aggregate."""
    folder = tmp_path_factory.mktemp("lighteval")
    environment = {
        **os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1",
        "HF_HOME": str(folder / "hf"), "CUDA_VISIBLE_DEVICES": "",
    }  # fmt: skip
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [PYTHON, str(START), str(folder)],
        env=environment, capture_output=True, text=True, timeout=800, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    (results,) = folder.glob("out/results/**/results_*.json")
    found: Run = {}
    for task, metrics in json.loads(results.read_text())["results"].items():
        details = list(folder.glob(f"out/details/**/details_{task}_*.parquet"))
        for metric, value in metrics.items():
            if details and not metric.endswith("_stderr"):
                found[task, metric] = (details[0], value)
    return found


def imported(path: Path, metric: str) -> list[dict[str, Any]] | str:
    """The rows of a metric, or why it is refused."""
    try:
        return [row.fields for row in LightevalImporter(metric).read(path)]
    except TokenmartError as error:
        return str(error)


def test_every_mean_of_documents_is_lightevals_aggregate(run: Run) -> None:
    equal = {}
    for (task, metric), (path, own) in run.items():
        rows = imported(path, metric)
        if isinstance(rows, str):
            # averaging subtasks, 0.13 adds a 0 for the metrics of the other subtasks
            assert any(cause in rows for cause in REFUSED) or (own == 0 and "not in" in rows), rows
            continue
        assert {row["task"] for row in rows} == {task}
        assert [row["item"] for row in rows] == list(range(13))
        mean = math.fsum(row["score"] for row in rows) / len(rows)
        assert mean == pytest.approx(own, rel=1e-12, abs=1e-12), (task, metric)
        equal[task.partition("colour:")[2].partition("|")[0], metric.partition(":")[0]] = mean
    expected = {("pick", "acc"), ("pick", "mrr"), ("like", "mrr"), ("say", "em"), ("say", "rouge1")}
    assert expected <= equal.keys() and len(equal) >= 9
    # the model picks and says some right answers, so that a mean of 0 isn't all there is
    for name in (("pick", "acc"), ("pick", "mrr"), ("say", "em")):
        assert 0 < equal[name] < 1, name


def test_values_of_all_documents_together_are_refused(run: Run) -> None:
    corpus = {(t, m): p for (t, m), (p, _) in run.items() if m in ("mcc", "ppl", "chrf")}
    assert len(corpus) == 3
    for (_, metric), path in corpus.items():
        said = imported(path, metric)
        assert isinstance(said, str) and f"{metric}: lighteval computes no value for each" in said
        assert "use --metric with one of: " in said


def test_a_place_is_the_same_document_in_each_request_type(run: Run) -> None:
    """0.8 writes a row for each document and type; 0.13 one row with all values."""
    (path,) = {path for (task, _), (path, _) in run.items() if "pick" in task}
    table = pq.read_table(path)
    texts = (
        table["example"].to_pylist()
        if "example" in table.column_names
        else [doc["query"] for doc in table["doc"].to_pylist()]
    )
    assert len(texts) in (13, 26) and texts[:13] == texts[-13:]
    assert len(set(texts[:13])) == 13
