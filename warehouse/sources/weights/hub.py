"""Checkpoints from the Hugging Face hub: a commit is recorded at first use and kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar, Literal

from warehouse.errors import TokenmartError
from warehouse.sources.lock_file import record_revision, recorded_revision
from warehouse.sources.place import Need, Place
from warehouse.sources.weights.interface import Located, WeightSource

_WANTED = ("*.safetensors", "*.json", "*.model", "*.txt", "*.jinja", "*.tiktoken")


class HubSource(WeightSource):
    """A repository on the Hugging Face hub; `revision` is resolved to a commit at first use."""

    kind: Literal["hub"]
    on_demand: ClassVar[bool] = True
    revision: str = "main"
    subfolder: str = ""
    gated: bool = False
    pickled: bool = False
    trust_remote_code: bool = False

    def locate(self, full_id: str, place: Place) -> Located:
        """The folder and the commit of a checkpoint, downloading what is missing.

        The first call resolves the revision to a commit and records it in the problem's lock
        file; later calls use that commit, and need no network once it is complete.

        Raises:
            TokenmartError: no network, no access, no such revision, or no safetensors weights.
            LockedFileError: the lock file is damaged.
        """
        from huggingface_hub import HfApi, snapshot_download

        commit = recorded_revision(place.workspace, place.problem, full_id)
        folder = _complete_snapshot(full_id, commit, self._wanted()) if commit else None
        if place.offline and folder is None:
            raise TokenmartError(f"{full_id}: not fetched yet; {_remedy(full_id, place)}")
        try:
            if commit is None:
                commit = str(HfApi().model_info(full_id, revision=self.revision).sha)
            if folder is None:
                folder = Path(
                    snapshot_download(full_id, revision=commit, allow_patterns=self._wanted())
                )
        except Exception as error:  # the hub client raises unrelated classes for one event
            raise TokenmartError(_explain(full_id, self.revision, place, error)) from error
        weights = folder / self.subfolder
        if not any(weights.glob("*.safetensors")):
            raise TokenmartError(
                f"{full_id}: commit {commit} has no safetensors weights; convert it with "
                "save_pretrained and give `source: {kind: local, path: …}` in the problem file"
            )
        record_revision(place.workspace, place.problem, full_id, commit)
        return Located(weights, commit)

    def present(self, full_id: str, place: Place) -> Path | None:
        """The folder when the recorded commit lies complete in the hub's cache."""
        commit = recorded_revision(place.workspace, place.problem, full_id)
        folder = _complete_snapshot(full_id, commit, self._wanted()) if commit else None
        return None if folder is None else folder / self.subfolder

    def need(self, full_id: str, place: Place) -> Need:
        """The repository."""
        present = self.present(full_id, place) is not None
        where = f"hub:{full_id}@{self.revision}"
        remedy = f"{place.fetch_command} --model {full_id}"
        return Need("models", full_id, present, where, "the Hugging Face hub", remedy)

    def _wanted(self) -> list[str]:
        """Patterns of the files to download: weights, configuration, tokenizer."""
        prefix = f"{self.subfolder.strip('/')}/" if self.subfolder else ""
        patterns = [*_WANTED, "*.py"] if self.trust_remote_code else _WANTED
        return [prefix + pattern for pattern in patterns]


def _remedy(full_id: str, place: Place) -> str:
    return f"run `{place.fetch_command} --model {full_id}`"


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


def _explain(full_id: str, revision: str, place: Place, error: Exception) -> str:
    name = type(error).__name__
    if name == "GatedRepoError":
        return f"{full_id}: gated; accept its licence on the hub and log in with `hf auth login`"
    if name in ("RepositoryNotFoundError", "HFValidationError"):
        return f"{full_id}: no such model on the hub (or it is private); correct `full_id`"
    if name == "RevisionNotFoundError":
        return f"{full_id}: no revision {revision!r}; correct `revision`"
    first = (str(error).splitlines() or [name])[0][:160]
    return (
        f"{full_id}: can't be fetched from the hub ({first}); check the network, then "
        f"{_remedy(full_id, place)}"
    )
