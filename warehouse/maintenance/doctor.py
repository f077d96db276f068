"""Check the environment: versions, devices, memory and disk."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from importlib import metadata
from importlib.util import find_spec
from typing import NamedTuple

import psutil

from warehouse.errors import first_line
from warehouse.paths import Workspace

OPTIONAL_PACKAGES = {
    "torch": "'tokenmart[extract]' to run models",
    "transformers": "'tokenmart[extract]' to run models",
    "scipy": "'tokenmart[report]' to correlate",
}
"""What a light installation, which queries and builds, lacks → the extra that installs it."""
REQUIRED_PACKAGES = ("duckdb", "dbt-core", "dbt-duckdb", "pyarrow")
LEAST_FREE_BYTES = 2_000_000_000


class Check(NamedTuple):
    """One finding; doctor fails if something needed is not there."""

    name: str
    finding: str
    is_missing: bool = False


def examine(workspace: Workspace) -> list[Check]:
    """All checks, in the order they are shown."""
    checks = [Check("Python", f"{sys.version.split()[0]} at {sys.executable}")]
    for name in (*OPTIONAL_PACKAGES, *REQUIRED_PACKAGES):
        try:
            checks.append(Check(name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            needed = name in REQUIRED_PACKAGES
            hint = "" if needed else f": pip install {OPTIONAL_PACKAGES[name]}"
            checks.append(Check(name, f"not installed{hint}", needed))
    if find_spec("torch") is not None:
        checks += devices()
    memory = psutil.virtual_memory()
    free = f"{memory.available / 1e9:.1f} of {memory.total / 1e9:.1f} GB free"
    return [*checks, Check("memory", free), _disk(workspace)]


def devices() -> list[Check]:
    """Each GPU that torch can use, or why there is none."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            import torch

            count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        except Exception as error:  # a torch whose libraries don't fit raises whatever they do
            return [Check("device", f"torch does not start ({first_line(error)})", True)]
    if count:
        return list(map(_gpu, range(count)))
    for warning in warned:  # such as a driver that is too old for this build of torch
        if "CUDA" in str(warning.message):
            return [Check("device", f"no GPU can be used: {warning.message}", True)]
    if torch.backends.mps.is_available():
        return [Check("device", "Apple GPU (mps)")]
    return [Check("device", f"no GPU, {os.cpu_count()} cores")]


def _gpu(number: int) -> Check:
    import torch

    name = torch.cuda.get_device_name(number)
    try:
        free, total = torch.cuda.mem_get_info(number)
    except RuntimeError as error:
        return Check(f"GPU {number}", f"{name} can't be used ({first_line(error)})", True)
    return Check(f"GPU {number}", f"{name}, {free / 2**30:.1f} of {total / 2**30:.1f} GiB free")


def _disk(workspace: Workspace) -> Check:
    folder = next(each for each in (workspace.data, *workspace.data.parents) if each.exists())
    free = shutil.disk_usage(folder).free
    if not os.access(folder, os.W_OK):
        return Check("disk", f"{folder} is not writable; set TOKENMART_DATA to another", True)
    return Check("disk", f"{free / 1e9:.1f} GB free at {workspace.data}", free < LEAST_FREE_BYTES)
