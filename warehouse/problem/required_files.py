"""Files that a problem needs, how to get them, and what a user should know beforehand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warehouse.paths import Workspace
from warehouse.problem.models import ModelSpec, Rope
from warehouse.problem.spec import FileTarget, Problem, RecallTarget
from warehouse.sources.folders import ProblemFolders, RequiredFile
from warehouse.sources.lock_file import name_in, recorded_files
from warehouse.terminal import counted

_OF_SOURCES = {
    "gated": (
        "Gated",
        "Accept the licence on the model's page, then log in with `hf auth login` (or set "
        "HF_TOKEN).",
    ),
    "trust_remote_code": (
        "Runs code that comes with its weights",
        "Read that code, at the pinned revision, first.",
    ),
    "pickled": (
        "Pickled weights allowed",
        "Without safetensors they are read as data, nothing in them is executed, and converted "
        "once.",
    ),
}
"""Setting of a model's source → subject and sentence of its notice."""


def required_files(
    problem: Problem, workspace: Workspace, models: Sequence[ModelSpec] | None = None
) -> list[RequiredFile]:
    """Everything the problem needs; weights shared by several models are listed once.

    Presence is a look at the disk; hashes are checked when a file is used.
    """
    folders = problem.folders(workspace)
    by_path: dict[str, RequiredFile] = {}
    for spec in models if models is not None else problem.ranked_models:
        need = spec.required_file(folders)
        by_path.setdefault(need.path, need)
    target = _target(problem, folders)
    needs = [problem.documents.required_file(folders), *by_path.values()]
    return needs if target is None else [*needs, target]


def _target(problem: Problem, folders: ProblemFolders) -> RequiredFile | None:
    """Files that the target is read from or measured with; imported scores need none."""
    target = problem.target
    if isinstance(target, FileTarget):
        file = folders.resolve(target.path)
        remedy = f"{folders.fetch_command} --only target, or place the file by hand"
        name = target.path.name
        return RequiredFile("target", name, file.is_file(), str(file), "a locked file", remedy)
    if isinstance(target, RecallTarget):
        return target.filler.required_archive("target", folders)
    return None


def later_target(problem: Problem, workspace: Workspace) -> bool:
    """Whether a locked target was never here: what is to be registered comes before it."""
    target = problem.target
    return (
        isinstance(target, FileTarget)
        and not (workspace.root / target.path).exists()
        and name_in(workspace, target.path) not in recorded_files(workspace, problem.name)
    )


def downloads_text(needs: Iterable[RequiredFile]) -> str:
    """Total of downloads still to do; empty if none."""
    missing = [need for need in needs if not need.present and need.download_bytes != 0]
    known = [need for need in missing if need.download_bytes]
    unknown = [need.name for need in missing if not need.download_bytes]
    parts = []
    if known:
        size = sum(need.download_bytes or 0 for need in known)
        parts.append(
            f"about {size / 1e9:,.1f} GB for {counted(len(known), 'model')}, at 16 bits a weight"
        )
    if copies := sum(need.copy_bytes for need in known):
        parts.append(f"{copies / 1e9:,.1f} GB more for converted copies where weights come as .bin")
    if unknown:
        parts.append(f"an unknown size (no `parameters` in the problem file): {', '.join(unknown)}")
    return "; ".join(parts)


def notices(problem: Problem, models: Sequence[ModelSpec]) -> dict[str, str]:
    """Notices about these models before a run: a subject and a sentence each."""
    found = {}
    for setting, (subject, sentence) in _OF_SOURCES.items():
        if names := _names(model for model in models if getattr(model.source, setting, False)):
            found[subject] = f"{names}. {sentence}"
    ropes = [f"{model.full_id} ({_described(model.rope)})" for model in models if model.rope]
    if ropes:
        found["Position encoding as trained, not as configured"] = f"{', '.join(ropes)}."
    if problem.documents.too_long == "run":
        found["Too long documents"] = (
            f"those up to {problem.documents.margin} tokens over a model's context run, and the "
            "ledger says so; longer ones fail for that model alone."
        )
    others = _names(model for model in problem.models if model.on_request and model not in models)
    if others:
        found["On request only, with --model"] = f"{others}."
    return found


def _names(models: Iterable[ModelSpec]) -> str:
    return ", ".join(model.full_id for model in models)


def _described(rope: Rope) -> str:
    numbers = [("theta", rope.theta), ("factor", rope.factor)]
    known = [f"{name} {value:,.10g}" for name, value in numbers if value is not None]
    return " ".join([rope.type, *known])


def scored_models(problem: Problem, workspace: Workspace) -> list[str]:
    """Ids of the models whose target has been measured or imported."""
    folder = workspace.downstream / f"problem={problem.name}"
    return [
        spec.model_id
        for spec in problem.ranked_models
        if (folder / f"model_id={spec.model_id}" / "items.parquet").is_file()
    ]
