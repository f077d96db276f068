"""Weights that models need, what is to be downloaded, and what a user should know beforehand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warehouse.paths import Workspace
from warehouse.problem.models import ModelSpec
from warehouse.problem.spec import Problem
from warehouse.sources.folders import RequiredFile
from warehouse.store.schema import table_path

_NOTICES = {
    "gated": "Gated: accept the licence on the model's page, then run `hf auth login`",
    "trust_remote_code": "Runs code that comes with its weights: read it, at the pinned revision",
    "pickled": "Pickled weights allowed: read as data, and converted once",
}
"""Setting of a model's source → what a user should know."""


def required_files(
    problem: Problem, workspace: Workspace, models: Sequence[ModelSpec]
) -> list[RequiredFile]:
    """Weights of the models; those shared by several are listed once.

    Presence is a look at the disk; hashes are checked when a file is used.
    """
    folders = problem.folders(workspace)
    by_place: dict[str, RequiredFile] = {}
    for spec in models:
        need = spec.required_file(folders)
        by_place.setdefault(need.place, need)
    return list(by_place.values())


def downloads_text(needs: Iterable[RequiredFile]) -> str:
    """Total of downloads still to do; empty if none."""
    missing = [need for need in needs if not need.present and need.download_bytes != 0]
    unknown = [need.name for need in missing if not need.download_bytes]
    size = sum(need.download_bytes or 0 for need in missing)
    known = [f"about {size / 1e9:,.1f} GB at 16 bits a weight"] if size else []
    return "; ".join([*known, *([f"unknown size: {', '.join(unknown)}"] if unknown else [])])


def notices(problem: Problem, models: Sequence[ModelSpec]) -> dict[str, str]:
    """What a user should know of these models' weights before a run → the models' names."""
    texts = {}
    for setting, notice in _NOTICES.items():
        if names := [m.full_id for m in models if getattr(m.source, setting, False)]:
            texts[notice] = ", ".join(names)
    if left := [m.full_id for m in problem.models if m.on_request and m not in models]:
        texts["On request only, with --model"] = ", ".join(left)
    return texts


def scored_models(problem: Problem, workspace: Workspace) -> list[str]:
    """Ids of the models whose target has been measured or imported."""
    return [
        spec.model_id
        for spec in problem.ranked_models
        if table_path(workspace, "downstream", problem.name, spec.model_id).is_file()
    ]
