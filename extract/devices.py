"""Devices: which one is used and in which dtype, their memory, and what GPUs can do."""

from __future__ import annotations

import contextlib
import gc
import os
import platform
import re
import resource
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

from warehouse.errors import TokenmartError, first_line
from warehouse.problem.models import ModelSpec

if TYPE_CHECKING:
    import torch

DRIVERS = ("/proc/driver/nvidia", "/dev/kfd", "/dev/dxg")
"""Device files of GPU drivers: NVIDIA's, AMD's, that of Windows under WSL2."""


def resolve_device(asked: str) -> str:
    """`auto` → the first GPU (all of them for several), else the processor.

    Raises:
        TokenmartError: a device that is not here (code `no-device`).
        ModuleNotFoundError: a light installation, which runs no models.
    """
    if find_spec("torch") is None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")
    if asked == "cpu":
        return asked
    _grow_segments()
    import torch

    if asked == "auto":
        if torch.cuda.is_available():
            return "cuda" if torch.cuda.device_count() == 1 else "auto-map"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        if asked != "auto-map":
            torch.empty(0, device=asked)
    except (AssertionError, RuntimeError) as error:  # the first from a torch built without it
        raise TokenmartError(
            f"--device {asked}: not a device of this machine ({first_line(error)}); use auto, cpu, "
            "cuda, cuda:0 or auto-map, and see `tokenmart doctor`",
            code="no-device",
            where="--device",
        ) from error
    return asked


def _grow_segments() -> None:
    """Let a GPU's allocator grow its segments, unless the user set it up: documents of different
    lengths leave gaps between segments of fixed size, until a text that would fit doesn't.
    """
    names = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
    if sys.platform == "linux" and not any(name in os.environ for name in names):
        # the second name is that of torch 2.9 and later, which warn of the first
        newer = Version(version("torch")) >= Version("2.9")
        os.environ[names[newer]] = "expandable_segments:True"


def device_name(device: str) -> str:
    """The driver's name of this machine's GPU (the first of several); empty for other devices."""
    import torch

    if not device.startswith(("cuda", "auto-map")) or not torch.cuda.is_available():
        return ""
    return str(torch.cuda.get_device_name(_number(device)))


def _number(device: str) -> int:
    return int(device.partition(":")[2] or 0)


def free_gpus(device: str) -> list[int]:
    """Free bytes of the GPUs of a device: the one that is meant, or all of a device map."""
    import torch

    chosen = [_number(device)]
    if device == "auto-map":
        chosen = list(range(torch.cuda.device_count()))
    return [int(torch.cuda.mem_get_info(number)[0]) for number in chosen]


def planned_device(asked: str) -> tuple[str, bool]:
    """The device a plan is made for, and whether it is here: a plan needs no device.

    Raises:
        TokenmartError: not the name of any device (code `no-device`).
    """
    if asked == "auto":
        return likely_device(), True
    try:
        return resolve_device(asked), True
    except TokenmartError:
        if not re.fullmatch(r"mps|(cuda|xpu)(:\d+)?", asked):
            raise
        return asked, False


def likely_device() -> str:
    """The likely value of `auto`; imports torch, which is slow, only if there may be a GPU."""
    apple = (sys.platform, platform.machine()) == ("darwin", "arm64")
    if apple or any(Path(driver).exists() for driver in DRIVERS):
        return resolve_device("auto")
    return "cpu"


def resolve_dtype(spec: ModelSpec, asked: str, device: str) -> str:
    """The dtype to compute in: the command line's, the model's, or the device's default.

    The default is float32 on a processor, so that results don't depend on which one it is, and
    bfloat16 on a GPU, as weights are published (float16 where a GPU has no bfloat16). Torch, slow
    to import, is asked only about GPUs.

    `asked` is a torch dtype's name, or `auto`.
    """
    wanted = asked if asked != "auto" else spec.dtype
    if wanted != "auto":
        return wanted
    if device == "cpu":
        return "float32"
    import torch

    if device == "auto-map" and not torch.cuda.is_available():
        return "float32"
    if device.startswith(("cuda", "auto-map")) and torch.cuda.is_available():
        # older cards emulate it in float32, which is neither fast nor bfloat16
        native = torch.cuda.is_bf16_supported(including_emulation=False)
        return "bfloat16" if native else "float16"
    return "bfloat16"


def free_bytes(device: torch.device) -> int:
    """Free memory of a GPU: free for all processes, and reserved but unused by our allocator."""
    import torch

    free, _ = torch.cuda.mem_get_info(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(free) + int(unused)


def free_unused() -> None:
    """Return memory that nothing refers to, to the host and to other users of the GPUs."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


class PeakMemory:
    """Peak memory since `reset`: of the GPUs' allocators, else of the process, in bytes."""

    def __init__(self, device: str) -> None:
        self.gpus = range(0)
        if device.startswith(("cuda", "auto-map")):
            import torch

            self.gpus = range(torch.cuda.device_count())

    def reset(self) -> None:
        """Reset; on Linux the kernel's high-water mark of this process is cleared."""
        if self.gpus:
            import torch

            for number in self.gpus:
                torch.cuda.reset_peak_memory_stats(number)
            return
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")

    def reserved_bytes(self) -> int:
        """Peak memory reserved by the GPUs' allocators, unused parts included; 0 without a GPU."""
        if not self.gpus:
            return 0
        import torch

        return sum(int(torch.cuda.max_memory_reserved(number)) for number in self.gpus)

    def bytes(self) -> int:
        """The peak."""
        if self.gpus:
            import torch

            return sum(int(torch.cuda.max_memory_allocated(number)) for number in self.gpus)
        with contextlib.suppress(OSError, IndexError, ValueError):
            status = Path("/proc/self/status").read_text()
            return int(status.split("VmHWM:")[1].split()[0]) * 1024
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        # macOS counts in bytes, Linux and the BSDs in KiB
        return peak if sys.platform == "darwin" else peak * 1024


PEAK_TFLOPS = {
    "b200": (2250, 80),
    "h200": (989, 67),
    "gh200": (989, 67),
    "h100 nvl": (835, 60),
    "h100 pcie": (756, 51),
    "h100": (989, 67),
    "a100": (312, 19.5),
    "l40s": (362, 91),
    "l40": (181, 90),
    "6000 ada": (364, 91),
    "a40": (150, 37),
    "a6000": (155, 39),
    "5090": (209, 105),
    "4090": (165, 83),
    "3090": (71, 36),
    "a10": (125, 31),
    "l4": (121, 30),
    "a30": (165, 10),
    "4080": (97, 49),
    "v100": (112, 15.7),
    "t4": (65, 8),
    "mi300x": (1307, 163),
    "mi250x": (192, 48),
}
"""Words of the name that a GPU's driver reports → dense matrix products in 10¹² FLOP/s: in bfloat16
or float16, and in float32 without TF32 (data sheets). The first match counts."""


def peak_flops(name: str, dtype: str) -> float | None:
    """Peak FLOP/s of the GPU that a driver calls so, such as `NVIDIA H100 80GB HBM3`.

    None for a GPU that is not in the table.
    """
    words = name.lower().replace("-", " ").split()
    for card, (half, single) in PEAK_TFLOPS.items():
        # whole words: an A100 is no A10
        if all(word in words for word in card.split()):
            return (single if dtype == "float32" else half) * 1e12
    return None


def available_memory(device: str) -> int:
    """Bytes that a model may take: free ones of the GPU (for a device map of all GPUs, and the
    host's), or all of the host's.
    """
    import psutil

    host = int(psutil.virtual_memory().total)
    if not device.startswith(("cuda", "auto-map")):
        return host
    free = free_gpus(device)
    return sum(free) + host if device == "auto-map" else max(free, default=0)
