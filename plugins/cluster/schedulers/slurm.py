"""Extraction as a Slurm job array, through submitit; each job is a worker of the same run."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from extract.failures import Failure
from extract.planning.plan import Document, Selection
from extract.planning.status import count_finished
from extract.planning.tables import make_plan
from extract.run import Scheduler
from extract.workers import POLL_SECONDS, worker_arguments
from plugins.cluster.placement import costs, place
from plugins.cluster.ray_cluster import PUBLIC_SETTINGS
from warehouse.child_process import inherited, python_module
from warehouse.errors import TokenmartError
from warehouse.progress import progress_bar
from warehouse.store.token_files import publish_all

if TYPE_CHECKING:
    import click

DEFAULT_JOBS = 8
PASSED_ON = ("TOKENMART", "HF_", *PUBLIC_SETTINGS)
"""Prefixes of environment variables that are passed to jobs."""


class SlurmScheduler(Scheduler):
    """`--on slurm`: a job array."""

    kind = "slurm"
    options = frozenset({"slurm"})

    def extract(
        self,
        context: click.Context,
        selection: Selection,
        documents: Sequence[Document],
    ) -> tuple[list[Failure], list[str]]:
        """Submit the jobs and wait for them: see `extract_on_slurm`.

        Raises:
            TokenmartError: a setting of `--slurm` is not KEY=VALUE.
        """
        for asked in context.params["slurm"]:
            if "=" not in asked:
                raise TokenmartError(f"--slurm {asked}: write KEY=VALUE, as in partition=gpu")
        return extract_on_slurm(context, selection, documents)


def extract_on_slurm(
    context: click.Context, selection: Selection, documents: Sequence[Document]
) -> tuple[list[Failure], list[str]]:
    """Submit a job array, wait for it and show the progress that the ledger records.

    Each job gets the models of its part, and scores the documents of these models that no other job
    has claimed. $TOKENMART_SUBMITIT selects another executor of submitit: `local` runs jobs as
    processes of this machine.

    Returns:
        Failed jobs, with the paths of their logs.

    Raises:
        TokenmartError: submitit isn't installed, Slurm is missing, or it refuses a setting.
    """
    try:
        import submitit
    except ImportError as error:
        raise TokenmartError(
            "--on slurm: submitit isn't installed; pip install -c requirements.lock -e '.[slurm]'"
        ) from error
    workspace = selection.workspace
    plan = make_plan(selection, False)
    numbers = [document.doc_id for document in documents]
    # also models that seem done: only a job, which has their files, can compare fingerprints
    work = {model.spec.full_id: numbers for model in plan.models}
    cost = costs(plan)
    jobs = min(context.params["workers"] or DEFAULT_JOBS, len(work) * len(numbers))
    parts = [tuple(dict.fromkeys(model for model, _ in part)) for part in place(work, cost, jobs)]
    since = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    commands = [
        [
            *worker_arguments(context.command, {**context.params, "models": models}),
            *("--as-worker", since),
        ]
        for models in parts
        if models
    ]
    logs = workspace.data / "logs" / "slurm"
    settings = {k: v for k, v in os.environ.items() if k.startswith(PASSED_ON)}
    settings |= workspace.environment()
    try:
        executor = submitit.AutoExecutor(
            logs, cluster=os.environ.get("TOKENMART_SUBMITIT", "slurm")
        )
        executor.update_parameters(name="tokenmart", **_settings(context.params["slurm"]))
        array = executor.map_array(
            run_worker, commands, [settings] * len(commands), [str(Path.cwd())] * len(commands)
        )
    except (RuntimeError, NameError, ValueError, TypeError, OSError) as error:
        text = " ".join(str(error).split())
        raise TokenmartError(f"--on slurm: {text[:300]}") from error
    total = len(selection.models) * len(documents) * len(selection.conditions)
    before = count_finished(selection, documents)
    with progress_bar(total, "units") as progress:
        progress(f"{len(array)} jobs", before)
        try:
            while not all(job.done() for job in array):
                time.sleep(POLL_SECONDS)
                now = count_finished(selection, documents)
                progress(f"{len(array)} jobs", now - before)
                before = now
        except BaseException:
            for job in array:
                job.cancel()
            raise
        finally:
            publish_all(workspace, selection.problem.name)
    return _failures(array, parts), [f"logs of the jobs: {logs}"]


def run_worker(arguments: Sequence[str], settings: Mapping[str, str], folder: str) -> None:
    """Run the command line of a worker as one job, in the folder where the run was started.

    Raises:
        RuntimeError: the command failed; the message is its last line.
    """
    done = subprocess.run(
        [*python_module("tokenmart"), *arguments],
        cwd=folder,
        env={**inherited(), **settings},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    sys.stderr.write(done.stderr)
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise RuntimeError(lines[-1] if lines else f"exit code {done.returncode}")


def _settings(given: Sequence[str]) -> dict[str, Any]:
    """`timeout_min=60` → 60: submitit needs integers, not text."""
    pairs = (each.partition("=") for each in given)
    return {
        ("slurm_" + key if not key.startswith("slurm_") and key in _SLURM else key): (
            int(value) if value.isdigit() else value
        )
        for key, _, value in pairs
    }


_SLURM = ("partition", "qos", "account", "constraint", "gres", "array_parallelism", "mem_per_gpu")
"""Names of settings that submitit accepts for Slurm only, with a prefix."""


def _failures(array: Sequence[Any], parts: Sequence[Sequence[str]]) -> list[Failure]:
    failures = []
    for job, models in zip(array, filter(None, parts), strict=True):
        error = job.exception()
        if error is not None:
            text = str(error).strip().splitlines() or ["it ended early"]
            log = Path(job.paths.stderr)
            failures.append(
                Failure(", ".join(models), f"job {job.job_id}: {text[-1][:300]} (log: {log})")
            )
    return failures
