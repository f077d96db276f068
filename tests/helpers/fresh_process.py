"""Extractions as processes of their own, quick to start: forked from a server without threads.

A fork of the test's own process would inherit the locks and half the threads of torch and Arrow.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping
from pathlib import Path

from click.testing import CliRunner


def extract_as_process(path: Path) -> multiprocessing.process.BaseProcess:
    """Start `tokenmart extract` on a problem file, with this process's folder and environment."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "transformers", "fresh_process", "extract.run"])
    process = context.Process(target=_extract, args=(str(path), str(Path.cwd()), dict(os.environ)))
    process.start()
    return process


def _extract(path: str, folder: str, environment: Mapping[str, str]) -> None:
    import torch

    from extract.cli import extract

    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    torch.set_num_threads(1)
    os._exit(CliRunner().invoke(extract, ["--problem", path, "--device", "cpu"]).exit_code)
