"""What a problem needs on disk, whether it is there, and the command that brings it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from warehouse.paths import Workspace
from warehouse.problem.spec import (
    FileTarget,
    HubSource,
    JsonDocuments,
    ModelSpec,
    PackageSource,
    Problem,
)
from warehouse.sources.fetch import archives_folder, documents_path, weights_path
from warehouse.sources.hub import is_fetched

Kind = Literal["documents", "models", "target"]


@dataclass(frozen=True)
class Need:
    """One thing a problem needs.

    `path` is where it lies (a file to place by hand, where that works), `source` where it
    comes from, `remedy` the command or action that brings it.
    """

    kind: Kind
    name: str
    present: bool
    path: str
    source: str
    remedy: str


def problem_needs(
    problem: Problem, workspace: Workspace, models: Sequence[ModelSpec] | None = None
) -> list[Need]:
    """Everything the problem needs; weights shared by several models are listed once.

    Presence is a look at the disk; hashes are checked when a file is used.
    """
    fetch = f"tokenmart data fetch --problem {problem.name}"
    needs = [_documents(problem, workspace, fetch)]
    listed: set[str] = set()
    for spec in models if models is not None else problem.models:
        need = _weights(spec, problem, workspace, fetch)
        if need.path not in listed:
            listed.add(need.path)
            needs.append(need)
    return [*needs, *_target(problem, workspace, fetch)]


def _documents(problem: Problem, workspace: Workspace, fetch: str) -> Need:
    corpus = problem.documents
    if isinstance(corpus, JsonDocuments):
        place = workspace.root / corpus.path
        present = place.is_file()
        source, remedy = "a locked file", f"{fetch} --only documents, or place the file by hand"
        return Need("documents", str(corpus.path), present, str(place), source, remedy)
    place = archives_folder(workspace) / corpus.archive
    present = place.is_file() or documents_path(problem, workspace).is_file()
    remedy = f"{fetch} --only documents"
    return Need("documents", corpus.archive, present, str(place), corpus.package, remedy)


def _weights(spec: ModelSpec, problem: Problem, workspace: Workspace, fetch: str) -> Need:
    source = spec.source
    remedy = f"{fetch} --model {spec.full_id}"
    if isinstance(source, HubSource):
        present = is_fetched(spec, workspace, problem.name)
        place = f"hub:{spec.full_id}@{source.revision}"
        return Need("models", spec.full_id, present, place, "the Hugging Face hub", remedy)
    if isinstance(source, PackageSource):
        path = weights_path(source, workspace)
        names = ", ".join(source.packages)
        return Need("models", spec.full_id, path.is_file(), str(path), names, remedy)
    path = workspace.root / source.path.expanduser()
    present = (path / "config.json").is_file() if source.kind == "local" else path.is_file()
    remedy = f"place the checkpoint at {path}, or correct source.path in the problem file"
    return Need("models", spec.full_id, present, str(path), "local", remedy)


def _target(problem: Problem, workspace: Workspace, fetch: str) -> list[Need]:
    target = problem.target
    if isinstance(target, FileTarget):
        place = workspace.root / target.path
        remedy = f"{fetch} --only target, or place the file by hand"
        name = target.path.name
        return [Need("target", name, place.is_file(), str(place), "a locked file", remedy)]
    filler = target.filler
    place = archives_folder(workspace) / filler.archive
    remedy = f"{fetch} --only target"
    return [Need("target", filler.archive, place.is_file(), str(place), filler.package, remedy)]


def measured_models(problem: Problem, workspace: Workspace) -> list[str]:
    """Ids of the models whose recall target has been measured."""
    folder = workspace.downstream / f"problem={problem.name}"
    return [
        spec.model_id
        for spec in problem.models
        if (folder / f"model_id={spec.model_id}" / "items.parquet").is_file()
    ]


def nearest_existing(path: Path) -> Path:
    """The path itself or its closest parent that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path
