"""Commands as processes of their own, quick to start: forked from a server without threads.

A fork of the test's own process would inherit the locks and half the threads of torch and Arrow.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner


class Point(NamedTuple):
    """A moment in a process: just before the nth time that it renames or removes such a file.

    `event` is Python's audit event: `os.rename` (src, dst) or `os.remove` (path).
    """

    event: str
    file: str
    number: int


def extract_as_process(
    path: Path, killed: Point | None = None
) -> multiprocessing.process.BaseProcess:
    """Start `tokenmart extract` on a problem file, with this process's folder and environment."""
    return _start(_extract, str(path), killed)


def eval_until_killed(words: Sequence[str], units: int) -> int:
    """Run `tokenmart eval`, killed when it has stored this number of units; the exit code."""
    process = _start(_eval, list(words), Point("os.rename", "doc-", units + 1))
    process.join()
    return process.exitcode or 0


def _start(target: Any, *given: Any) -> multiprocessing.process.BaseProcess:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "transformers", "fresh_process", "extract.extraction"])
    process = context.Process(target=target, args=(*given, str(Path.cwd()), dict(os.environ)))
    process.start()
    return process


def _enter(folder: str, environment: Mapping[str, str], killed: Point | None) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    seen = 0

    def kill(event: str, arguments: Any) -> None:
        nonlocal seen
        if killed is not None and event == killed.event:
            path = str(arguments[1 if event == "os.rename" else 0])
            seen += Path(path).name.startswith(killed.file)
            if seen == killed.number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(kill)


def _eval(words: list[str], killed: Point, folder: str, environment: Mapping[str, str]) -> None:
    from plugins.benchmarks.cli.eval import eval_command

    _enter(folder, environment, killed)
    os._exit(CliRunner().invoke(eval_command, words).exit_code)


def _extract(path: str, killed: Point | None, folder: str, environment: Mapping[str, str]) -> None:
    import torch

    from extract.cli import extract

    _enter(folder, environment, killed)
    torch.set_num_threads(1)
    os._exit(CliRunner().invoke(extract, ["--problem", path, "--device", "cpu"]).exit_code)
