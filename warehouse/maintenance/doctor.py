"""Check the environment: versions, devices, memory and disk."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from typing import Literal

import psutil

from warehouse.child_process import NOT_FROM_HERE
from warehouse.metrics import dbt_process
from warehouse.paths import Workspace

EXTRACTION_PACKAGES = ("torch", "transformers")
"""A light installation, which queries and builds, has none of them."""
SHOWN_PACKAGES = (*EXTRACTION_PACKAGES, "duckdb", "dbt-core", "dbt-duckdb", "pyarrow")
LEAST_FREE_BYTES = 2_000_000_000
LEAST_FREE_MEMORY_BYTES = 3_000_000_000
DEVICE_TIMEOUT_SECONDS = 120

_DEVICES = """
import json, warnings
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    import torch
    gpus = []
    for i in range(torch.cuda.device_count()) if torch.cuda.is_available() else ():
        try:
            free, total = torch.cuda.mem_get_info(i)
            wrong = ""
        except RuntimeError as error:
            free, total, wrong = 0, 0, str(error).splitlines()[0]
        gpus.append([torch.cuda.get_device_name(i), free, total, wrong])
print(json.dumps({
    "gpus": gpus,
    "mps": torch.backends.mps.is_available(),
    "warned": [str(each.message) for each in warned if "CUDA" in str(each.message)],
}))
"""


@dataclass(frozen=True)
class Check:
    """One finding; `missing` means something needed is not there, and makes doctor fail."""

    name: str
    level: Literal["ok", "note", "missing"]
    finding: str
    remedy: str = ""


def examine(workspace: Workspace) -> list[Check]:
    """All checks, in the order they are shown."""
    checks = [Check("Python", "ok", f"{sys.version.split()[0]} at {sys.executable}")]
    checks += map(_package, SHOWN_PACKAGES)
    if dbt_process.command() is None:
        checks.append(Check("dbt", "missing", "the dbt program was not found", "make setup"))
    if find_spec("torch") is not None:
        checks += devices()
    return [*checks, _memory(), _disk(workspace)]


def _package(name: str) -> Check:
    try:
        return Check(name, "ok", metadata.version(name))
    except metadata.PackageNotFoundError:
        if name not in EXTRACTION_PACKAGES:
            return Check(name, "missing", "not installed", "make setup")
    finding = "not installed; queries, builds and correlations need none"
    remedy = "to run models: pip install 'tokenmart[extract]' (in a checkout: make setup)"
    return Check(name, "note", finding, remedy)


def devices() -> list[Check]:
    """Each GPU that torch can use, or why there is none.

    Torch is asked in another process: importing it here would slow everything down.
    """
    command = [sys.executable, "-c", NOT_FROM_HERE + _DEVICES]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=DEVICE_TIMEOUT_SECONDS, check=True
        )
        found = json.loads(done.stdout)
    except (subprocess.SubprocessError, ValueError) as error:
        stderr = getattr(error, "stderr", None) or str(error)
        reason = stderr.strip().splitlines()[-1][:120]
        return [Check("device", "missing", f"torch does not start ({reason})", "make setup")]
    if found["gpus"]:
        return [_card(number, *card) for number, card in enumerate(found["gpus"])]
    if found["warned"]:  # such as a driver that is too old for this build of torch
        remedy = "update the driver, or install a build of torch for an older CUDA (pytorch.org)"
        return [Check("device", "missing", f"no GPU can be used: {found['warned'][0]}", remedy)]
    if found["mps"]:
        return [Check("device", "ok", "Apple GPU (mps)")]
    remedy = "small problems run here (make demo); extract large models on a GPU machine"
    return [Check("device", "note", f"no GPU, {os.cpu_count()} cores", remedy)]


def _card(number: int, name: str, free: int, total: int, wrong: str) -> Check:
    what = f"GPU {number}"
    if wrong:
        remedy = f"reset it, or leave it out: CUDA_VISIBLE_DEVICES without {number}"
        return Check(what, "missing", f"{name} can't be used ({wrong[:120]})", remedy)
    return Check(what, "ok", f"{name}, {free / 2**30:.1f} of {total / 2**30:.1f} GiB free")


def _memory() -> Check:
    memory = psutil.virtual_memory()
    finding = f"{memory.available / 1e9:.1f} of {memory.total / 1e9:.1f} GB free"
    if memory.available < LEAST_FREE_MEMORY_BYTES:
        return Check("memory", "note", finding, "close other programs: the demo needs about 3 GB")
    return Check("memory", "ok", finding)


def _disk(workspace: Workspace) -> Check:
    folder = next(each for each in (workspace.data, *workspace.data.parents) if each.exists())
    free = shutil.disk_usage(folder).free
    finding = f"{free / 1e9:.1f} GB free at {workspace.data}"
    if not os.access(folder, os.W_OK):
        remedy = "make it writable or set TOKENMART_DATA"
        return Check("disk", "missing", f"{folder} is not writable", remedy)
    if free < LEAST_FREE_BYTES:
        remedy = "free some space or set TOKENMART_DATA to a larger disk"
        return Check("disk", "missing", f"{finding}, {LEAST_FREE_BYTES / 1e9:.0f} needed", remedy)
    return Check("disk", "ok", finding)
