"""What a problem needs on disk, whether it is there, and the command that brings it."""

from __future__ import annotations

from collections.abc import Sequence

from warehouse.paths import Workspace
from warehouse.problem.spec import FileTarget, ModelSpec, Problem, RecallTarget
from warehouse.sources.place import Need, Place


def problem_needs(
    problem: Problem, workspace: Workspace, models: Sequence[ModelSpec] | None = None
) -> list[Need]:
    """Everything the problem needs; weights shared by several models are listed once.

    Presence is a look at the disk; hashes are checked when a file is used.
    """
    place = Place(workspace, problem.name)
    by_path: dict[str, Need] = {}
    for spec in models if models is not None else problem.ranked_models:
        need = spec.need(place)
        by_path.setdefault(need.path, need)
    target = _target(problem, place)
    needs = [problem.documents.need(place), *by_path.values()]
    return needs if target is None else [*needs, target]


def _target(problem: Problem, place: Place) -> Need | None:
    """What scores are read from or measured with; imported ones need nothing before."""
    target = problem.target
    if isinstance(target, FileTarget):
        file = place.resolve(target.path)
        remedy = f"{place.fetch_command} --only target, or place the file by hand"
        name = target.path.name
        return Need("target", name, file.is_file(), str(file), "a locked file", remedy)
    if isinstance(target, RecallTarget):
        return target.filler.archive_need("target", place)
    return None


def scored_models(problem: Problem, workspace: Workspace) -> list[str]:
    """Ids of the models whose target has been measured or imported."""
    folder = workspace.downstream / f"problem={problem.name}"
    return [
        spec.model_id
        for spec in problem.ranked_models
        if (folder / f"model_id={spec.model_id}" / "items.parquet").is_file()
    ]
