"""Several processes for one extraction: one per GPU, or each with a part of the processor's cores.

Workers share nothing but the folder: each goes through all models and takes the unclaimed
documents. The parent shows the progress in the ledger. What a dead worker had claimed is free for
another worker, or for the parent when all have ended. So is a model that a worker could not load,
and a document for which it had no memory: only the parent, who comes last, records them as failed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from extract.devices import available_memory, free_gpus
from extract.failures import DeviceLostError, print_lines
from extract.planning.cost import planned_memory, refuse_too_large
from extract.planning.documents import PlannedDocument
from extract.planning.selection import Selection, document_lengths
from extract.planning.status import count_finished
from extract.planning.tables import Plan
from warehouse.child_process import inherited, python_module
from warehouse.files import storage_errors
from warehouse.problem.models import ModelSpec
from warehouse.progress import Progress, progress_bar

POLL_SECONDS = 1.0

GRACE_SECONDS = 60.0
"""Seconds that a stopped worker has for storing what it computed."""


def fitting_models(plan: Plan, device: str) -> tuple[ModelSpec, ...]:
    """Models with work left that fit on every GPU of a device; not one of unknown size."""
    least = min(free_gpus(device), default=0)
    return tuple(
        model.spec
        for model in plan.models
        if model.left > 0 and model.memory and model.memory.reserved <= least
    )


def gpu_workers(plan: Plan, device: str) -> int:
    """One worker per GPU where models fit on every GPU, else one.

    Workers leave the other models to their parent, which spreads them over all GPUs.
    """
    return len(free_gpus(device)) if fitting_models(plan, device) else 1


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
    """A child process.

    Attributes:
        arguments: of the command line.
        environment: added to this process's own.
        log: for its standard error; an empty one is removed.
        label: what it is called in messages.
    """

    arguments: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    label: str

    def start(self) -> subprocess.Popen[bytes]:
        """Start it.

        Raises:
            StorageError: its log can't be written.
        """
        with storage_errors(self.log):
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with self.log.open("wb") as errors:
                return subprocess.Popen(
                    [*python_module("tokenmart"), *self.arguments],
                    env={**inherited(), **self.environment},
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                )

    def outcome(self, code: int) -> str:
        """Why a worker with this exit code failed, in one line; empty if it didn't."""
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        if code == 0:
            if not lines:
                self.log.unlink()
            return ""
        how = f"was killed (signal {-code})" if code < 0 else f"failed (exit code {code})"
        last = lines[-1].strip() if lines else "no message"
        return f"{self.label} {how}: {last} (log: {self.log})"


def run_workers(
    team: Sequence[Worker], finished: Callable[[], int], progress: Progress
) -> list[int]:
    """Run workers to their end, showing the progress that the ledger records.

    `finished` counts the finished units.

    Returns:
        Exit codes of the workers.

    Raises:
        StorageError: a log can't be written.
    """
    children: list[subprocess.Popen[bytes]] = []
    with _stopped_with_us(children):
        for worker in team:
            children.append(worker.start())
        before, running = 0, True
        while running:
            running = any(child.poll() is None for child in children)
            now = finished()
            progress(f"{len(children)} workers", now - before)
            before = now
            if running:
                time.sleep(POLL_SECONDS)
    return [child.returncode for child in children]


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
    since: str,
    selection: Selection,
    workers: int,
    documents: list[PlannedDocument],
) -> None:
    """Let workers score the documents, under one progress bar.

    Raises:
        TokenmartError: the workers' copies of a model don't fit into memory side by side.
        DeviceLostError: a GPU failed. The other workers did all but what it had claimed.
    """
    if selection.device == "cpu":
        longest = max(document_lengths(selection)[0], default=0)
        for spec in selection.models:
            if peak := planned_memory(selection, spec, longest):
                refuse_too_large(spec, peak, "cpu", available_memory("cpu"), workers)
    # the running command line, which ends with this option
    arguments = [*sys.argv[1:], "--as-worker", since]
    team = []
    environments = worker_environments(workers, selection.device)
    for number, environment in enumerate(environments, 1):
        log = selection.workspace.data / "logs" / f"extract-{os.getpid()}-worker-{number}.log"
        gpus = [gpu for name, gpu in environment.items() if name.endswith("VISIBLE_DEVICES")]
        label = f"worker {number} (GPU {gpus[0]})" if gpus else f"worker {number}"
        team.append(Worker(arguments, environment, log, label))
    total = len(selection.models) * len(documents) * len(selection.conditions)
    with progress_bar(total, "units") as progress:
        codes = run_workers(team, lambda: count_finished(selection, documents, since), progress)
    ended = list(zip(team, codes, strict=True))
    print_lines("warning", filter(None, [worker.outcome(code) for worker, code in ended]))
    lost = [worker.label for worker, code in ended if code == DeviceLostError.exit_code]
    if lost:
        raise DeviceLostError(
            f"a GPU failed: {', '.join(lost)}; nothing was recorded as failed: run the same "
            "command again, and leave this GPU out with CUDA_VISIBLE_DEVICES if it fails again",
            where=", ".join(lost),
        )


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
