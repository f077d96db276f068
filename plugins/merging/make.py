"""Merge experts, and store the merged checkpoints in the cache under a hash of their inputs."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

from filelock import FileLock

from plugins.merging.eligibility import judge_experts
from plugins.merging.experts import count_parameters, read_headers
from plugins.merging.problem import Merge, MergeProblem
from plugins.merging.recipes import refuse_recipe
from plugins.merging.watchdog import Cost, folder_bytes, over_limit, run_within
from warehouse.child_process import inherited, python_module
from warehouse.errors import TokenmartError
from warehouse.files import files_sha256, sha256_file, storage_errors, write_whole
from warehouse.paths import Workspace
from warehouse.store.ledger import fingerprint

RECORD = "merge.json"
_PACKAGES = ("mergekit", "peft", "torch", "transformers", "safetensors", "numpy")
_IN_ADAPTERS = (".json", ".safetensors")


@dataclass(frozen=True)
class Plan:
    """A valid merge, its inputs, and the folder of its result.

    Attributes:
        problem: its problem.
        merge: the merge with its recipe.
        folders: expert → checkpoint or adapter, also for bases of adapters.
        revisions: expert → hash of its files.
        fingerprint: hash of recipe, revisions, seed and versions.
        folder: folder of the result.
    """

    problem: MergeProblem
    merge: Merge
    folders: dict[str, Path]
    revisions: dict[str, str]
    fingerprint: str
    folder: Path

    @property
    def record(self) -> dict[str, Any] | None:
        """Record of the finished merge; None if it is not finished."""
        path = self.folder / RECORD
        return dict(json.loads(path.read_bytes())) if path.is_file() else None


def versions() -> dict[str, str]:
    """Versions of the packages that affect a merge's weights."""
    return {name: version(name) for name in _PACKAGES}


def plan_merge(problem: MergeProblem, merge: Merge, workspace: Workspace) -> Plan:
    """Check a merge without reading weights, and return where its result is stored.

    Missing experts are downloaded and converted.

    Raises:
        TokenmartError: an expert is missing or refused by a rule, or the recipe is invalid.
    """
    experts = {expert.name: expert for expert in problem.experts}
    models = merge.models()
    bases = {name: base for name in models if (base := experts[name].base)}
    adapted = [base for name, base in bases.items() if experts[name].adapter]
    names = list(dict.fromkeys([*models, *adapted]))
    findings, files = judge_experts(problem, workspace, {*names, *bases.values()})
    for finding in findings:
        if finding.expert in names and not finding.allowed:
            raise TokenmartError(
                f"merge {merge.name}: expert {finding.expert} is refused, {finding.rule}: "
                f"{finding.evidence}",
                code=f"refused-{finding.rule}",
                where=f"expert {finding.expert}",
            )
    # an adapter is merged into its base first
    merged = {name: bases[name] if experts[name].adapter else name for name in models}
    refuse_recipe(merge, {name: files[source] for name, source in merged.items()})
    folders = {name: files[name].folder for name in names}
    revisions = {name: _revision(folder, workspace) for name, folder in folders.items()}
    key = fingerprint(
        {
            "recipe": merge.recipe,
            "seed": merge.seed,
            "experts": revisions,
            "versions": versions(),
        }
    )
    return Plan(problem, merge, folders, revisions, key, workspace.cache / "merges" / key)


def _revision(folder: Path, workspace: Workspace) -> str:
    files = [path for path in sorted(folder.iterdir()) if path.suffix in _IN_ADAPTERS]
    return files_sha256(files, workspace)


def make_merge(plan: Plan, workspace: Workspace) -> dict[str, Any]:
    """The record of a merged checkpoint, which is computed unless it is in the cache.

    Raises:
        OverLimitError: the problem's limits were exceeded.
        TokenmartError: mergekit failed; no result is kept.
        StorageError: the cache can't be written.
    """
    with storage_errors(plan.folder):
        plan.folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(plan.folder.with_suffix(".lock")):
        if (record := plan.record) is not None:
            return record
        staging = plan.folder.with_name(f".{plan.folder.name}.{os.getpid()}")
        try:
            return _make(plan, staging, workspace)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def _make(plan: Plan, staging: Path, workspace: Workspace) -> dict[str, Any]:
    adapters = {}
    with storage_errors(staging):
        (staging / "experts").mkdir(parents=True)
        for name, folder in plan.folders.items():
            expert = plan.problem.expert(name)
            if expert.adapter is None:
                (staging / "experts" / name).symlink_to(folder.resolve())
            else:
                base = plan.folders[str(expert.base)]
                adapters[name] = {"base": str(base.resolve()), "adapter": str(folder.resolve())}
    job = {
        "recipe": plan.merge.recipe,
        "seed": plan.merge.seed,
        "experts": list(plan.folders),
        "adapters": adapters,
    }
    write_whole(staging / "job.json", json.dumps(job))
    cost = run_within(
        [*python_module("plugins.merging.worker"), "job.json"],
        staging,
        plan.problem.limits,
        f"merge {plan.merge.name}",
        environment(workspace),
    )
    merged = staging / "merged"
    record = _record(plan, merged, cost)
    write_whole(merged / RECORD, json.dumps(record, indent=2) + "\n")
    shutil.rmtree(plan.folder, ignore_errors=True)
    merged.rename(plan.folder)
    return record


def environment(workspace: Workspace) -> dict[str, str]:
    """Environment of a worker, with a fixed hash seed."""
    return {
        **inherited(),
        "PYTHONHASHSEED": "0",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "TOKENMART_HOME": str(workspace.root),
    }


def cost_of(record: dict[str, Any]) -> Cost:
    """Time and memory of a recorded merge or evaluation."""
    return Cost(**{field.name: record[field.name] for field in fields(Cost)})


def refuse_over_limits(plan: Plan) -> None:
    """Refuse a finished merge that exceeded the problem's limits, which were changed since.

    Raises:
        TokenmartError: a limit is exceeded.
    """
    if plan.record and (over := over_limit(cost_of(plan.record), plan.problem.limits)):
        raise TokenmartError(
            f"merge {plan.merge.name}: refused, {over}; its checkpoint stays in the cache",
            code="over-limit",
            where=f"merges.{plan.merge.name}",
        )


def finished_plan(problem: MergeProblem, merge: Merge, workspace: Workspace) -> Plan:
    """The plan of a merge whose result is in the cache and within the limits.

    Raises:
        TokenmartError: it was not merged yet, or exceeds a limit.
    """
    plan = plan_merge(problem, merge, workspace)
    if plan.record is None:
        raise TokenmartError(
            f"merge {merge.name}: not merged yet; run `tokenmart merge run`",
            code="not-merged",
            where=f"merges.{merge.name}",
        )
    refuse_over_limits(plan)
    return plan


def _record(plan: Plan, merged: Path, cost: Cost) -> dict[str, Any]:
    weights = sorted(merged.glob("*.safetensors"))
    return {
        "problem": plan.problem.name,
        "merge": plan.merge.name,
        "fingerprint": plan.fingerprint,
        "recipe": plan.merge.recipe,
        "seed": plan.merge.seed,
        "experts": plan.revisions,
        "versions": versions(),
        "parameters": count_parameters(read_headers(merged)),
        "weights_sha256": {path.name: sha256_file(path) for path in weights},
        **asdict(cost),
        "checkpoint_bytes": folder_bytes(merged),
    }
