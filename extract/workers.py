"""Further processes of one extraction: their commands, their share of the machine, their end.

Workers share nothing but the folder: each goes through all models and takes the unclaimed
documents. The parent reports the progress in the ledger, and afterwards computes what a failed
worker has left.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from extract.devices import free_gpus
from extract.failures import DeviceLostError, print_lines
from extract.planning.cost import refuse_too_many
from extract.planning.plan import Document
from extract.planning.progress import count_finished
from extract.planning.selection import Selection
from extract.planning.tables import Plan
from warehouse.child_process import inherited, python_module
from warehouse.files import storage_errors
from warehouse.paths import Workspace
from warehouse.progress import Progress, progress_bar


@dataclass(frozen=True)
class Sharing:
    """Number of parallel processes, and their models.

    Attributes:
        workers: processes; 1 is this one alone.
        each: for each worker the models that it runs, a copy on its GPU; None where all workers
            run all that are selected.
        spread: models too large for any one GPU, run over all of them when the workers are done.
        sentence: the same for the reader; empty where there is nothing to decide.
    """

    workers: int
    each: tuple[tuple[str, ...], ...] | None = None
    spread: tuple[str, ...] = ()
    sentence: str = ""


def share_gpus(
    gpus: Sequence[int], needed: Mapping[str, int | None], asked: int | None = None
) -> Sharing:
    """One worker per GPU for the models that fit on it; the others afterwards, over all GPUs.

    Args:
        gpus: free memory of each GPU in bytes.
        needed: predicted peak of each model with work left, in bytes; one of unknown size (None)
            counts as too large.
        asked: number of workers, where the user gave one.
    """
    known = {name: peak for name, peak in needed.items() if peak is not None}
    fitting = [tuple(name for name, peak in known.items() if peak <= free) for free in gpus]
    spread = tuple(name for name in needed if not any(name in names for names in fitting))
    workers = asked or len(gpus)
    if len(gpus) < 2 or workers == 1 or not any(fitting):
        alone = "; one model at a time over all of them" if len(gpus) > 1 and needed else ""
        return Sharing(asked or 1, sentence=f"{len(gpus)} GPUs{alone}." if alone else "")
    sentence = f"{len(gpus)} GPUs; {workers} workers, each with a copy of the model on one GPU"
    for number, names in enumerate(fitting):
        if left_out := [name for name in max(fitting, key=len) if name not in names]:
            free = f"{gpus[number] / 2**30:.0f} GiB free"
            sentence += f"; GPU {number}, with {free}, leaves out {', '.join(left_out)}"
    if spread:
        sentence += (
            f"; afterwards, over all GPUs, since one has at most {max(gpus) / 2**30:.0f} GiB free: "
            f"{', '.join(spread)}"
        )
    each = tuple(fitting[number % len(gpus)] for number in range(workers))
    return Sharing(workers, each, spread, f"{sentence}.")


def sharing_of(plan: Plan, asked_device: str, device: str, workers: int | None) -> Sharing:
    """The decision for a plan on this machine; only the device `auto` leaves it to us.

    Args:
        plan: predicts memory, and has the models with work left.
        asked_device, workers: as on the command line.
        device: what the first was resolved to.
    """
    if asked_device != "auto" or device != "auto-map":
        return Sharing(workers or 1)
    needed = {
        model.spec.full_id: model.memory.reserved if model.memory else None
        for model in plan.models
        if model.left > 0
    }
    return share_gpus(free_gpus(device), needed, workers)


OWN_TO_PARENT = ("workers", "dry_run", "as_worker", "on", "address")

POLL_SECONDS = 1.0

GRACE_SECONDS = 60.0
"""Seconds that a stopped worker has for storing what it computed."""


def worker_arguments(command: click.Command, values: Mapping[str, Any]) -> list[str]:
    """The command line of a worker: that of the running command without its parent's own options.

    `values` are the command's parameters by name, as click gives them.
    """
    arguments = [command.name or ""]
    for parameter in command.params:
        value = values.get(parameter.name or "")
        if parameter.name in OWN_TO_PARENT or value in (None, False, ()):
            continue
        if value is True:
            arguments.append(parameter.opts[0])
        else:
            for each in value if isinstance(value, tuple) else (value,):
                arguments += [parameter.opts[0], str(each)]
    return arguments


def worker_environments(workers: int, device: str) -> list[dict[str, str]]:
    """Each worker's share: one GPU in turn (of those visible), or its part of the cores.

    Workers of one named GPU (`cuda:1`) share it.
    """
    if device.startswith("cuda:"):
        return [{} for _ in range(workers)]
    if not device.startswith(("cuda", "auto-map")):
        import psutil

        cores = psutil.cpu_count(logical=False) or 1
        return [{"OMP_NUM_THREADS": str(max(1, cores // workers))} for _ in range(workers)]
    import torch

    names = ["CUDA_VISIBLE_DEVICES"]
    if torch.version.hip:
        # AMD's own name goes before; its numbers count what ROCR_VISIBLE_DEVICES leaves
        names.insert(0, "HIP_VISIBLE_DEVICES")
    visible = next(filter(None, map(os.environ.get, names)), None)
    if visible:
        gpus = visible.split(",")
    else:
        gpus = [str(n) for n in range(max(1, torch.cuda.device_count()))]
    return [{names[0]: gpus[n % len(gpus)]} for n in range(workers)]


@dataclass
class Worker:
    """A child process and what it works on.

    Attributes:
        arguments: of the command, from `worker_arguments`.
        environment: added to this process's own.
        log: for its standard error; an empty one is removed.
        place: where it computes, for messages: `GPU 3`, `worker 2`.
        restarted: whether its GPU failed once and it was started again.
    """

    arguments: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    place: str
    restarted: bool = False

    def start(self) -> subprocess.Popen[bytes]:
        """Start it; a second start keeps what the first wrote.

        Raises:
            StorageError: its log can't be written.
        """
        with storage_errors(self.log):
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with self.log.open("ab" if self.restarted else "wb") as errors:
                return subprocess.Popen(
                    [*python_module("tokenmart"), *self.arguments],
                    env={**inherited(), **self.environment},
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                )


@dataclass(frozen=True)
class Ended:
    """Outcome of workers: a line for each failure, and those whose GPU was abandoned."""

    failures: tuple[str, ...]
    lost: tuple[Worker, ...] = ()


def run_workers(team: Sequence[Worker], finished: Callable[[], int], progress: Progress) -> Ended:
    """Run workers to their end, showing the progress that the ledger records.

    A worker whose GPU fails is started again once; if it fails again, the GPU is given up.
    `finished` counts the finished units.

    Raises:
        StorageError: a log can't be written.
    """
    children: list[subprocess.Popen[bytes]] = []
    failures: list[str] = []
    lost: list[Worker] = []
    with _stopped_with_us(children):
        for worker in team:
            children.append(worker.start())
        before = 0
        while True:
            now = finished()
            progress(f"{len(children)} workers", now - before)
            before = now
            for number, (worker, child) in enumerate(zip(team, children, strict=True)):
                if child.poll() == DeviceLostError.exit_code and not worker.restarted:
                    worker.restarted = True
                    children[number] = worker.start()
            if all(child.poll() is not None for child in children):
                break
            time.sleep(POLL_SECONDS)
    for worker, child in zip(team, children, strict=True):
        if child.returncode == DeviceLostError.exit_code:
            lost.append(worker)
            failures.append(
                f"{worker.place} failed twice: {_last_line(worker.log)}; its GPU is not used "
                f"again, and the other workers score its documents (log: {worker.log})"
            )
        elif child.returncode != 0:
            failures.append(
                f"{worker.place} {_how(child.returncode)}: {_last_line(worker.log)}; what it left "
                f"is done now (log: {worker.log})"
            )
        elif not worker.log.stat().st_size:
            worker.log.unlink()
    return Ended(tuple(failures), tuple(lost))


def worker_logs(workspace: Workspace, since: str, workers: int) -> list[Path]:
    """Files for the workers' error output; `since` is when their run began (ISO format)."""
    stamp = re.sub("[:+-]", "", since)
    folder = workspace.data / "logs"
    return [folder / f"extract-{stamp}-worker-{number}.log" for number in range(1, workers + 1)]


def _how(code: int) -> str:
    return f"was killed (signal {-code})" if code < 0 else f"failed (exit code {code})"


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no message in its log"


@contextmanager
def _stopped_with_us(children: Sequence[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Whatever ends this process ends the children, also those that are started inside.

    They finish storing what they computed; who has not ended by then, or when we are interrupted
    again, is killed.
    """
    with sigterm_interrupts():
        try:
            yield
        except BaseException:
            try:
                for child in children:
                    # not SIGINT: what a script starts with `&` ignores it, and so do its children
                    child.terminate()
                until = time.monotonic() + GRACE_SECONDS
                for child in children:
                    with suppress(subprocess.TimeoutExpired):
                        child.wait(max(0.0, until - time.monotonic()))
            finally:
                for child in children:
                    child.kill()
                    child.wait()
            raise


def share_work(
    context: click.Context,
    since: str,
    selection: Selection,
    sharing: Sharing,
    documents: list[Document],
) -> None:
    """Let workers do their models, under one progress bar; what they leave is done afterwards.

    What a lost GPU leaves is done by the others, and models that run over all GPUs run over those.

    Raises:
        DeviceLostError: all GPUs failed.
    """
    if sharing.each is not None:
        mine = {name for names in sharing.each for name in names}
        chosen = tuple(spec for spec in selection.models if spec.full_id in mine)
        selection = replace(selection, models=chosen)
    refuse_too_many(sharing.workers, selection)
    team = _team(context, since, sharing, selection)
    total = len(selection.models) * len(documents) * len(selection.conditions)
    lost: list[Worker] = []
    with progress_bar(total, "units") as progress:

        def finished() -> int:
            return count_finished(selection, documents)

        while team:
            ended = run_workers(team, finished, progress)
            print_lines("warning", ended.failures)
            lost += ended.lost
            # the healthy workers went past the documents that the lost ones had claimed
            team = [worker for worker in team if worker not in lost] if ended.lost else []
            if ended.lost and not team:
                places = ", ".join(worker.place for worker in lost)
                raise DeviceLostError(
                    f"all failed: {places}; nothing was recorded as failed: see the logs above, "
                    "then run the same command again"
                )
        if lost and selection.device != "cpu":
            healthy = _without_lost(lost, sharing.workers, selection.device)
            rest = Worker(_arguments(context, since), healthy, lost[0].log, "what is left")
            print_lines("warning", run_workers([rest], finished, progress).failures)


def _arguments(context: click.Context, since: str, models: Sequence[str] = ()) -> list[str]:
    values = {**context.params, "models": tuple(models)} if models else context.params
    return [*worker_arguments(context.command, values), "--as-worker", since]


def _team(
    context: click.Context, since: str, sharing: Sharing, selection: Selection
) -> list[Worker]:
    """A worker for each process that has models."""
    team = []
    shares = zip(
        sharing.each or ((),) * sharing.workers,
        worker_environments(sharing.workers, selection.device),
        worker_logs(selection.workspace, since, sharing.workers),
        strict=True,
    )
    for number, (names, environment, log) in enumerate(shares, 1):
        if not names and sharing.each is not None:
            continue
        gpus = [gpu for name, gpu in environment.items() if name.endswith("VISIBLE_DEVICES")]
        place = f"worker {number} (GPU {gpus[0]})" if gpus else f"worker {number}"
        team.append(Worker(_arguments(context, since, names), environment, log, place))
    return team


def _without_lost(lost: Sequence[Worker], workers: int, device: str) -> dict[str, str]:
    """Variables that show a process all GPUs but the lost ones."""
    gone = {value for worker in lost for value in worker.environment.values()}
    shown: dict[str, list[str]] = {}
    for environment in worker_environments(workers, device):
        for name, gpu in environment.items():
            if gpu not in gone and gpu not in shown.setdefault(name, []):
                shown[name].append(gpu)
    return {name: ",".join(gpus) for name, gpus in shown.items()}


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """SIGTERM interrupts as Ctrl-C does while this lasts, so that children are ended with us."""
    if threading.current_thread() is not threading.main_thread():  # only it may set handlers
        yield
        return

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
