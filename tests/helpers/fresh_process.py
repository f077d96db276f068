"""Commands as processes of their own, quick to start: forked from a server without threads.

A fork of the test's own process would inherit the locks and half the threads of torch and Arrow.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from click.testing import CliRunner


def extract_as_process(path: Path) -> multiprocessing.process.BaseProcess:
    """Start `tokenmart extract` on a problem file, with this process's folder and environment."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "transformers", "fresh_process", "extract.extraction"])
    process = context.Process(target=_extract, args=(str(path), str(Path.cwd()), dict(os.environ)))
    process.start()
    return process


def eval_until_killed(words: Sequence[str], units: int) -> int:
    """Run `tokenmart eval`, killed when it has stored this number of units; returns the exit
    code.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "transformers", "fresh_process", "extract.extraction"])
    process = context.Process(
        target=_eval, args=(list(words), units, str(Path.cwd()), dict(os.environ))
    )
    process.start()
    process.join()
    return process.exitcode or 0


def _eval(words: list[str], units: int, folder: str, environment: Mapping[str, str]) -> None:
    from plugins.benchmarks.cli.eval import eval_command
    from plugins.benchmarks.harness import evaluation

    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    write, written = evaluation.write_unit, 0

    def write_or_die(*args: Any, **options: Any) -> None:
        nonlocal written
        if written == units:
            os.kill(os.getpid(), signal.SIGKILL)
        write(*args, **options)
        written += 1

    evaluation.write_unit = write_or_die
    os._exit(CliRunner().invoke(eval_command, words).exit_code)


def _extract(path: str, folder: str, environment: Mapping[str, str]) -> None:
    import torch

    from extract.cli import extract

    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    torch.set_num_threads(1)
    os._exit(CliRunner().invoke(extract, ["--problem", path, "--device", "cpu"]).exit_code)
