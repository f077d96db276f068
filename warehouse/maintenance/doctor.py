"""Check the environment: versions, devices, memory, disk, and the files that a problem needs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import psutil

from warehouse.child_process import NOT_FROM_HERE
from warehouse.metrics import dbt_process
from warehouse.paths import Workspace
from warehouse.problem.problem_files import problem_kind, read_problem_file
from warehouse.problem.required_files import (
    downloads_text,
    later_target,
    notices,
    required_files,
    scored_models,
)
from warehouse.problem.spec import FileTarget, Problem, load_problem
from warehouse.sources.folders import RequiredFile
from warehouse.sources.lock_file import changed, lock_path

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


def examine(workspace: Workspace, problem_name: str | None) -> list[Check]:
    """All checks, in the order they are shown.

    Raises:
        ProblemFileError: the named problem does not parse.
    """
    checks = [Check("Python", "ok", f"{sys.version.split()[0]} at {sys.executable}")]
    checks += map(_package, SHOWN_PACKAGES)
    if dbt_process.command() is None:
        checks.append(Check("dbt", "missing", "the dbt program was not found", "make setup"))
    if find_spec("torch") is not None:
        checks += devices()
    checks += [_memory(), _disk(workspace)]
    if problem_name is not None:
        other = problem_kind(problem_name, read_problem_file(problem_name, workspace), workspace)
        if other is not None:
            finding, remedy = other.missing()
            checks.append(Check("data", "missing" if remedy else "ok", finding, remedy))
        else:
            checks += _problem(load_problem(problem_name, workspace), workspace)
    return checks


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
    folder = _nearest_existing(workspace.data)
    free = shutil.disk_usage(folder).free
    finding = f"{free / 1e9:.1f} GB free at {workspace.data}"
    if not os.access(folder, os.W_OK):
        remedy = "make it writable or set TOKENMART_DATA"
        return Check("disk", "missing", f"{folder} is not writable", remedy)
    if free < LEAST_FREE_BYTES:
        remedy = "free some space or set TOKENMART_DATA to a larger disk"
        return Check("disk", "missing", f"{finding}, {LEAST_FREE_BYTES / 1e9:.0f} needed", remedy)
    return Check("disk", "ok", finding)


def _nearest_existing(path: Path) -> Path:
    """The path itself or its closest parent that exists."""
    return next(each for each in (path, *path.parents) if each.exists())


def _problem(problem: Problem, workspace: Workspace) -> Iterator[Check]:
    needs = required_files(problem, workspace)
    for need in needs:
        name = f"{need.kind}: {need.name}"
        if need.present:
            yield _kept(name, need, problem, workspace)
        elif need.kind == "target" and later_target(problem, workspace):
            finding = "not here yet; once it is, no metric can be preregistered"
            yield Check(name, "note", finding, f"preregister a claim first; then {need.remedy}")
        elif need.kind != "models":
            yield Check(name, "missing", f"not here ({need.source})", need.remedy)
    absent = [need for need in needs if need.kind == "models" and not need.present]
    if absent:
        finding = f"{len(absent)} not here: {', '.join(need.name for need in absent)}"
        remedy = f"tokenmart data fetch --problem {problem.argument} --only models"
        yield Check("models", "missing", finding, absent[0].remedy if len(absent) == 1 else remedy)
        yield from _downloads(absent, workspace)
    for subject, finding in notices(problem, problem.ranked_models).items():
        yield Check(subject, "note", finding)
    if problem.target is not None and not isinstance(problem.target, FileTarget):
        done, every = len(scored_models(problem, workspace)), len(problem.ranked_models)
        finding = f"scores of {done} of {every} models are here"
        verb = "recall" if problem.target.kind == "recall" else "data import"
        remedy = f"tokenmart {verb} --problem {problem.argument}"
        complete = done == every
        yield Check("target", "ok" if complete else "note", finding, "" if complete else remedy)


def _kept(name: str, need: RequiredFile, problem: Problem, workspace: Workspace) -> Check:
    """Files must equal their record of first use, if there is one."""
    path = Path(need.path)
    difference = changed(workspace, problem.name, path) if path.is_file() else ""
    if not difference:
        return Check(name, "ok", need.path)
    record = lock_path(workspace, problem.name)
    remedy = f"restore {path}, or remove its entry from {record} if the change is meant"
    return Check(name, "missing", difference, remedy)


def _downloads(absent: list[RequiredFile], workspace: Workspace) -> Iterator[Check]:
    """Whether the disk of the data takes the checkpoints still to be fetched, and their copies."""
    if finding := downloads_text(absent):
        wanted = sum((need.download_bytes or 0) + need.copy_bytes for need in absent)
        free = shutil.disk_usage(_nearest_existing(workspace.data)).free
        finding += f"; {free / 1e9:.1f} GB free at {workspace.data}"
        remedy = "set HF_HOME (downloads) and TOKENMART_DATA (converted copies) to a larger disk"
        short = free < wanted
        yield Check("downloads", "note" if short else "ok", finding, remedy if short else "")
