"""Whether the GPUs of this machine can be used: driver, build of torch, cards, packages."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from warehouse.child_process import NOT_FROM_HERE
from warehouse.store.provenance import versions

DEVICE_TIMEOUT_SECONDS = 120
DRIVER_VERSION = Path("/proc/driver/nvidia/version")
NEEDED_DRIVERS = {11: 450, 12: 525, 13: 580}
"""Oldest NVIDIA driver for each major version of CUDA (NVIDIA's table of minor compatibility)."""

NATIVE_BF16 = (8, 0)
"""Compute capability from which bfloat16 is computed and not emulated in float32."""

BUSY_SHARE = 0.1
"""A card is named if other processes use more than this share of its memory."""

FLASH_PACKAGES = ("flash-attn", "flash-attn-3")
OTHER_TORCH = (
    "install a build of torch for an older CUDA into .venv (pytorch.org, 'Get started', names the "
    "command for each version)"
)

_PROBE = """
import json, warnings
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    import torch
    from torch.backends import mps
    there = torch.cuda.is_available()
    gpus = []
    for i in range(torch.cuda.device_count()) if there else ():
        found = torch.cuda.get_device_properties(i)
        try:
            free = torch.cuda.mem_get_info(i)[0]
        except RuntimeError as error:
            free = str(error).splitlines()[0]
        gpus.append([found.name, found.total_memory, free, [found.major, found.minor]])
print(json.dumps({
    "gpus": gpus,
    "mps": mps.is_available(),
    "torch": torch.__version__,
    "cuda": getattr(getattr(torch, "version", None), "cuda", None),
    "hip": getattr(getattr(torch, "version", None), "hip", None),
    "archs": torch.cuda.get_arch_list() if there else [],
    "said": [str(each.message) for each in said if "CUDA" in str(each.message)],
    "bf16": bool(getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)()),
}))
"""


def gpu_checks() -> list[Check]:
    """The device that `--device auto` takes, each GPU, and what its kernels need.

    Torch is asked in another process: importing it here would slow everything down.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-c", NOT_FROM_HERE + _PROBE],
            capture_output=True,
            text=True,
            timeout=DEVICE_TIMEOUT_SECONDS,
            check=True,
        )
        found = json.loads(done.stdout)
    except (subprocess.SubprocessError, ValueError) as error:
        stderr = getattr(error, "stderr", None) or str(error)
        reason = stderr.strip().splitlines()[-1][:120]
        return [Check("device", "missing", f"torch does not start ({reason})", "make setup")]
    if found["gpus"]:
        return [*(_card(n, each, found) for n, each in enumerate(found["gpus"])), _flash()]
    if (unused := _unused_driver(found)) is not None:
        return [unused]
    if found["mps"]:
        return [Check("device", "ok", "Apple GPU (mps)")]
    bf16 = "bf16" if found["bf16"] else "no bf16 instructions"
    remedy = "small problems run here (make demo); extract large models on a GPU machine"
    return [Check("device", "note", f"no GPU, {os.cpu_count()} cores, {bf16}", remedy)]


def _card(number: int, card: list[Any], found: dict[str, Any]) -> Check:
    name, total, free, capability = card
    what = f"GPU {number}"
    if isinstance(free, str):
        remedy = f"reset it, or leave it out: CUDA_VISIBLE_DEVICES without {number}"
        return Check(what, "missing", f"{name} can't be used ({free[:120]})", remedy)
    generation = ".".join(map(str, capability))
    finding = (
        f"{name}, {free / 2**30:.1f} of {total / 2**30:.1f} GiB free, compute capability "
        f"{generation}"
    )
    if found["hip"]:
        return Check(what, "ok", finding)
    oldest = min((int(arch[3:]) for arch in found["archs"] if arch[3:].isdigit()), default=0)
    if 10 * capability[0] + capability[1] < oldest:
        built = f"torch {found['torch']} is built for {oldest / 10:.1f} and newer"
        return Check(what, "missing", f"{finding}; {built}", OTHER_TORCH)
    if tuple(capability) < NATIVE_BF16:
        remedy = "use --dtype float16 (the default there) or float32; a newer card for bfloat16"
        return Check(what, "note", f"{finding}; bfloat16 would be emulated", remedy)
    if free < (1 - BUSY_SHARE) * total:
        remedy = "end the programs that use its memory (nvidia-smi lists them); plans use the rest"
        return Check(what, "note", f"{finding}: other programs use the rest", remedy)
    return Check(what, "ok", finding)


def _unused_driver(found: dict[str, Any]) -> Check | None:
    """An NVIDIA driver that this torch can't use; None where there is none."""
    driver = nvidia_driver()
    said = found["said"][0].split(". ")[0][:160] if found["said"] else ""
    if not driver and not said:
        return None
    here = f"NVIDIA driver {driver}" if driver else said
    if found["cuda"] is None and not said:
        return Check(
            "device", "missing", f"{here}, but torch {found['torch']} is a build for processors",
            "install a build of torch for CUDA into .venv (pytorch.org, 'Get started')",
        )  # fmt: skip
    cuda = str(found["cuda"] or "of a newer version")
    needed = NEEDED_DRIVERS.get(int(cuda.split(".")[0])) if cuda[0].isdigit() else None
    newest = "" if needed is None else f", which needs driver {needed} or newer"
    finding = f"no GPU can be used: {here}; torch {found['torch']} is built for CUDA {cuda}{newest}"
    return Check("device", "missing", finding, f"update the driver, or {OTHER_TORCH}")


def nvidia_driver() -> str:
    """Version of the NVIDIA driver; empty without one."""
    try:
        stated = re.search(r"\b(\d{3,}(?:\.\d+)+)", DRIVER_VERSION.read_text())
        if stated:
            return stated[1]
    except OSError:
        pass
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    query = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return next(iter(done.stdout.split()), "")


def _flash() -> Check:
    installed = [
        f"{name} {version}"
        for name, version in versions(FLASH_PACKAGES).items()
        if name in FLASH_PACKAGES
    ]
    finding = ", ".join(installed) or "no package, and none is needed: SDPA has flash kernels"
    return Check("FlashAttention", "ok", finding)


Level = Literal["ok", "note", "missing"]


@dataclass(frozen=True)
class Check:
    """One finding; `missing` means something needed is not there, and makes doctor fail."""

    name: str
    level: Level
    finding: str
    remedy: str = ""
