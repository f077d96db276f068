"""Bundles: the files needed to reproduce a merge, and its expected results.

A bundle is a folder with the problem file, the adapters, and `merge.json`.
"""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import yaml

from plugins.merging.make import Plan, make_merge, plan_merge, versions
from plugins.merging.problem import MergeProblem, load_merge_problem
from warehouse.errors import TokenmartError
from warehouse.files import storage_errors, write_whole
from warehouse.paths import Workspace
from warehouse.sql.connection import connect_read_only
from warehouse.store.provenance import code_revision
from warehouse.strict_json import StrictJsonError, read_json

CONTENT, PROBLEM = "merge.json", "problem.yml"
_LARGEST = 16 << 20
Scores = dict[str, dict[str, float]]


def stored_scores(problem: str, entry: str, workspace: Workspace) -> Scores:
    """Round → task → mean accuracy of an entry in the warehouse; empty before the first build."""
    if not workspace.database.is_file():
        return {}
    found: Scores = {}
    with connect_read_only(workspace) as connection:
        tables = connection.execute("select table_name from duckdb_tables()").fetchall()
        if ("int_ranking_columns",) not in tables:
            return {}
        rows = connection.execute(
            "select round, task, score from int_ranking_columns where draw = 0 and problem = ?"
            " and entry = ? and score is not null order by all",
            [problem, entry],
        ).fetchall()
    for round_name, task, score in rows:
        found.setdefault(round_name, {})[task] = score
    return found


def write_bundle(plan: Plan, workspace: Workspace, out: Path) -> None:
    """Write the bundle of a finished merge.

    Raises:
        TokenmartError: the folder contains something already.
        StorageError: the folder can't be written.
    """
    if out.exists() and any(out.iterdir()):
        raise TokenmartError(f"--out {out}: contains something already; choose another folder")
    with storage_errors(out):
        out.mkdir(parents=True, exist_ok=True)
        for name, folder in plan.folders.items():
            if plan.problem.expert(name).adapter is not None:
                shutil.copytree(folder, out / "adapters" / name)
    content = {
        "record": plan.record,
        "scores": stored_scores(plan.problem.name, plan.merge.name, workspace),
        "code": code_revision(),
    }
    write_whole(out / PROBLEM, yaml.safe_dump(_portable(plan.problem, plan), sort_keys=False))
    write_whole(out / CONTENT, json.dumps(content, indent=2) + "\n")


def _portable(problem: MergeProblem, plan: Plan) -> dict[str, Any]:
    """The problem with only this merge and its experts; adapters are in the file's folder."""
    raw: dict[str, Any] = problem.model_dump(mode="json", exclude_defaults=True)
    raw["kind"] = problem.kind
    raw["merges"] = [plan.merge.model_dump(mode="json")]
    kept = []
    for expert in problem.experts:
        if expert.name in plan.folders:
            fields = expert.model_dump(mode="json", exclude_none=True)
            if expert.source is not None:
                fields["source"] = expert.source.model_dump(mode="json", exclude_none=True)
                if "path" in fields["source"]:
                    fields["source"]["path"] = str(plan.folders[expert.name].resolve())
            else:
                fields["adapter"] = f"adapters/{expert.name}"
            kept.append(fields)
    raw["experts"] = kept
    known = {fields["name"] for fields in kept}
    if bases := raw.get("rules", {}).get("bases"):
        raw["rules"]["bases"] = [base for base in bases if base in known]
    return raw


def read_bundle(folder: Path) -> dict[str, Any]:
    """Read the record of a bundle.

    Raises:
        TokenmartError: the folder is not a bundle, or is damaged.
    """
    if not (folder / PROBLEM).is_file():
        raise TokenmartError(f"{folder}: no bundle of a merge (no {PROBLEM}); correct the path")
    try:
        content = read_json(folder / CONTENT, _LARGEST).content
        record = content["record"]
        for key in ("merge", "fingerprint", "weights_sha256", "experts", "versions"):
            record[key]
    except StrictJsonError as error:
        raise TokenmartError(
            f"{folder / CONTENT}: {error}; the bundle is damaged; re-create it"
        ) from error
    except (KeyError, TypeError) as error:
        raise TokenmartError(
            f"{folder / CONTENT}: lacks {error}; the bundle is damaged; re-create it"
        ) from error
    return dict(content)


def make_again(folder: Path, workspace: Workspace) -> tuple[Plan, dict[str, Any], list[str]]:
    """Recompute a bundle's merge from its experts, in a cache of its own.

    Returns:
        The plan, the bundle's content, and one sentence per difference from the bundle.

    Raises:
        TokenmartError: the folder is not a bundle, an expert has changed, or the merge exceeds the
            limits.
    """
    content = read_bundle(folder)
    record = content["record"]
    problem = load_merge_problem(str(folder / PROBLEM), workspace)
    plan = plan_merge(problem, problem.merge(str(record["merge"])), workspace)
    for name, revision in record["experts"].items():
        if plan.revisions.get(name) != revision:
            raise TokenmartError(
                f"expert {name}: is not the one that was merged (hash "
                f"{str(plan.revisions.get(name))[:12]}); provide the one with hash "
                f"{str(revision)[:12]}",
                code="another-expert",
                where=f"expert {name}",
            )
    here = versions()
    notes = [
        f"{name} is {here.get(name)}, was {was}"
        for name, was in record["versions"].items()
        if here.get(name) != was
    ]
    plan = replace(plan, folder=plan.folder.with_name(f"{plan.folder.name}-again"))
    shutil.rmtree(plan.folder, ignore_errors=True)
    make_merge(plan, workspace)
    return plan, content, notes


def largest_difference(one: Path, other: Path) -> float:
    """Largest absolute difference of two checkpoints' weights, tensor by tensor.

    Infinite if a difference is NaN, so that it exceeds every tolerance.

    Raises:
        TokenmartError: names or shapes of their tensors differ.
    """
    from safetensors import safe_open

    def opened(folder: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for path in sorted(folder.glob("*.safetensors")):
            file: Any = safe_open(path, framework="pt")
            found |= dict.fromkeys(file.keys(), file)
        return found

    mine, theirs = opened(one), opened(other)
    if mine.keys() != theirs.keys():
        raise TokenmartError(
            f"{one} and {other} have other tensors; nothing to compare", code="other-tensors"
        )
    largest = 0.0
    for name, file in mine.items():
        here, there = file.get_tensor(name).float(), theirs[name].get_tensor(name).float()
        if here.shape != there.shape:
            raise TokenmartError(
                f"{name} is {list(here.shape)} in {one} and {list(there.shape)} in {other}; "
                "nothing to compare",
                code="other-shape",
                where=name,
            )
        difference = float(np.abs((here - there).numpy()).max(initial=0))
        largest = max(largest, difference if math.isfinite(difference) else math.inf)
    return largest


def scores_again(
    plan: Plan, promised: Scores, folders: list[Path], workspace: Workspace, device: str
) -> list[tuple[str, float, float]]:
    """Task, mean accuracy in the bundle and new mean accuracy, for the bundle's tasks in the
    folders.

    Raises:
        TokenmartError: no task is found, or the evaluation failed or exceeded the limits.
    """
    import tempfile

    from plugins.benchmarks.model_sql import ModelSql
    from plugins.merging.evaluate import METRIC, Round, evaluate
    from warehouse.sql.views import create_views

    wanted = {task: score for tasks in promised.values() for task, score in tasks.items()}
    here = [task for task in wanted if any((f / f"{task}.yaml").is_file() for f in folders)]
    if not here:
        raise TokenmartError(
            "--include-path: has none of the promised tasks "
            f"({', '.join(wanted) or 'none were scored'}); give the folder with their YAML files"
        )
    with tempfile.TemporaryDirectory(prefix="tokenmart-again-") as name:
        own = Workspace(workspace.root, Path(name), Path(name) / "none.duckdb")
        evaluate(plan, Round("again", 0, (), here, folders), own, device)
        with duckdb.connect() as connection:
            create_views(connection, own)
            ModelSql(connection, workspace).build("eval_item_metrics")
            rows = connection.execute(
                "select task, avg(value) from eval_item_metrics where metric = ? group by task",
                [METRIC],
            ).fetchall()
    found = dict(rows)
    return [(task, wanted[task], found[task]) for task in sorted(here)]
