"""`tokenmart eval` compared with lm-evaluation-harness: numbers and time.

Runs the made-up tasks of tests/helpers/eval_tasks.py on real checkpoints of minilong, on our engine
and on the harness's own class for transformers models, in one process, float32, one thread.
Compared are the harness's results and standard errors with the table eval_metrics, and the time
for all multiple-choice requests, models loaded: ours with rows written and read back. The two take
turns, the harness with the faster of two batch sizes; each turn of ours begins with nothing stored.

    python benchmarks/eval_harness.py --out benchmarks/eval_harness.json
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
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

from plugins.benchmarks.commands.eval import prepare_run  # noqa: E402
from plugins.benchmarks.harness.evaluation import EvalRun  # noqa: E402
from plugins.benchmarks.harness.item_rows import item_rows  # noqa: E402
from plugins.benchmarks.harness.tasks import FEWSHOT_SEED, EvalTask, load_tasks  # noqa: E402
from warehouse.paths import Workspace, find_workspace  # noqa: E402
from warehouse.store.eval_items import store_items  # noqa: E402

MODELS = ("smollm2-135m", "gemma3-270m")
CHOICES = ("made_two", "made_four", "made_variable", "made_exam")
BATCHES = (1, 8)
PROBED = "made_four"
"""The task on which the harness's batch size is chosen."""

RESAMPLES = 1000
"""Of the harness's bootstrap, which gives the standard error of a perplexity."""


def main() -> None:
    """Compare, print, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "eval_harness.json")
    parser.add_argument("--model", action="append", help="Take only this model; repeatable.")
    parser.add_argument("--pairs", type=int, default=3, help="Turns of each (default 3).")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    cache = find_workspace().cache
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "data").mkdir()
        (folder / "data" / "cache").symlink_to(cache)
        os.environ["TOKENMART_DATA"] = str(folder / "data")
        os.environ["TOKENMART_DATABASE"] = str(folder / "tokenmart.duckdb")
        tasks = write_tasks(folder / "tasks")
        found = [
            compare(model, tasks, arguments.pairs, folder) for model in arguments.model or MODELS
        ]
        build = ["-m", "tokenmart", "dbt", "--quiet", "run", "--select", "+eval_metrics"]
        subprocess.run([sys.executable, *build], cwd=ROOT, check=True)
        for each in found:
            each["metrics"] = metrics(
                each["model"], each.pop("results"), folder / "tokenmart.duckdb"
            )
            print(json.dumps(each, indent=1))
    record = {
        "versions": {name: version(name) for name in ("lm_eval", "torch", "transformers")},
        "threads": 1,
        "minutes": round((time.monotonic() - started) / 60, 1),
        "models": found,
    }
    arguments.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def compare(model: str, folder: Path, pairs: int, scratch: Path) -> dict[str, Any]:
    """Results of the harness, and seconds of both."""
    run = prepare_run("minilong", model, "cpu", "float32")
    loaded = load_tasks(list(TASKS), [folder])
    for task in loaded:
        store_items(run.workspace, run.problem.name, task.condition, item_rows(task))
    _ = run.scorer  # loaded and checked before the clock starts
    harness = HFLM(
        pretrained=str(run.plan.checkpoint.folder), device="cpu", dtype="float32", batch_size=1
    )
    choices = [task for task in loaded if task.name in CHOICES]
    probe = [task for task in choices if task.name == PROBED]
    batches = {batch: harness_seconds(harness, probe, batch) for batch in (*BATCHES[:1], *BATCHES)}
    fastest = min(batches, key=lambda batch: batches[batch])
    whole = run.workspace
    turns: list[dict[str, float]] = []
    for number in range(pairs):
        run.workspace = Workspace(whole.root, scratch / model / str(number), whole.database)
        sides: list[tuple[str, Callable[[], float]]] = [
            ("tokenmart", lambda: our_seconds(run, choices)),
            ("harness", lambda: harness_seconds(harness, choices, fastest)),
        ]
        turn = {name: side() for name, side in sides[:: -1 if number % 2 else 1]}
        turns.append({name: round(turn[name], 2) for name in sorted(turn)})
        print(model, turns[-1], flush=True)
    run.workspace = whole
    for task in loaded:
        run.run(task)
        run.store_answers(task)
    if run.failures:
        raise SystemExit("; ".join(failure.reason for failure in run.failures))
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    asked = manager.load(list(TASKS))
    for task in asked["tasks"].values():
        # without it the examples in a prompt differ from run to run; `lm_eval` itself sets it
        task.set_fewshot_seed(seed=FEWSHOT_SEED)
    theirs = evaluate(harness, asked, bootstrap_iters=RESAMPLES)["results"]
    del run.__dict__["scorer"]
    gc.collect()
    ratios = [turn["tokenmart"] / turn["harness"] for turn in turns]
    return {
        "model": model,
        "multiple_choice_requests": len(instances(choices)),
        "harness_batch": fastest,
        "seconds": turns,
        "ratios": [round(ratio, 3) for ratio in ratios],
        "ratio": round(statistics.median(ratios), 3),
        "results": theirs,
    }


def instances(tasks: list[EvalTask]) -> list[Any]:
    """The harness's own requests of some tasks."""
    return [request.instance for task in tasks for unit in task.units for request in unit.requests]


def harness_seconds(harness: HFLM, tasks: list[EvalTask], batch: int) -> float:
    """Seconds of the harness's class for all requests of some tasks."""
    harness.batch_size_per_gpu = batch
    requests = instances(tasks)
    started = time.perf_counter()
    harness.loglikelihood(requests, disable_tqdm=True)
    return time.perf_counter() - started


def our_seconds(run: EvalRun, tasks: list[EvalTask]) -> float:
    """Seconds for tasks that were never run, rows written and read back."""
    started = time.perf_counter()
    for task in tasks:
        run.run(task)
        for _ in run.responses(task):
            pass
    return time.perf_counter() - started


def metrics(model: str, theirs: dict[str, Any], database: Path) -> list[dict[str, Any]]:
    """Each number of the harness next to ours, with its standard error if it has one."""
    query = """
        select task, metric, filter, value, stderr from eval_metrics
        where part = 'all' and model_id = ?
    """
    with duckdb.connect(str(database), read_only=True) as connection:
        rows = connection.execute(query, [model]).fetchall()
    ours = {row[:3]: row[3:] for row in rows}
    found = []
    for task, results in theirs.items():
        for key, value in results.items():
            metric, _, filter_name = key.partition(",")
            if not filter_name or metric.endswith("_stderr"):
                continue
            mine, spread = ours[task, metric, filter_name]
            their_spread = results.get(f"{metric}_stderr,{filter_name}")
            found.append(
                {
                    "task": task,
                    "metric": metric,
                    "filter": filter_name,
                    "harness": value,
                    "tokenmart": mine,
                    "difference": abs(mine - value),
                    "harness_stderr": their_spread if isinstance(their_spread, float) else None,
                    "tokenmart_stderr": spread,
                }
            )
    return found


if __name__ == "__main__":
    main()
