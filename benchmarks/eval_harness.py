"""`tokenmart eval` beside lm-evaluation-harness: same numbers, how much time?

Runs the made-up tasks of tests/helpers/eval_tasks.py on real checkpoints of minilong, once on our
engine and once on the harness's own class for transformers models (batches of 1 and 8), in one
process, float32, one thread. Compared are the harness's results with the table eval_metrics, and
the time for all multiple-choice requests, models loaded: ours with rows written and read back.

    python benchmarks/eval_harness.py --out benchmarks/eval_harness.json
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

import duckdb  # noqa: E402
import torch  # noqa: E402
from eval_tasks import TASKS, write_tasks  # noqa: E402
from lm_eval import evaluate  # noqa: E402
from lm_eval.models.huggingface import HFLM  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

from extract.benchmarks.cli import prepare_run  # noqa: E402
from extract.benchmarks.run import EvalRun  # noqa: E402
from extract.benchmarks.tasks import item_rows, load_tasks  # noqa: E402
from warehouse.paths import find_workspace  # noqa: E402
from warehouse.store.eval_items import store_items  # noqa: E402

MODELS = ("smollm2-135m", "gemma3-270m")
CHOICES = ("made_two", "made_four", "made_variable", "made_exam")
BATCHES = (1, 8)


def main() -> None:
    """Compare, print, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "eval_harness.json")
    parser.add_argument("--model", action="append", help="Take only this model; repeatable.")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    cache = find_workspace().cache
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "data").mkdir()
        (folder / "data" / "cache").symlink_to(cache)
        os.environ["TOKENMART_DATA"] = str(folder / "data")
        os.environ["TOKENMART_DATABASE"] = str(folder / "tokenmart.duckdb")
        tasks = write_tasks(folder / "tasks")
        found = [compare(model, tasks) for model in arguments.model or MODELS]
        subprocess.run(
            [
                sys.executable,
                "-m",
                "tokenmart",
                "dbt",
                "--quiet",
                "run",
                "--select",
                "+eval_metrics",
            ],
            cwd=ROOT,
            check=True,
        )
        for each in found:
            each["metrics"] = metrics(each, folder / "tokenmart.duckdb")
            del each["results"]
            print(json.dumps(each, indent=1))
    arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def compare(model: str, folder: Path) -> dict[str, Any]:
    """Results of the harness, and seconds of both."""
    run = prepare_run("minilong", model, "cpu", "float32")
    loaded = load_tasks(list(TASKS), [folder])
    for task in loaded:
        store_items(run.workspace, run.problem.name, task.condition, item_rows(task))
    _ = run.scorer  # loaded and checked before the clock starts
    seconds = {"tokenmart": timed(run, [t for t in loaded if t.name in CHOICES])}
    for task in loaded:
        run.run(task)
        run.store_answers(task)
    del run.__dict__["scorer"]
    results: dict[str, Any] = {}
    for batch in BATCHES:
        harness = HFLM(
            pretrained=str(run.plan.checkpoint.folder),
            device="cpu",
            dtype="float32",
            batch_size=batch,
        )
        requests = [
            request.instance
            for task in loaded
            if task.name in CHOICES
            for unit in task.units
            for request in unit.requests
        ]
        started = time.perf_counter()
        harness.loglikelihood(requests, disable_tqdm=True)
        seconds[f"harness, batches of {batch}"] = time.perf_counter() - started
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    results = evaluate(harness, manager.load(list(TASKS)), bootstrap_iters=0)["results"]
    fastest = min(value for name, value in seconds.items() if name != "tokenmart")
    return {
        "model": model,
        "multiple_choice_requests": len(requests),
        "seconds": {name: round(value, 1) for name, value in seconds.items()},
        "ratio_to_fastest": round(seconds["tokenmart"] / fastest, 2),
        "results": results,
    }


def timed(run: EvalRun, tasks: list[Any]) -> float:
    """Seconds for tasks that were never run, rows written and read back."""
    started = time.perf_counter()
    for task in tasks:
        run.run(task)
        for _ in run.responses(task):
            pass
    return time.perf_counter() - started


def metrics(compared: dict[str, Any], database: Path) -> list[dict[str, Any]]:
    """Each number of the harness beside ours."""
    query = """
        select task, metric, filter, value from eval_metrics where part = 'all' and model_id = ?
    """
    with duckdb.connect(str(database), read_only=True) as connection:
        rows = connection.execute(query, [compared["model"]]).fetchall()
    ours = {row[:3]: row[3] for row in rows}
    found = []
    for task, results in compared["results"].items():
        for key, value in results.items():
            metric, _, filter_name = key.partition(",")
            if not filter_name or metric.endswith("_stderr"):
                continue
            mine = ours[task, metric, filter_name]
            found.append(
                {
                    "task": task,
                    "metric": metric,
                    "harness": value,
                    "tokenmart": mine,
                    "difference": abs(mine - value),
                }
            )
    return found


if __name__ == "__main__":
    main()
