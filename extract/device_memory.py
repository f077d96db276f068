"""Memory of models: released between them, and its peak."""

from __future__ import annotations

import contextlib
import gc
import sys
import warnings
from pathlib import Path

from warehouse.peak_memory import peak_bytes


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


LEFT_BEHIND = 256 * 2**20
"""Bytes on a GPU that the matrix libraries keep as their workspaces."""


def release_memory() -> None:
    """Release memory of the previous model: to the host, and to other users of the GPU.

    Warns when more than workspaces stays allocated on a GPU: something still refers to the model.
    """
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return
    torch.cuda.empty_cache()
    for number in range(torch.cuda.device_count()):
        left = int(torch.cuda.memory_allocated(number))
        if left > LEFT_BEHIND:
            warnings.warn(
                f"GPU {number}: {left / 2**30:.1f} GiB of the model before are still taken",
                RuntimeWarning,
                stacklevel=2,
            )


class PeakMemory:
    """Peak memory since `reset`: of the GPUs' allocators, else of the process, in bytes."""

    def __init__(self, device: str) -> None:
        self.gpu = device.startswith("cuda") or (device == "auto-map" and _has_gpu())

    def reset(self) -> None:
        """Reset; on Linux the kernel's high-water mark of this process is cleared."""
        if self.gpu:
            import torch

            for number in range(torch.cuda.device_count()):
                torch.cuda.reset_peak_memory_stats(number)
            return
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")

    def reserved_bytes(self) -> int:
        """Peak memory reserved by the GPUs' allocators, unused parts included; 0 without a GPU."""
        if not self.gpu:
            return 0
        import torch

        return sum(int(torch.cuda.max_memory_reserved(n)) for n in range(torch.cuda.device_count()))

    def bytes(self) -> int:
        """The peak."""
        if self.gpu:
            import torch

            devices = range(torch.cuda.device_count())
            return sum(int(torch.cuda.max_memory_allocated(number)) for number in devices)
        with contextlib.suppress(OSError, IndexError, ValueError):
            status = Path("/proc/self/status").read_text()
            return int(status.split("VmHWM:")[1].split()[0]) * 1024
        return peak_bytes()
