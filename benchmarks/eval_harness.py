"""`tokenmart eval` beside lm-evaluation-harness: same numbers, how much time?

Runs the made-up tasks of tests/helpers/eval_tasks.py on real checkpoints of minilong, on our engine
and on the harness's own class for transformers models, in one process, float32, two threads.
Compared are the harness's results and standard errors with the table eval_metrics, and the time
for the multiple-choice requests, models loaded: ours with rows written and read back. The two take
turns task by task, the harness with the faster of two batch sizes.

    python benchmarks/eval_harness.py --out benchmarks/eval_harness.json
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
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

from extract.benchmarks.cli import prepare_run  # noqa: E402
from extract.benchmarks.tasks import EvalTask, item_rows, load_tasks  # noqa: E402
from warehouse.paths import find_workspace  # noqa: E402
from warehouse.store.eval_items import store_items  # noqa: E402

MODELS = ("smollm2-135m", "gemma3-270m")
CHOICES = ("made_two", "made_four", "made_variable", "made_exam")
BATCHES = (1, 8)
THREADS = 2
PROBED = "made_last_word"
"""The task on which the harness's batch size is chosen."""

RESAMPLES = 1000
"""Of the harness's bootstrap, which gives the standard error of a perplexity."""


def main() -> None:
    """Compare, print, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "eval_harness.json")
    parser.add_argument("--model", action="append", help="Take only this model; repeatable.")
    arguments = parser.parse_args()
    torch.set_num_threads(THREADS)
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
        build = ["-m", "tokenmart", "dbt", "--quiet", "run", "--select", "+eval_metrics"]
        found: list[dict[str, Any]] = []
        for model in arguments.model or MODELS:
            each = compare(model, tasks)
            gc.collect()
            subprocess.run([sys.executable, *build], cwd=ROOT, check=True)
            each["metrics"] = metrics(model, each.pop("results"), folder / "tokenmart.duckdb")
            print(json.dumps(each, indent=1))
            found.append(each)
            record = {
                "versions": {name: version(name) for name in ("lm_eval", "torch", "transformers")},
                "threads": THREADS,
                "minutes": round((time.monotonic() - started) / 60, 1),
                "models": found,
            }
            arguments.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


class TimedHFLM(HFLM):  # type: ignore[misc]
    """The harness's class, which sums up the time of its requests."""

    seconds = 0.0

    def loglikelihood(self, *arguments: Any, **options: Any) -> Any:
        """As the harness has it."""
        started = time.perf_counter()
        answers = super().loglikelihood(*arguments, **options)
        self.seconds += time.perf_counter() - started
        return answers


def compare(model: str, folder: Path) -> dict[str, Any]:
    """Results of the harness, and seconds of both."""
    run = prepare_run("minilong", model, "cpu", "float32")
    loaded = load_tasks(list(TASKS), [folder])
    for task in loaded:
        store_items(run.workspace, run.problem.name, task.condition, item_rows(task))
    _ = run.scorer  # loaded and checked before the clock starts
    harness = TimedHFLM(
        pretrained=str(run.plan.checkpoint.folder), device="cpu", dtype="float32", batch_size=1
    )
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    theirs: dict[str, Any] = {}

    def harness_seconds(task: EvalTask, batch: int) -> float:
        harness.batch_size_per_gpu, harness.seconds = batch, 0.0
        found = evaluate(harness, manager.load([task.name]), bootstrap_iters=RESAMPLES)
        theirs.update(found["results"])
        return harness.seconds

    def our_seconds(task: EvalTask, _: int) -> float:
        started = time.perf_counter()
        run.run(task)
        for _unit in run.responses(task):
            pass
        seconds = time.perf_counter() - started
        run.store_answers(task)
        return seconds

    probe = next(task for task in loaded if task.name == PROBED)
    batches = {batch: harness_seconds(probe, batch) for batch in BATCHES}
    fastest = min(batches, key=lambda batch: batches[batch])
    turns = []
    for number, task in enumerate(loaded):
        sides = [("tokenmart", our_seconds), ("harness", harness_seconds)]
        seconds = {name: side(task, fastest) for name, side in sides[:: -1 if number % 2 else 1]}
        if task.name not in CHOICES:
            continue
        ratio = seconds["tokenmart"] / seconds["harness"]
        requests = sum(len(unit.requests) for unit in task.units)
        turn = {"task": task.name, "requests": requests, "ratio": round(ratio, 3)}
        turns.append(turn | {name: round(seconds[name], 2) for name, _ in sides})
        print(model, turns[-1], flush=True)
    if run.failures:
        raise SystemExit("; ".join(failure.reason for failure in run.failures))
    sums = [sum(turn[name] for turn in turns) for name in ("tokenmart", "harness")]
    return {
        "model": model,
        "harness_batch": fastest,
        "multiple_choice": turns,
        "ratio": round(sums[0] / sums[1], 3),
        "results": theirs,
    }


def metrics(model: str, theirs: dict[str, Any], database: Path) -> list[dict[str, Any]]:
    """Each number of the harness beside ours, and its standard error where it gives one."""
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
