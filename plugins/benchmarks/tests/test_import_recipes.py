"""The queries of the page on scores of other programs, run on made-up files in each format."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from warehouse.problem.importers import importer

PAGE = Path(__file__).parents[3] / "docs" / "how_to" / "import_scores.md"
RIGHT = [1, 0, 1, 1, 0]
DATE = "2025-03-04T10-11-12.123456"
QUERIES = dict(
    re.findall(r"```sql\n-- items\.sql: ([^\n]+)\n(.*?)```", PAGE.read_text(), re.DOTALL)
)


def lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def harness(folder: Path) -> None:
    for task, metric in (("arc_easy", "acc"), ("gsm8k", "exact_match")):
        rows = [
            {"doc_id": n, "filter": name, metric: float(right), "doc": {"q": n}}
            for n, right in enumerate(RIGHT)
            for name in ("none", "strict")
        ]
        if metric == "acc":
            lines(folder / f"samples_{task}_{DATE}.jsonl", rows)


def ruler(folder: Path) -> None:
    rows = [
        {
            "doc_id": n,
            "filter": "none",
            "doc": {"max_length": length},
            "4096": float(right) if length == 4096 else -1.0,
            "8192": float(right) if length == 8192 else -1.0,
        }
        for n, right in enumerate(RIGHT)
        for length in ((4096, 8192)[n % 2],)
    ]
    lines(folder / f"samples_niah_single_1_{DATE}.jsonl", rows)


def olmes(folder: Path) -> None:
    rows = [
        {"doc_id": n, "native_id": f"Mercury_{n}", "label": 1,
         "metrics": {"acc_raw": 0, "acc_per_char": right, "bits_per_byte_corr": 0.5 + n}}
        for n, right in enumerate(RIGHT)
    ]  # fmt: skip
    lines(folder / "task-003-arc_easy-predictions.jsonl", rows)


def olmo_eval(folder: Path) -> None:
    rows = [
        {"doc_id": n, "instance_metrics": {"accuracy": {"logprob": float(right)},
                                           "bits_per_byte": {"bits_per_byte": 0.5}}}
        for n, right in enumerate(RIGHT)
    ]  # fmt: skip
    lines(folder / "predictions" / "my_model" / "arc_easy_abcdef-predictions.jsonl", rows)


def lighteval(folder: Path) -> None:
    rows = [{"doc": {"query": "?"}, "metric": {"acc": right, "acc_norm": 0}} for right in RIGHT]
    pq.write_table(
        pa.Table.from_pylist(rows), folder / f"details_leaderboard|arc|25_{DATE}.parquet"
    )


def every_eval_ever(folder: Path) -> None:
    rows = [
        {"evaluation_name": "qa", "evaluation_result_id": name, "sample_id": f"qa_{n:04d}",
         "evaluation": {"score": score, "is_correct": score == 1}}
        for n, right in reversed(list(enumerate(RIGHT)))
        for name, score in (("qa/acc", float(right)), ("qa/f1", 0.5))
    ]  # fmt: skip
    lines(folder / "one_samples.jsonl", rows)


FILES: dict[str, tuple[Callable[[Path], None], list[str]]] = {
    "lm-evaluation-harness": (harness, ["arc_easy"] * 5),
    "RULER in lm-evaluation-harness": (
        ruler,
        [f"niah_single_1_{length}" for length in (4096, 8192, 4096, 8192, 4096)],
    ),
    "OLMES": (olmes, ["arc_easy"] * 5),
    "olmo-eval": (olmo_eval, ["arc_easy"] * 5),
    "lighteval": (lighteval, ["leaderboard|arc|25"] * 5),
    "Every Eval Ever": (every_eval_ever, ["qa"] * 5),
}


def test_every_query_of_the_page_has_files_here():
    assert QUERIES.keys() == FILES.keys()


@pytest.mark.parametrize("name", FILES)
def test_a_query_writes_items_that_are_read(name, tmp_path, monkeypatch):
    make, tasks = FILES[name]
    make(tmp_path)
    monkeypatch.chdir(tmp_path)
    Path("items.sql").write_text(QUERIES[name])
    (code,) = re.findall(r"```python\n# items\.py\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(compile(code, "items.py", "exec"), {"duckdb": duckdb})
    rows = [fields for _, fields in importer("items").read(Path("items.csv"))]  # type: ignore[attr-defined]
    found = sorted((int(row["item"]), row["task"], float(row["score"])) for row in rows)
    assert found == list(zip(range(5), tasks, map(float, RIGHT), strict=True))
