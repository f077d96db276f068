"""Checkpoints from the Hugging Face hub: a commit is recorded at first use and kept."""

from __future__ import annotations

import json
from pathlib import Path

from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.problem.spec import HubSource, ModelSpec
from warehouse.sources.lock_file import record_revision, recorded_revision

_WANTED = ("*.safetensors", "*.json", "*.model", "*.txt", "*.jinja", "*.tiktoken")


def ensure_hub_model(
    spec: ModelSpec, workspace: Workspace, problem: str, *, offline: bool = False
) -> tuple[Path, str]:
    """The local folder and the commit of a hub checkpoint, downloading what is missing.

    The first call resolves the revision to a commit and records it in the problem's lock
    file; later calls use that commit, and need no network once it is complete.

    Raises:
        TokenmartError: no network, no access, no such revision, or no safetensors weights.
        LockedFileError: the lock file is damaged.
    """
    source = _hub_source(spec)
    from huggingface_hub import HfApi, snapshot_download

    commit = recorded_revision(workspace, problem, spec.full_id)
    wanted = _wanted(source)
    folder = _complete_snapshot(spec.full_id, commit, wanted) if commit else None
    if offline and folder is None:
        raise TokenmartError(f"{spec.full_id}: not fetched yet; {_remedy(spec, problem)}")
    try:
        if commit is None:
            commit = str(HfApi().model_info(spec.full_id, revision=source.revision).sha)
        if folder is None:
            folder = Path(snapshot_download(spec.full_id, revision=commit, allow_patterns=wanted))
    except Exception as error:  # the hub client raises unrelated classes for one event
        raise TokenmartError(_explain(spec, source, problem, error)) from error
    model_folder = folder / source.subfolder
    if not any(model_folder.glob("*.safetensors")):
        raise TokenmartError(
            f"{spec.full_id}: commit {commit} has no safetensors weights; convert it with "
            "save_pretrained and give `source: {kind: local, path: …}` in the problem file"
        )
    record_revision(workspace, problem, spec.full_id, commit)
    return model_folder, commit


def is_fetched(spec: ModelSpec, workspace: Workspace, problem: str) -> bool:
    """Whether a hub checkpoint's recorded commit lies in the local cache."""
    commit = recorded_revision(workspace, problem, spec.full_id)
    if commit is None:
        return False
    return _complete_snapshot(spec.full_id, commit, _wanted(_hub_source(spec))) is not None


def _hub_source(spec: ModelSpec) -> HubSource:
    if not isinstance(spec.source, HubSource):
        raise TypeError(f"{spec.full_id} is not a hub model")
    return spec.source


def _wanted(source: HubSource) -> list[str]:
    """Patterns of the files to download: weights, configuration, tokenizer."""
    prefix = f"{source.subfolder.strip('/')}/" if source.subfolder else ""
    patterns = [*_WANTED, "*.py"] if source.trust_remote_code else _WANTED
    return [prefix + pattern for pattern in patterns]


def _remedy(spec: ModelSpec, problem: str) -> str:
    return f"run `tokenmart data fetch --problem {problem} --model {spec.full_id}`"


def _complete_snapshot(full_id: str, commit: str, wanted: list[str]) -> Path | None:
    """The cached folder of a commit when all its weight shards are there, else None."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = Path(
            snapshot_download(
                full_id, revision=commit, allow_patterns=wanted, local_files_only=True
            )
        )
    except (LocalEntryNotFoundError, ValueError):
        return None
    for index in folder.rglob("*.safetensors.index.json"):
        shards = set(json.loads(index.read_bytes())["weight_map"].values())
        if not all((index.parent / shard).is_file() for shard in shards):
            return None
    return folder if any(folder.rglob("*.safetensors")) else None


def _explain(spec: ModelSpec, source: HubSource, problem: str, error: Exception) -> str:
    name, full_id = type(error).__name__, spec.full_id
    if name == "GatedRepoError":
        return f"{full_id}: gated; accept its licence on the hub and log in with `hf auth login`"
    if name in ("RepositoryNotFoundError", "HFValidationError"):
        return f"{full_id}: no such model on the hub (or it is private); correct `full_id`"
    if name == "RevisionNotFoundError":
        return f"{full_id}: no revision {source.revision!r}; correct `revision`"
    first = (str(error).splitlines() or [name])[0][:160]
    return (
        f"{full_id}: can't be fetched from the hub ({first}); check the network, then "
        f"{_remedy(spec, problem)}"
    )
