"""What a run is made of and what it takes: code revision, peak memory."""

from __future__ import annotations

import contextlib
import resource
import subprocess
from functools import cache
from pathlib import Path


@cache
def code_revision(root: Path) -> tuple[str, bool]:
    """Commit of the checkout and whether it has uncommitted changes; ("unknown", False) if none."""
    try:
        commit, state = (
            subprocess.run(
                ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True
            ).stdout.strip()
            for arguments in (
                ("rev-parse", "HEAD"),
                ("status", "--porcelain", "--untracked-files=no"),
            )
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown", False
    return commit, bool(state)


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


class PeakMemory:
    """Peak memory since `reset`: of the GPU's allocator, else of the process, in bytes."""

    def __init__(self, device: str) -> None:
        self.gpu = device.startswith("cuda") or (device == "auto-map" and _has_gpu())

    def reset(self) -> None:
        """Start anew; on Linux the kernel's high-water mark of this process is cleared."""
        if self.gpu:
            import torch

            torch.cuda.reset_peak_memory_stats()
            return
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")

    def bytes(self) -> int:
        """The peak."""
        if self.gpu:
            import torch

            return int(torch.cuda.max_memory_allocated())
        with contextlib.suppress(OSError, IndexError, ValueError):
            status = Path("/proc/self/status").read_text()
            return int(status.split("VmHWM:")[1].split()[0]) * 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
