"""The table `needed`: what a problem file asks for, one row per model and condition."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress

import pyarrow as pa

from warehouse.errors import StorageError, TokenmartError
from warehouse.paths import Workspace
from warehouse.probes.request import Condition
from warehouse.problem.models import ModelSpec
from warehouse.problem.spec import Problem
from warehouse.store.ledger import fingerprint
from warehouse.store.parquet_files import read_table, write_table
from warehouse.store.schema import NEEDED, table_path


def model_identity(spec: ModelSpec, revision: str) -> str:
    """Hash of a model's weights and of what the problem file changes in them, as it is written.

    `bos: always` is a change for a tokenizer that adds BOS anyway, too: none is loaded here.
    """
    changes = spec.model_dump(mode="json", include={"interventions", "rope", "bos"})
    return fingerprint({"revision": revision, **changes})


def all_conditions(problem: Problem) -> list[Condition]:
    """The conditions of a problem's probes."""
    return [condition for probe in problem.probes for condition in probe.conditions()]


def identities_here(
    problem: Problem,
    workspace: Workspace,
    models: Sequence[ModelSpec],
    conditions: Sequence[Condition],
) -> dict[str, str]:
    """`model_identity` by full id, of the models and references whose files are here."""
    folders = problem.folders(workspace, offline=True)
    specs = dict.fromkeys(
        [*models, *(problem.model(each.reference) for each in conditions if each.reference)]
    )
    identities = {}
    for spec in specs:
        # what is wrong with its files stops an extraction
        with suppress(TokenmartError, OSError):
            if spec.present(folders) is not None:
                identities[spec.full_id] = model_identity(spec, spec.locate(folders).revision)
    return identities


def needed_table(
    problem: Problem,
    models: Sequence[ModelSpec],
    conditions: Sequence[Condition],
    identities: Mapping[str, str],
) -> pa.Table:
    """The units' models and conditions that a problem needs, in the schema `NEEDED` behind a column
    `problem`.

    Args:
        models, conditions: all of the problem file, or those of a run.
        identities: from `identities_here`.
    """
    rows = [
        {
            "problem": problem.name,
            "model_id": model.model_id,
            "is_ranked": not model.on_request,
            "base_id": model.base_id,
            "parameters": model.parameters,
            "model_sha256": identities.get(model.full_id),
            "condition": condition.name,
            "condition_kind": condition.kind.name,
            "probe": condition.probe,
            "probe_params": json.dumps(condition.params, sort_keys=True),
            "reference_sha256": identities.get(condition.reference),
            "reads_foreign": condition.kind.reads_foreign,
            "compared_with": [short for long, short in problem.compare if long == condition.name],
        }
        for model in models
        for condition in conditions
    ]
    return pa.Table.from_pylist(rows, schema=NEEDED.insert(0, pa.field("problem", pa.string())))


def needed_by_file(problem: Problem, workspace: Workspace) -> pa.Table:
    """`needed_table` of all that a problem file asks for."""
    conditions = all_conditions(problem)
    identities = identities_here(problem, workspace, problem.models, conditions)
    return needed_table(problem, problem.models, conditions, identities)


def refresh_needed(problem: Problem, workspace: Workspace) -> None:
    """`store_needed` of a problem with stored units; a folder that can't be written stays."""
    if (workspace.tokens / f"problem={problem.name}").is_dir():
        with suppress(StorageError):
            store_needed(problem, workspace)


def store_needed(problem: Problem, workspace: Workspace) -> None:
    """Write what a problem file asks for, where it is not what is stored already.

    Raises:
        StorageError: the disk is full or the folder can't be written.
    """
    table = needed_by_file(problem, workspace).drop_columns("problem")
    path = table_path(workspace, "needed", problem.name)
    with suppress(FileNotFoundError, StorageError):
        if read_table(path, schema=NEEDED).equals(table):
            return
    write_table(path, table)
