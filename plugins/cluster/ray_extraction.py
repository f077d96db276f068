"""Extraction on a Ray cluster: an actor for each GPU or share of processors, a task for each unit.

Each actor runs the same `Extraction` on the same folders as a process on this machine, with the
same claims, rows and ledger.
"""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from extract.failures import Failure
from extract.planning.documents import PlannedDocument
from extract.planning.selection import Selection
from extract.planning.tables import make_plan
from plugins.cluster.document_actor import DocumentActor, Report
from plugins.cluster.placement import Queues, Unit, costs, place
from plugins.cluster.ray_cluster import cluster
from warehouse.errors import StorageError, TokenmartError
from warehouse.paths import Workspace
from warehouse.problem.spec import Problem
from warehouse.progress import Progress, progress_bar
from warehouse.store.token_files import publish, publish_all

WAIT_SECONDS = 5.0
"""Seconds until a unit claimed by another process is checked again."""


def run_on_ray(
    selection: Selection,
    documents: Sequence[PlannedDocument],
    address: str | None,
    workers: int | None,
) -> tuple[list[Failure], list[str]]:
    """Extract the missing units; other actors score the units of a lost node.

    Args:
        selection, documents: as for `Extraction`; all machines of the cluster have the same folders
            under the same paths.
        address: address of the cluster; None starts one on this machine.
        workers: number of actors; by default one for each GPU, or for each node if there are no
            GPUs.

    Returns:
        Failures, and warnings of libraries.

    Raises:
        TokenmartError: Ray isn't installed, doesn't answer, or has lost every actor.
        StorageError: no more rows can be stored.
    """
    with cluster(address) as ray:
        gpus, actor_count, cpus = _actor_resources(ray, workers)
        if gpus:
            selection = replace(selection, device="cuda")
        plan = make_plan(selection, False)
        # also models that seem done: only an actor, which has their files, can compare fingerprints
        work = {
            model.spec.full_id: [document.doc_id for document in documents] for model in plan.models
        }
        total = sum(map(len, work.values()))
        actor_count = min(actor_count, total)
        parts = place(work, costs(plan), actor_count)
        since = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        given = [ray.put(each) for each in (selection, list(documents))]
        settings = {
            "env_vars": {
                key: value
                for key, value in os.environ.items()
                if key.startswith(("TOKENMART", "HF_"))
            }
        }
        actor = ray.remote(num_gpus=1 if gpus else 0, num_cpus=cpus, runtime_env=settings)(
            DocumentActor
        )
        actors = {number: actor.remote(*given, since) for number in range(actor_count)}
        with progress_bar(total, "documents") as progress:
            conditions = [condition.name for condition in selection.conditions]
            driver = _Driver(
                ray,
                actors,
                Queues(parts),
                progress,
                selection.problem,
                conditions,
                selection.workspace,
            )
            return driver.run(work)


def _actor_resources(ray: Any, workers: int | None) -> tuple[int, int, float]:
    """Number of GPUs of the cluster, number of actors, and processors of each actor."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    gpus = int(sum(node.get("GPU", 0) for node in nodes))
    cpus = sum(node.get("CPU", 0) for node in nodes)
    if not cpus:
        raise TokenmartError("the cluster has no processors free for work; add a node")
    if gpus:
        return gpus, min(workers or gpus, gpus), min(1.0, cpus / gpus)
    able = [node["CPU"] for node in nodes if node.get("CPU", 0) >= 1]
    actor_count = workers or len(able)
    if actor_count > sum(int(count) for count in able):
        raise TokenmartError(
            f"--workers {actor_count}: the cluster has {int(cpus)} processors; give fewer"
        )
    share = max(1, int(cpus // actor_count))
    # an actor runs on one node, so it may not need more processors than its node has
    while sum(int(count // share) for count in able) < actor_count:
        share -= 1
    return 0, actor_count, float(share)


class _Driver:
    """Assigns units to actors and collects their reports until no unit is left."""

    def __init__(
        self,
        ray: Any,
        actors: dict[int, Any],
        queues: Queues,
        progress: Progress,
        problem: Problem,
        conditions: Sequence[str],
        workspace: Workspace,
    ) -> None:
        self.conditions = conditions
        self.ray, self.actors, self.queues = ray, actors, queues
        self.progress, self.problem, self.workspace = progress, problem, workspace
        self.running: dict[Any, tuple[int, Unit]] = {}
        self.later: list[tuple[float, int, Unit]] = []
        self.failures: list[Failure] = []
        self.failed_on: dict[Unit, set[int]] = {}
        self.loads: dict[int, int] = {}

    def run(self, work: dict[str, list[int]]) -> tuple[list[Failure], list[str]]:
        left = {model: len(documents) for model, documents in work.items()}
        self.progress("starting actors", 0)
        try:
            while self.running or len(self.queues) or self.later:
                self._hand_out()
                for model in self._take_back():
                    left[model] -= 1
                    if not left[model]:
                        self._publish(model)
        finally:
            publish_all(self.workspace, self.problem.name)
        loads = sum(self.loads.values())
        return self.failures, [f"{len(self.loads)} actors loaded checkpoints {loads} times"]

    def _publish(self, model: str) -> None:
        name = self.problem.model(model).model_id
        for condition in self.conditions:
            publish(self.workspace, self.problem.name, name, condition)

    def _hand_out(self) -> None:
        now = time.monotonic()
        for due, number, unit in [each for each in self.later if each[0] <= now]:
            self.later.remove((due, number, unit))
            heir = number if number in self.actors else next(iter(self.actors))
            self.queues.again(heir, unit)
        busy = {number for number, _ in self.running.values()}
        for number in self.actors.keys() - busy:
            following = self.queues.next_for(number)
            if following is not None:
                others = bool(self._untried(following) - {number})
                task = self.actors[number].score.remote(*following, others)
                self.running[task] = (number, following)

    def _take_back(self) -> list[str]:
        """Models of the finished documents."""
        if not self.running:
            time.sleep(min(WAIT_SECONDS, 0.2))
            return []
        ready, _ = self.ray.wait(list(self.running), num_returns=1, timeout=WAIT_SECONDS)
        settled = []
        for task in ready:
            number, unit = self.running.pop(task)
            try:
                report: Report = self.ray.get(task)
            except self.ray.exceptions.RayTaskError as error:
                raise StorageError(_cause(error)) from error
            except self.ray.exceptions.RayError as error:
                self._lose(number, unit, error)
                continue
            self.loads[number] = report.loads
            if report.failures:
                self.failed_on.setdefault(unit, set()).add(number)
                if untried := self._untried(unit):
                    self.queues.again(min(untried), unit)
                    continue
            self.failures += report.failures
            if report.elsewhere:
                self.later.append((time.monotonic() + WAIT_SECONDS, number, unit))
                continue
            self.progress(f"{unit[0]}: document {unit[1]}", 1)
            settled.append(unit[0])
        return settled

    def _untried(self, unit: Unit) -> set[int]:
        """Actors on which the unit has not failed."""
        return self.actors.keys() - self.failed_on.get(unit, set())

    def _lose(self, number: int, unit: Unit, error: Exception) -> None:
        del self.actors[number]
        self.queues.close(number, unit)
        click.echo(
            f"warning: actor {number + 1} was lost ({type(error).__name__}); "
            "others score its units",
            err=True,
        )
        if not self.actors:
            raise TokenmartError(
                "every actor was lost; what was finished is kept: look at Ray's logs, and "
                "run the same command again"
            ) from error


def _cause(error: Exception) -> str:
    """An actor's error in one line: the message of its StorageError."""
    cause = getattr(error, "cause", None) or error
    return " ".join(str(cause).split())[:400]
