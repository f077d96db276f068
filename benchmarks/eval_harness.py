"""`tokenmart eval` compared with lm-evaluation-harness: numbers and time.

Runs task forms on real checkpoints of minilong, on our engine and on the harness's own class for
transformers models, in one process, float32, one thread. The forms are task files that the harness
ships, on documents made in tests/helpers/harness_forms.py, and the tasks of
tests/helpers/eval_tasks.py. Each number of the harness is compared with that of the table
eval_metrics and with the one that an import of the harness's own files gives. Items are cut, and
BOS is scored behind BOS, as the harness does (`tokenmart eval --too-long harness`).

Time is that of all requests of some tasks, models loaded: ours with rows written and read back. The
two take turns, the harness in batches of 8, which is faster than 1; each turn of ours begins with
nothing stored. Processor time and time by the clock are both measured.

    python benchmarks/eval_harness.py --measure --write
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

from marked_tables import RESULTS, machine, marked, replace_marked, table  # noqa: E402

from warehouse.files import write_whole  # noqa: E402
from warehouse.store.provenance import code_revision  # noqa: E402

MODELS = ("smollm2-135m", "gemma3-270m")
KINDS = {
    "one letter": ("form_commonsense_qa", "mmlu_made_north", "mmlu_made_south"),
    "one letter, 5-shot": ("form_mmlu_5shot",),
    "two choices": ("form_boolq", "form_piqa", "form_copa", "made_two"),
    "several texts": ("form_arc_easy", "form_hellaswag", "form_sciq", "made_exam"),
    "generation, 5-shot": ("form_gsm8k",),
}
"""Tasks whose requests are timed together."""

BATCH = 8
"""Of the harness."""

OUT = ROOT / "benchmarks" / "eval_harness.json"
BLOCK = "benchmarks/eval_harness.json"

ALIKE = 1e-6
"""Goal: largest difference of an accuracy, an exact match or a Brier score."""
RELATIVE = 1e-4
"""Goal: largest relative difference of every other number."""
GOALS = {
    "one letter": 0.8,
    "one letter, 5-shot": 0.8,
    "two choices": 0.8,
    "several texts": 0.8,
    "generation, 5-shot": 1.0,
}
"""Our time over the harness's, at most."""


def main() -> None:
    """Measure, or with what was measured before, and print the tables."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--measure", action="store_true", help="measure; else use the figures")
    asked.add_argument("--write", action="store_true", help="write the figures and RESULTS.md")
    asked.add_argument("--model", action="append", help="measure only this one; repeatable")
    asked.add_argument("--pairs", type=int, default=2, help="turns of each (default 2)")
    options = asked.parse_args()
    record = json.loads(OUT.read_text("utf-8"))
    if options.measure:
        wanted = options.model or MODELS
        kept = [each for each in record["models"] if each["model"] not in wanted]
        record = measured(wanted, options.pairs)
        record["models"] = [*kept, *record["models"]]
    made = section(record)
    print(made)
    if options.write:
        write_whole(OUT, json.dumps(record, indent=1) + "\n")
        replace_marked(RESULTS, BLOCK, made)


def measured(models: tuple[str, ...], pairs: int) -> dict[str, Any]:
    """The record of all models."""
    import torch
    from eval_tasks import write_tasks
    from harness_forms import write_forms

    from warehouse.paths import find_workspace

    torch.set_num_threads(1)
    cache = find_workspace().cache
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "data").mkdir()
        (folder / "data" / "cache").symlink_to(cache)
        os.environ["TOKENMART_DATA"] = str(folder / "data")
        os.environ["TOKENMART_DATABASE"] = str(folder / "tokenmart.duckdb")
        tasks = write_forms(write_tasks(folder / "tasks") / "forms").parent
        records = [compare(model, tasks, pairs, folder / model) for model in models]
        tokenmart("dbt", "--quiet", "run", "--select", "+eval_metrics")
        for record in records:
            record["numbers"] = numbers(record, record.pop("results"), folder / "tokenmart.duckdb")
    return {
        **machine("lm_eval", "torch", "transformers"),
        "code": code_revision(),
        "threads": 1,
        "models": records,
    }


def tokenmart(*words: str) -> None:
    """Run a command of ours."""
    subprocess.run([sys.executable, "-m", "tokenmart", *words], cwd=ROOT, check=True)


def compare(model: str, folder: Path, pairs: int, scratch: Path) -> dict[str, Any]:
    """Results of the harness, and seconds of both; both sides' answers are stored."""
    from eval_tasks import TASKS
    from harness_forms import FORMS, GROUP, imported_samples, results_of_harness
    from lm_eval.models.huggingface import HFLM

    from extract.planning.plan import plan_model
    from plugins.benchmarks.cli.eval import selected
    from plugins.benchmarks.harness.evaluation import EvalRun
    from plugins.benchmarks.harness.groups import group_rows
    from plugins.benchmarks.harness.item_rows import item_rows
    from plugins.benchmarks.harness.stored_items import store_group, store_items
    from plugins.benchmarks.harness.tasks import load_tasks_and_groups
    from warehouse.progress import no_progress

    started = time.process_time()
    workspace, problem, selection = selected("minilong", (model,), "cpu", "float32")
    plan = plan_model(selection, selection.models[0], [])
    run = EvalRun(problem, selection, plan, workspace, no_progress, too_long="harness")
    names = [*TASKS, *(f"form_{name}" for name in FORMS), GROUP[0]]
    tasks, groups = load_tasks_and_groups(names, [folder])
    keys = run.workspace, run.problem.name
    for task in tasks:
        store_items(*keys, task.condition, item_rows(task))
    conditions = {task.name: task.condition for task in tasks}
    for group in groups:
        store_group(*keys, *group_rows(group, conditions))
    _ = run.scorer  # loaded and checked before the clock starts
    harness = HFLM(
        pretrained=str(run.plan.checkpoint.folder), device="cpu", dtype="float32", batch_size=BATCH
    )
    times = {
        kind: timed(run, harness, kind, [task for task in tasks if task.name in members], pairs)
        for kind, members in KINDS.items()
    }
    for task in tasks:
        run.run(task)
        run.store_answers(task)
    if run.failures:
        raise SystemExit("; ".join(failure.reason for failure in run.failures))
    del run.__dict__["scorer"]
    gc.collect()
    theirs = results_of_harness(harness, folder, names, scratch)
    words = ("--problem", run.problem.name, "--model", run.plan.spec.full_id)
    tokenmart("data", "import", *words, "--format", "samples", *imported_samples(scratch))
    return {
        "model": model,
        "model_id": run.plan.spec.model_id,
        "tasks": len(tasks),
        "groups": len(groups),
        "times": times,
        "results": theirs,
        "minutes": round((time.process_time() - started) / 60, 1),
    }


def timed(run: Any, harness: Any, kind: str, tasks: list[Any], pairs: int) -> dict[str, Any]:
    """Seconds of both for some tasks, in turns."""
    from warehouse.paths import Workspace

    whole = run.workspace
    turns = []
    for number in range(pairs):
        with tempfile.TemporaryDirectory() as place:
            run.workspace = Workspace(whole.root, Path(place), whole.database)
            sides: list[tuple[str, Callable[[], None]]] = [
                ("tokenmart", partial(we_run, run, tasks)),
                ("harness", partial(harness_runs, harness, tasks)),
            ]
            turns.append({name: seconds(side) for name, side in sides[:: -1 if number % 2 else 1]})
            print(run.plan.spec.full_id, kind, turns[-1], flush=True)
    run.workspace = whole
    ratios = {
        clock: [turn["tokenmart"][clock] / turn["harness"][clock] for turn in turns]
        for clock in ("processor", "clock")
    }
    return {
        "tasks": [task.name for task in tasks],
        "requests": sum(len(unit.requests) for task in tasks for unit in task.units),
        "harness_batch": BATCH,
        "turns": turns,
        **{f"ratio_{name}": round(statistics.median(each), 3) for name, each in ratios.items()},
    }


def seconds(work: Callable[[], None]) -> dict[str, float]:
    """What something takes, of the processor and by the clock."""
    processor, clock = time.process_time(), time.perf_counter()
    work()
    return {
        "processor": round(time.process_time() - processor, 2),
        "clock": round(time.perf_counter() - clock, 2),
    }


def harness_runs(harness: Any, tasks: list[Any]) -> None:
    """The harness's class answers all requests of some tasks."""
    by_kind: dict[str, list[Any]] = {}
    for task in tasks:
        for unit in task.units:
            for request in unit.requests:
                by_kind.setdefault(request.kind, []).append(request.instance)
    for kind, requests in by_kind.items():
        getattr(harness, kind)(requests, disable_tqdm=True)


def we_run(run: Any, tasks: list[Any]) -> None:
    """We answer all requests of tasks that were never run; rows are written and read back."""
    for task in tasks:
        run.run(task)
        for _ in run.responses(task):
            pass


def numbers(model: dict[str, Any], theirs: dict[str, Any], database: Path) -> list[dict[str, Any]]:
    """Each number of the harness next to ours and the imported one."""
    import duckdb

    query = """
        select task, metric || ',' || filter, ends_with(condition, '-samples'), value, reason
        from eval_metrics
        where part = 'all' and model_id = ?
    """
    with duckdb.connect(str(database), read_only=True) as connection:
        rows = connection.execute(query, [model["model_id"]]).fetchall()
    values_of = {row[:3]: row[3:] for row in rows}
    return [
        {
            "task": task,
            "metric": key,
            "harness": value,
            "tokenmart": values_of[task, key, False][0],
            "reason": values_of[task, key, False][1],
            "imported": values_of.get((task, key, True), (None, None))[0],
        }
        for task, values in theirs.items()
        for key, value in values.items()
    ]


def section(record: dict[str, Any]) -> str:
    """Numbers and times, with the markers of RESULTS.md."""
    models = record["models"]
    forms = sorted({each["task"] for model in models for each in model["numbers"]})
    absent = sorted(
        {each["task"] for model in models for each in model["numbers"] if each["imported"] is None}
    )
    lines = [
        f"`python benchmarks/eval_harness.py --measure --write` (lm_eval {record['lm_eval']}, "
        f"{record['processor']}, float32, one thread, {sum(m['minutes'] for m in models):.0f} min "
        "of processor time): "
        f"{models[0]['tasks']} tasks and {models[0]['groups']} group, on real checkpoints of "
        "minilong.",
        "",
        *table(
            {
                "model": "{model}",
                "numbers:": "{numbers}",
                "empty, with a reason:": "{empty}",
                "largest difference, accuracies (goal ≤ 1e-6):": "{alike:.1e}",
                "largest relative difference, other metrics (goal ≤ 1e-4):": "{relative:.1e}",
                "numbers equal after import:": "{equal} of {imported}",
            },
            map(equality, models),
        ),
        "",
        f"Tasks: {', '.join(f'`{name}`' for name in forms)}.",
        "",
        f"An import has no values of {', '.join(f'`{name}`' for name in absent)}: samples whose "
        "target is none of the choices, or that have several contexts, are refused, and samples "
        "have no values of a group.",
        "",
        "The next table has the time of all requests of some tasks, without loading the models. "
        "The ratio is the median over repetitions of Tokenmart's time divided by the harness's, in "
        "processor time and, in brackets, in elapsed time.",
        "",
        *table(
            {
                "requests": "{kind}",
                "model": "{model}",
                "number:": "{requests}",
                "harness, s (batch):": "{harness} ({harness_batch})",
                "ours, s:": "{ours}",
                "ratio:": "**{ratio_processor:.2f}** ({ratio_clock:.2f})",
                "goal:": "≤ {goal}",
            },
            timings(models),
        ),
    ]
    return marked(BLOCK, lines)


def equality(model: dict[str, Any]) -> dict[str, Any]:
    """How far a model's numbers are from the harness's."""
    alike, relative, equal, imported, empty = [0.0], [0.0], 0, 0, 0
    for number in model["numbers"]:
        theirs, ours = number["harness"], number["tokenmart"]
        if number["imported"] is not None:
            imported += 1
            equal += is_equal(number["imported"], theirs)
        if ours is None:
            empty += bool(number["reason"])
        elif is_accuracy_like(number["metric"]):
            alike.append(abs(ours - theirs))
        else:
            relative.append(abs(ours - theirs) / (abs(theirs) or 1))
    return {
        "model": model["model"],
        "numbers": len(model["numbers"]),
        "empty": empty,
        "alike": max(alike),
        "relative": max(relative),
        "equal": equal,
        "imported": imported,
    }


def is_equal(one: float, other: float) -> bool:
    """Whether two numbers differ in the last digits at most."""
    return abs(one - other) <= 1e-12 * max(1, abs(other))


def is_accuracy_like(metric: str) -> bool:
    """Whether a metric is a share, of which a difference is compared as it is."""
    return metric.startswith(("acc", "exact", "brier"))


def timings(models: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A row for each kind of requests and model."""
    for kind, goal in GOALS.items():
        for model in models:
            times = model["times"][kind]
            shown = {
                name: ", ".join(f"{turn[side]['processor']:.1f}" for turn in times["turns"])
                for name, side in (("harness", "harness"), ("ours", "tokenmart"))
            }
            yield {**times, **shown, "kind": kind, "model": model["model"], "goal": goal}


if __name__ == "__main__":
    main()
