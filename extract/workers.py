"""Further processes of one extraction: their commands, their share of the machine, their end.

Workers share nothing but the folder: each goes through all models and takes the documents that
nobody has claimed. The parent shows what the ledger says, and afterwards does what a worker
that failed has left.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from extract.sigterm import sigterm_interrupts
from warehouse.errors import visible
from warehouse.files import storage_errors
from warehouse.paths import Workspace
from warehouse.progress import Progress, progress_bar

if TYPE_CHECKING:
    from extract.planning.plan import Document, Selection
    from extract.planning.sharing import Sharing
    from warehouse.problem.spec import Problem

OWN_TO_PARENT = ("workers", "dry_run", "as_worker", "on", "address", "slurm")
POLL_SECONDS = 1.0
GRACE_SECONDS = 60.0
"""What a worker that is told to stop has for storing what it computed."""


def worker_arguments(command: click.Command, values: Mapping[str, Any]) -> list[str]:
    """The command line of a worker: this command's options, those that only concern it left out.

    Args:
        command: the command that is running.
        values: its parameters by name, as click gives them.
    """
    arguments = [command.name or ""]
    for parameter in command.params:
        value = values.get(parameter.name or "")
        if parameter.name in OWN_TO_PARENT or value in (None, False, ()):
            continue
        option = parameter.opts[0]
        if value is True:
            arguments.append(option)
        else:
            for each in value if isinstance(value, tuple) else (value,):
                arguments += [option, str(each)]
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


def run_workers(
    arguments: Sequence[str],
    environments: Sequence[Mapping[str, str]],
    logs: Sequence[Path],
    finished: Callable[[], int],
    progress: Progress,
) -> list[str]:
    """Run workers to their end, showing what the ledger says meanwhile.

    Args:
        arguments: of each worker, from `worker_arguments`.
        environments: one per worker, added to this process's own.
        logs: one file per worker, for its standard error; an empty one is removed.
        finished: counts the finished units.
        progress: of the parent.

    Returns:
        One line for each worker that failed: how, its last line, where its log is.

    Raises:
        StorageError: a log can't be written.
    """
    command = [sys.executable, "-m", "tokenmart", *arguments]
    children: list[subprocess.Popen[bytes]] = []
    with _stopped_with_us(children):
        for log, environment in zip(logs, environments, strict=True):
            children.append(_start(command, environment, log))
        label = f"{len(children)} workers"
        before = finished()
        progress(label, before)
        while any(child.poll() is None for child in children):
            time.sleep(POLL_SECONDS)
            now = finished()
            progress(label, now - before)
            before = now
    failures = [
        f"worker {number} {_how(child.returncode)}: {_last_line(log)}; what it left is done now "
        f"(log: {log})"
        for number, (child, log) in enumerate(zip(children, logs, strict=True), 1)
        if child.returncode != 0
    ]
    for child, log in zip(children, logs, strict=True):
        if child.returncode == 0 and not log.stat().st_size:
            log.unlink()
    return failures


def _start(
    command: Sequence[str], environment: Mapping[str, str], log: Path
) -> subprocess.Popen[bytes]:
    with storage_errors(log):
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as errors:
            return subprocess.Popen(
                command,
                env={**os.environ, **environment},
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )


def worker_logs(workspace: Workspace, since: str, workers: int) -> list[Path]:
    """Where the workers of the run that started at this time (ISO format) write their errors."""
    stamp = "".join(character for character in since if character not in ":-+")
    folder = workspace.data / "logs"
    return [folder / f"extract-{stamp}-worker-{number}.log" for number in range(1, workers + 1)]


def _how(code: int) -> str:
    return f"was killed (signal {-code})" if code < 0 else f"failed (exit code {code})"


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"


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
                _wait(children, GRACE_SECONDS)
            finally:
                for child in children:
                    child.kill()
                    child.wait()
            raise


def _wait(children: Sequence[subprocess.Popen[bytes]], seconds: float) -> None:
    until = time.monotonic() + seconds
    for child in children:
        with suppress(subprocess.TimeoutExpired):
            child.wait(max(0.0, until - time.monotonic()))


def share_work(
    context: click.Context,
    since: str,
    problem: Problem,
    selection: Selection,
    sharing: Sharing,
    documents: list[Document],
    workspace: Workspace,
) -> None:
    """Let workers do their models, under one progress bar; what they leave is done afterwards."""
    from extract.planning.cost import refuse_too_many
    from extract.planning.tables import count_finished

    workers, values = sharing.workers, context.params
    if sharing.each is not None:
        chosen = tuple(spec for spec in selection.models if spec.full_id in sharing.each)
        selection = replace(selection, models=chosen)
        values = {**values, "models": sharing.each}
    refuse_too_many(workers, problem, selection, workspace)
    total = len(selection.models) * len(documents) * len(selection.conditions)
    with progress_bar(total, "units") as progress:
        failures = run_workers(
            [*worker_arguments(context.command, values), "--as-worker", since],
            worker_environments(workers, selection.device),
            worker_logs(workspace, since, workers),
            lambda: count_finished(problem, selection, documents, workspace),
            progress,
        )
    for failure in failures:
        click.echo(visible(f"warning: {failure}"), err=True)
