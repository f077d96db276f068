"""Evaluate merged checkpoints on tasks, each in its own process within the problem's limits."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import yaml

from plugins.benchmarks.harness.tasks import EvalTask, load_tasks
from plugins.merging.make import Plan, cost_of, environment
from plugins.merging.problem import GIGABYTE, OVERALL
from plugins.merging.tables import MERGE_RUNS, RANKING_COLUMNS
from plugins.merging.watchdog import Cost, larger, run_within
from warehouse.child_process import python_module
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.problem.problem_files import Dumper
from warehouse.progress import without_library_bars
from warehouse.store.parquet_files import read_table, write_table

METRIC = "acc"
_WRITTEN = ("eval_pending", "eval_tokens", "eval_answers", "eval_scores")
"""Tables of the store with rows of one model."""


@dataclass(frozen=True)
class Round:
    """Tasks of a round, and its weight in the overall score."""

    name: str
    weight: float
    tasks: Sequence[EvalTask]
    asked: Sequence[str]
    folders: Sequence[Path]

    @staticmethod
    def of_tasks(name: str, weight: float, asked: Sequence[str], folders: Sequence[Path]) -> Round:
        """A round with tasks of the harness or of given folders.

        Raises:
            TokenmartError: the name is reserved, or a task can't be loaded.
        """
        if name == OVERALL:
            raise TokenmartError(f"--round {OVERALL}: that name is for all rounds; choose another")
        with without_library_bars():
            return Round(name, weight, load_tasks(asked, folders), asked, folders)


def evaluate(plan: Plan, round_: Round, workspace: Workspace, device: str) -> Cost:
    """Run `tokenmart eval` on one merged checkpoint; finished units are not run again.

    Raises:
        OverLimitError: the problem's limits were exceeded; finished units are kept.
        TokenmartError: the evaluation failed.
    """
    with tempfile.TemporaryDirectory(prefix="tokenmart-merge-") as name:
        folder = Path(name)
        problem = folder / "problem.yml"
        problem.write_text(yaml.dump(_problem(plan, folder), Dumper=Dumper), encoding="utf-8")
        command = [*python_module("tokenmart"), "eval", "--problem", str(problem)]
        command += ["--device", device, "--tasks", ",".join(round_.asked)]
        for tasks_folder in round_.folders:
            command += ["--include-path", str(tasks_folder.resolve())]
        what = f"evaluation of {plan.merge.name} in round {round_.name}"
        variables = {**environment(workspace), **workspace.environment()}
        of_merge = Path(f"problem={plan.problem.name}") / f"model_id={plan.merge.name}"
        results = [workspace.store / table / of_merge for table in _WRITTEN]
        cost = run_within(command, folder, plan.problem.limits, what, variables, results)
        for line in (folder / "log.txt").read_text("utf-8", "replace").splitlines():
            if line.startswith("note: "):
                click.echo(line, err=True)
        return cost


def _problem(plan: Plan, folder: Path) -> dict[str, Any]:
    """A problem of kind documents with the checkpoint as its model; documents are never read."""
    model = {
        "full_id": plan.merge.name,
        "family": plan.problem.name,
        "source": {"kind": "local", "path": str(plan.folder.resolve())},
    }
    return {
        "name": plan.problem.name,
        "title": plan.problem.title,
        "documents": {"kind": "folder", "path": str(folder)},
        "models": [model],
        "probes": [{"kind": "full"}],
    }


def store_columns(round_: Round, problem: str, workspace: Workspace) -> list[str]:
    """Store the ranking criteria of a round; those of other rounds are kept.

    Returns:
        Tasks of an earlier run that the round no longer has.

    Raises:
        TokenmartError: results of a problem of this name were imported (`imported-results`), or a
            task lacks the metric that entries are ranked by (`metric-missing`).
        StorageError: the data folder can't be written.
    """
    for task in round_.tasks:
        known = list(task.task.aggregation())
        if METRIC not in known:
            raise TokenmartError(
                f"task {task.name}: has no {METRIC}, by which a round ranks entries; its metrics: "
                f"{', '.join(known)}",
                code="metric-missing",
                where=task.name,
            )
    path = workspace.store / "ranking_columns" / f"problem={problem}" / "columns.parquet"
    if (workspace.store / "ranking_results" / f"problem={problem}").exists():
        raise TokenmartError(
            f"{problem}: has imported results; rename the problem",
            code="imported-results",
            where=problem,
        )
    before = read_table(path).to_pylist() if path.is_file() else []
    rows = [row for row in before if row["round"] != round_.name]
    rows += [
        {
            "round": round_.name,
            "round_weight": round_.weight,
            "task_group": task.name,
            "task": task.name,
            "metric": METRIC,
            "direction": "higher",
            "given": "score",
            "condition": task.condition,
        }
        for task in round_.tasks
    ]
    write_table(path, pa.Table.from_pylist(rows, schema=RANKING_COLUMNS))
    had = {row["task"] for row in before if row["round"] == round_.name}
    return sorted(had.difference(task.name for task in round_.tasks))


def store_run(
    plan: Plan, stage: str, round_name: str, cost: Cost, workspace: Workspace, ended: str = ""
) -> Cost:
    """Record the cost of a merge or an evaluation, and return the recorded one.

    If all units of an evaluation were stored already, the cost of the run that computed them is
    kept (the larger number of seconds). A resumed evaluation adds to the cost.

    Args:
        plan: the merge.
        stage: merge or evaluation.
        round_name: round of an evaluation.
        cost: the cost.
        workspace: the checkout.
        ended: reason why it was ended early; empty otherwise.

    Raises:
        StorageError: the data folder can't be written.
    """
    record = plan.record or {}
    keys = f"problem={plan.problem.name}/model_id={plan.merge.name}"
    path = workspace.store / "merge_runs" / keys / "runs.parquet"
    before = read_table(path).to_pylist() if path.is_file() else []
    limits = plan.problem.limits
    row = {
        "stage": stage,
        "round": round_name,
        "fingerprint": plan.fingerprint,
        "method": plan.merge.method,
        "parameters": record.get("parameters", 0),
        "checkpoint_bytes": record.get("checkpoint_bytes", 0),
        **asdict(cost),
        "limit_seconds": limits.seconds,
        "limit_peak_bytes": _bytes(limits.memory_gb),
        "limit_gpu_bytes": _bytes(limits.gpu_memory_gb),
        "limit_disk_bytes": _bytes(limits.disk_gb),
        "ended": ended,
    }
    kept = []
    for other in before:
        if (other["stage"], other["round"]) != (stage, round_name):
            kept.append(other)
        elif stage == "merge" or other["fingerprint"] != plan.fingerprint:
            continue
        elif other["ended"]:
            row["seconds"] += other["seconds"]
            for peak in ("peak_bytes", "disk_bytes", "gpu_bytes"):
                row[peak] = larger(row[peak], other[peak])
        elif not ended and other["seconds"] > cost.seconds:
            row |= {field.name: other[field.name] for field in fields(Cost)}
    write_table(path, pa.Table.from_pylist([*kept, row], schema=MERGE_RUNS))
    return cost_of(row)


def _bytes(gigabytes: float | None) -> float | None:
    return None if gigabytes is None else gigabytes * GIGABYTE
