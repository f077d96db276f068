"""Further processes of one extraction: which command, and which share of the machine."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def worker_commands(
    arguments: Sequence[str], workers: int, device: str
) -> list[tuple[list[str], dict[str, str]]]:
    """Commands and environments of `workers` child processes.

    On CUDA each worker sees one GPU, in turn; on a processor each takes its share of cores.

    Args:
        arguments: this process's `sys.argv`.
        workers: how many processes.
        device: the resolved device.
    """
    kept: list[str] = []
    skip = False
    for argument in arguments[1:]:
        if skip or argument.startswith("--workers="):
            skip = False
        elif argument == "--workers":
            skip = True
        else:
            kept.append(argument)
    command = [sys.executable, "-m", "tokenmart", *kept]
    if device == "cpu":
        import psutil

        cores = psutil.cpu_count(logical=False) or 1
        share = str(max(1, cores // workers))
        return [(command, {"OMP_NUM_THREADS": share}) for _ in range(workers)]
    import torch

    count = max(1, torch.cuda.device_count())
    return [(command, {"CUDA_VISIBLE_DEVICES": str(n % count)}) for n in range(workers)]
