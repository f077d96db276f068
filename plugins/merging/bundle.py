"""Bundles: the files needed to reproduce a merge, and its expected results.

A bundle is a folder with the problem file, the adapters, and `merge.json`.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import yaml
from pydantic import BaseModel, ValidationError

from plugins.benchmarks.model_sql import ModelSql
from plugins.merging.competition.standings import stored_standings
from plugins.merging.evaluate import METRIC, Round, evaluate
from plugins.merging.make import Plan, make_merge, plan_merge, versions
from plugins.merging.problem import load_merge_problem
from warehouse.errors import TokenmartError
from warehouse.files import storage_errors, write_whole
from warehouse.paths import Workspace
from warehouse.problem.problem_files import Dumper
from warehouse.sql.views import create_views
from warehouse.store.provenance import code_revision

CONTENT, PROBLEM = "merge.json", "problem.yml"
Scores = dict[str, dict[str, float]]
"""Round → task → mean accuracy."""


class Record(BaseModel):
    """What is compared of the record of a merge."""

    merge: str
    recipe: dict[str, Any]
    seed: int
    weights_sha256: dict[str, str]
    experts: dict[str, str]
    versions: dict[str, str]


class Bundle(BaseModel):
    """The content of `merge.json`: record of the merge, its scores, and the code's revision."""

    record: Record
    scores: Scores


def write_bundle(plan: Plan, workspace: Workspace, out: Path) -> Scores:
    """Write the bundle of a finished merge, with the scores of its weights in the warehouse.

    Returns:
        The scores; empty if the warehouse has none of these weights.

    Raises:
        TokenmartError: the folder contains something already, or is a file.
        StorageError: the folder can't be written.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise TokenmartError(
            f"--out {out}: contains something already; give a new folder",
            code="not-empty",
            where=out,
        )
    with storage_errors(out):
        out.mkdir(parents=True, exist_ok=True)
        for name, folder in plan.folders.items():
            if plan.problem.expert(name).adapter is not None:
                shutil.copytree(folder, out / "adapters" / name)
    scores = _stored_scores(plan, workspace)
    content = {"record": plan.record, "scores": scores, "code": code_revision()}
    write_whole(out / PROBLEM, yaml.dump(_portable(plan), sort_keys=False, Dumper=Dumper))
    write_whole(out / CONTENT, json.dumps(content, indent=2) + "\n")
    return scores


def _stored_scores(plan: Plan, workspace: Workspace) -> Scores:
    """Scores of the rounds in which the ranking has these very weights."""
    try:
        marts = stored_standings(plan.problem.name, workspace).marts
    except TokenmartError as error:
        if error.code == "not-built":
            return {}
        raise
    rounds = {
        row["round"]
        for row in marts["merge_costs"]
        if row["stage"] == "evaluation" and row["fingerprint"] == plan.fingerprint
    }
    scores: Scores = {}
    for row in marts["task_scores"]:
        is_own = row["entry"] == plan.merge.name and row["round"] in rounds
        if is_own and row["score"] is not None:
            scores.setdefault(row["round"], {})[row["task"]] = row["score"]
    return scores


def _portable(plan: Plan) -> dict[str, Any]:
    """The problem with only this merge and its experts; adapters are in the file's folder."""
    problem = plan.problem
    raw: dict[str, Any] = problem.model_dump(mode="json", exclude_defaults=True)
    experts = [expert for expert in problem.experts if expert.name in plan.folders]
    raw |= {"kind": problem.kind, "merges": [plan.merge.model_dump(mode="json")], "experts": []}
    for expert in experts:
        fields = expert.model_dump(mode="json", exclude_none=True)
        if expert.source is None:
            fields["adapter"] = f"adapters/{expert.name}"
        elif "path" in fields["source"]:
            fields["source"]["path"] = str(plan.folders[expert.name].resolve())
        raw["experts"].append(fields)
    if problem.rules.bases:
        known = {expert.name for expert in experts}
        raw["rules"]["bases"] = [base for base in problem.rules.bases if base in known]
    return raw


def read_bundle(folder: Path) -> Bundle:
    """Read the record and scores of a bundle.

    Raises:
        TokenmartError: the folder is not a bundle, or is damaged.
    """
    path = folder / CONTENT
    try:
        return Bundle.model_validate_json(path.read_bytes())
    except OSError as error:
        what = f"{path}: no bundle ({error.strerror})"
        raise TokenmartError(what, code="no-bundle", where=path) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "file"
        what = (
            f"{path}: damaged bundle: {place}: {first['msg']}; make it again, or get a whole copy"
        )
        raise TokenmartError(what, code="no-bundle", where=path) from error


def make_again(folder: Path, workspace: Workspace) -> tuple[Plan, Bundle, list[str]]:
    """Recompute a bundle's merge from its experts, in a cache of its own.

    Returns:
        The plan, the bundle, and one sentence per package of another version.

    Raises:
        TokenmartError: the folder is not a bundle, its record is of another recipe than its problem
            file, an expert has changed, or the merge exceeds the limits.
    """
    bundle = read_bundle(folder)
    problem = load_merge_problem(str(folder / PROBLEM), workspace)
    merge = problem.merge(bundle.record.merge)
    for key in ("recipe", "seed"):
        recorded, given = getattr(bundle.record, key), getattr(merge, key)
        if recorded != given:
            raise TokenmartError(
                f"{folder / CONTENT}: record.{key} is {recorded}, in {PROBLEM} {given}; the bundle "
                "was edited: ask for another one",
                code="contradiction",
                where=f"{folder / CONTENT}: record.{key}",
            )
    plan = plan_merge(problem, merge, workspace)
    for name, revision in bundle.record.experts.items():
        if plan.revisions.get(name) != revision:
            raise TokenmartError(
                f"expert {name}: is not the one that was merged: its hash is "
                f"{plan.revisions.get(name)}, was {revision}",
                code="another-expert",
                where=f"expert {name}",
            )
    here = versions()
    notes = [
        f"{name} is {here.get(name)}, was {was}"
        for name, was in bundle.record.versions.items()
        if here.get(name) != was
    ]
    plan = replace(plan, folder=plan.folder.with_name(f"{plan.folder.name}-again"))
    shutil.rmtree(plan.folder, ignore_errors=True)
    make_merge(plan, workspace)
    return plan, bundle, notes


def scores_again(
    plan: Plan, promised: Scores, folders: list[Path], workspace: Workspace, device: str
) -> list[tuple[str, float, float]]:
    """Task, mean accuracy in the bundle and new mean accuracy, for the bundle's tasks in the
    folders.

    Raises:
        TokenmartError: no task is found, or the evaluation failed or exceeded the limits.
    """
    wanted = {task: score for tasks in promised.values() for task, score in tasks.items()}
    here = [task for task in wanted if any((f / f"{task}.yaml").is_file() for f in folders)]
    if not here:
        raise TokenmartError(
            "--include-path: has none of the bundle's tasks "
            f"({', '.join(wanted) or 'none were scored'})",
            code="no-tasks",
            where="--include-path",
        )
    with tempfile.TemporaryDirectory(prefix="tokenmart-again-") as name:
        scratch = Workspace(workspace.root, Path(name), Path(name) / "none.duckdb")
        evaluate(plan, Round("again", 0, (), here, folders), scratch, device)
        with duckdb.connect() as connection:
            create_views(connection, scratch)
            ModelSql(connection, workspace).build("eval_item_metrics")
            rows = connection.execute(
                "select task, avg(value) from eval_item_metrics where metric = ? group by task",
                [METRIC],
            ).fetchall()
    recomputed = dict(rows)
    return [(task, wanted[task], recomputed[task]) for task in sorted(here)]
