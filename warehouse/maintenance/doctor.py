"""Check the environment: what works, what is missing, and the exact remedy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from warehouse.errors import TokenmartError
from warehouse.maintenance.gpu_checks import Check, gpu_checks
from warehouse.metrics import dbt_process
from warehouse.paths import Workspace
from warehouse.problem.needs import (
    downloads_text,
    later_target,
    notices,
    problem_needs,
    scored_models,
)
from warehouse.problem.problem_files import problem_kind, read_problem_file
from warehouse.problem.spec import FileTarget, Problem, RecallTarget, load_problem
from warehouse.sources.lock_file import changed, lock_path
from warehouse.sources.place import Need
from warehouse.sources.tokenizer_files import check_sentencepiece

EXTRACTION_PACKAGES = ("torch", "transformers")
"""A light installation, which queries and builds, has none of them."""
SHOWN_PACKAGES = ("torch", "transformers", "duckdb", "dbt-core", "dbt-duckdb", "pyarrow")
LEAST_FREE_GB = 2.0


def examine(workspace: Workspace, problem_name: str | None) -> list[Check]:
    """All checks, in the order they are shown.

    Raises:
        ProblemFileError: the named problem does not parse.
    """
    runs_models = find_spec("torch") is not None
    gpus = gpu_checks() if runs_models else []
    checks = [_python(), *_packages(workspace), *gpus, _memory(), _disk(workspace)]
    checks += [_program("git", "code revisions can't be recorded"), _dbt(), _database(workspace)]
    if problem_name is not None:
        other = problem_kind(problem_name, read_problem_file(problem_name, workspace), workspace)
        if other is not None:
            finding, remedy = other.missing()
            checks.append(Check("data", "missing" if remedy else "ok", finding, remedy))
        else:
            checks += _problem(load_problem(problem_name, workspace), workspace)
    return checks


def _python() -> Check:
    return Check("Python", "ok", f"{sys.version.split()[0]} at {sys.executable}")


def _packages(workspace: Workspace) -> list[Check]:
    """Versions of the packages that matter, and every difference from the lock file."""
    lock = workspace.root / "requirements.lock"
    pinned = lock.read_text(encoding="utf-8").splitlines() if lock.is_file() else []
    locked: dict[str, str] = {}
    for line in pinned:
        if line and not line.startswith(("#", "-")):
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate():
                (pin,) = requirement.specifier
                locked[canonicalize_name(requirement.name)] = pin.version
    installed, nameless = _installed()
    checks = []
    for name in SHOWN_PACKAGES:
        version = installed.get(name)
        if version is None and name in EXTRACTION_PACKAGES:
            finding = "not installed; queries, builds and correlations need none"
            remedy = "to run models: pip install 'tokenmart[extract]' (in a checkout: make setup)"
            checks.append(Check(name, "note", finding, remedy))
        elif version is None:
            checks.append(Check(name, "missing", "not installed", "make setup"))
        else:
            checks.append(Check(name, "ok", version))
    try:
        if "torch" in installed:
            check_sentencepiece()
    except TokenmartError as error:
        finding, _, remedy = error.format_message().rpartition("; ")
        checks.append(Check("sentencepiece", "missing", finding, remedy.strip("`")))
    if nameless:
        finding = f"no name and version in {', '.join(nameless)}, as an interrupted pip leaves it"
        checks.append(Check("packages", "note", finding, "remove that folder, then make setup"))
    different = [
        f"{name} {installed[name]} (lock: {version})"
        for name, version in sorted(locked.items())
        if name in installed and Version(installed[name]).public != version
    ]
    if different:
        more = f" and {len(different) - 5} more" if len(different) > 5 else ""
        finding = f"{', '.join(different[:5])}{more} differ from requirements.lock"
        checks.append(Check("versions", "note", finding, "make setup"))
    elif locked:
        checks.append(Check("versions", "ok", "as in requirements.lock"))
    return checks


def _installed() -> tuple[dict[str, str], list[str]]:
    """Versions of the installed packages by name, and the folders of those that have none."""
    versions: dict[str, str] = {}
    nameless = []
    for package in metadata.distributions():
        said = package.metadata
        if said and "Name" in said and "Version" in said:
            versions[canonicalize_name(said["Name"])] = said["Version"]
        else:
            nameless.append(str(getattr(package, "_path", package.locate_file(""))))
    return versions, sorted(nameless)


def _memory() -> Check:
    import psutil

    memory = psutil.virtual_memory()
    finding = f"{memory.available / 1e9:.1f} of {memory.total / 1e9:.1f} GB free"
    if memory.available < 3e9:
        return Check("memory", "note", finding, "close other programs: the demo needs about 3 GB")
    return Check("memory", "ok", finding)


def _disk(workspace: Workspace) -> Check:
    place = _nearest_existing(workspace.data)
    free = shutil.disk_usage(place).free / 1e9
    finding = f"{free:.1f} GB free at {workspace.data}"
    if not os.access(place, os.W_OK):
        remedy = "make it writable or set TOKENMART_DATA"
        return Check("disk", "missing", f"{place} is not writable", remedy)
    if free < LEAST_FREE_GB:
        remedy = "free some space or set TOKENMART_DATA to a larger disk"
        return Check("disk", "missing", f"{finding}, {LEAST_FREE_GB:.0f} GB needed", remedy)
    return Check("disk", "ok", finding)


def _room(absent: list[Need], workspace: Workspace) -> list[Check]:
    """Whether the disks take the checkpoints that are still to be fetched, and converted copies."""
    from huggingface_hub.constants import HF_HUB_CACHE

    wanted = {
        Path(HF_HUB_CACHE): sum(need.download_bytes or 0 for need in absent),
        workspace.cache: sum(need.copy_bytes for need in absent),
    }
    finding, short = downloads_text(absent), False
    if not finding:
        return []
    disks: dict[int, list[Path]] = {}
    for folder, size in wanted.items():
        if size:
            disks.setdefault(_nearest_existing(folder).stat().st_dev, []).append(folder)
    for folders in disks.values():
        free = shutil.disk_usage(_nearest_existing(folders[0])).free
        short |= free < sum(wanted[folder] for folder in folders)
        finding += f"; {free / 1e9:.1f} GB free at {' and '.join(map(str, folders))}"
    if not short:
        return [Check("downloads", "ok", finding)]
    remedy = (
        "free some space, set HF_HOME (downloads) and TOKENMART_DATA (converted copies) to a "
        "larger disk, or take a part of the models with --model"
    )
    return [Check("downloads", "missing", finding, remedy)]


def _nearest_existing(path: Path) -> Path:
    """The path itself or its closest parent that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def _program(name: str, without: str) -> Check:
    found = shutil.which(name)
    if found is None:
        return Check(name, "note", f"not found: {without}", f"install {name}")
    done = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    return Check(name, "ok", done.stdout.strip().removeprefix(f"{name} version "))


def _dbt() -> Check:
    command = dbt_process.command()
    if command is None:
        return Check("dbt", "missing", "the dbt program was not found", "make setup")
    return Check("dbt", "ok", "of this environment" if len(command) > 1 else command[0])


def _database(workspace: Workspace) -> Check:
    path = workspace.database
    if not path.is_file():
        remedy = "tokenmart dbt build, once something is extracted"
        return Check("warehouse", "note", f"{path} not built yet", remedy)
    return Check("warehouse", "ok", f"{path} ({path.stat().st_size / 1e6:.1f} MB)")


def _problem(problem: Problem, workspace: Workspace) -> list[Check]:
    checks = []
    needs = problem_needs(problem, workspace)
    for need in needs:
        name = f"{need.kind}: {need.name}"
        if need.present:
            checks.append(_kept(name, need, problem, workspace))
        elif need.kind == "target" and later_target(problem, workspace):
            checks.append(_later(name, need, problem))
        elif need.kind != "models":
            checks.append(Check(name, "missing", f"not here ({need.source})", need.remedy))
    absent = [need for need in needs if need.kind == "models" and not need.present]
    if absent:
        finding = f"{len(absent)} not here: {', '.join(need.name for need in absent)}"
        several = f"tokenmart data fetch --problem {problem.asked} --only models"
        remedy = absent[0].remedy if len(absent) == 1 else several
        checks.append(Check("models", "missing", finding, remedy))
        checks += _room(absent, workspace)
    found = notices(problem, problem.ranked_models).items()
    checks += [Check(subject, "note", finding) for subject, finding in found]
    return [*checks, *_scores(problem, workspace)]


def _kept(name: str, need: Need, problem: Problem, workspace: Workspace) -> Check:
    """Files must equal their record of first use, if there is one."""
    path = Path(need.path)
    difference = changed(workspace, problem.name, path) if path.is_file() else ""
    if not difference:
        return Check(name, "ok", need.path)
    record = lock_path(workspace, problem.name)
    remedy = f"restore {path}, or remove its entry from {record} if the change is meant"
    return Check(name, "missing", difference, remedy)


def _later(name: str, need: Need, problem: Problem) -> Check:
    """Nothing lacks a target before a ranking, and a claim is registered without one."""
    finding = "not here yet, a later step: when it is, no metric can be registered before labels"
    first = f"tokenmart preregister --problem {problem.asked} --metric METRIC/VARIANT"
    return Check(name, "note", finding, f"{first}, if you have a claim; then {need.remedy}")


def _scores(problem: Problem, workspace: Workspace) -> list[Check]:
    """For how many models scores are here, where they don't come from a locked file."""
    if problem.target is None:
        finding = "none; the problem is for `tokenmart extract` and `tokenmart sql`"
        return [Check("target", "ok", finding)]
    if isinstance(problem.target, FileTarget):
        return []
    done, all_ = len(scored_models(problem, workspace)), len(problem.ranked_models)
    if isinstance(problem.target, RecallTarget):
        name, finding = "target: measured", f"recall measured for {done} of {all_} models"
        remedy = f"tokenmart recall --problem {problem.asked}"
    else:
        name, finding = "target: imported", f"scores imported for {done} of {all_} models"
        remedy = f"tokenmart data import --problem {problem.asked}"
    if done < all_:
        return [Check(name, "note", finding, remedy)]
    return [Check(name, "ok", finding)]
