"""Which device, which dtype and which attention."""

from __future__ import annotations

import os
import platform
import re
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from packaging.version import Version

from warehouse.errors import TokenmartError
from warehouse.problem.models import ModelSpec

DRIVERS = ("/proc/driver/nvidia", "/dev/kfd", "/dev/dxg")
"""Device files of GPU drivers: NVIDIA's, AMD's, that of Windows under WSL2."""


def resolve_device(asked: str) -> str:
    """`auto` → the first GPU (all of them for several), else the processor.

    Raises:
        TokenmartError: a device that is not here.
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
    if asked.startswith("cuda") and not torch.cuda.is_available():
        raise TokenmartError(
            f"--device {asked}: no CUDA device here; use --device cpu, or see `tokenmart doctor`"
        )
    try:
        if asked != "auto-map":
            torch.empty(0, device=asked)
    except (AssertionError, RuntimeError) as error:  # the first from a torch built without it
        raise TokenmartError(
            f"--device {asked}: not a device here; use auto, cpu, cuda, cuda:0 or auto-map"
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
        TokenmartError: a word that is no device anywhere.
    """
    if asked == "auto":
        return likely_device(), True
    if not re.fullmatch(r"cpu|mps|auto-map|(cuda|xpu)(:\d+)?", asked):
        raise TokenmartError(
            f"--device {asked}: not a device; use auto, cpu, cuda, cuda:0 or auto-map"
        )
    try:
        return resolve_device(asked), True
    except TokenmartError:
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

    Args:
        spec: the model of the problem file.
        asked: a torch dtype's name, or `auto`.
        device: from `resolve_device`.
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


def resolve_attention(asked: str | None, device: str) -> str | None:
    """The attention implementation to load models with; None leaves it to the backend.

    Raises:
        TokenmartError: FlashAttention 2 or 3 where it can't run.
    """
    if asked in ("flash_attention_2", "flash_attention_3"):
        from transformers.utils import is_flash_attn_2_available, is_flash_attn_3_available

        second = asked == "flash_attention_2"
        there = is_flash_attn_2_available() if second else is_flash_attn_3_available()
        if not device.startswith(("cuda", "auto-map")) or not there:
            package = "flash-attn" if second else "flash-attn-3 (flash_attn_interface)"
            raise TokenmartError(
                f"--attention {asked}: needs a CUDA device (here: {device}) and the {package} "
                "package; leave --attention out: SDPA has flash kernels of its own"
            )
    return asked
