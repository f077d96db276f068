"""Checkpoints from the Hugging Face hub: a commit is recorded at first use and kept."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import ClassVar, Literal

from pydantic import Field

from warehouse.errors import TokenmartError
from warehouse.files import explained, is_explained
from warehouse.sources.lock_file import record_revision, recorded_revision
from warehouse.sources.place import Need, Place
from warehouse.sources.weights.interface import (
    PICKLED,
    SAFETENSORS,
    Located,
    WeightSource,
    has_weights,
    refuse_missing_shards,
)

_WANTED = ("*.json", "*.model", "*.txt", "*.jinja", "*.tiktoken")


class HubSource(WeightSource):
    """A repository on the Hugging Face hub; `revision` is resolved to a commit at first use.

    `repository` is needed if it differs from the model's full id: checkpoints of one training run
    are revisions of one repository, and models with their own ids.
    """

    kind: Literal["hub"]
    on_demand: ClassVar[bool] = True
    repository: str | None = Field(
        default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9._-]+)?$", max_length=200
    )
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
            TokenmartError: no network, no access, no such revision, or no weights that
                may be loaded.
            LockedFileError: the lock file is damaged.
        """
        from huggingface_hub import HfApi, snapshot_download

        repository, record = self.repository or full_id, self._record(full_id)
        commit = recorded_revision(place.workspace, place.problem, record)
        found = self._here(repository, commit) if commit else None
        if found is not None:
            return found
        if place.offline:
            raise TokenmartError(f"{full_id}: not fetched yet; {_remedy(full_id, place)}")
        try:
            info = HfApi().model_info(repository, revision=commit or self.revision)
            commit = str(info.sha)
            names = [PurePosixPath(file.rfilename) for file in info.siblings or ()]
            pickled = self._only_pickled(full_id, commit, names)
            wanted = self._wanted(pickled)
            folder = Path(snapshot_download(repository, revision=commit, allow_patterns=wanted))
        except TokenmartError:
            raise
        except Exception as error:  # the hub client raises unrelated classes for one event
            raise _explained(full_id, self.revision, place, error) from error
        found = self._here(repository, commit)
        if found is None:
            who = f"{full_id}: commit {commit}"
            for pattern in (SAFETENSORS, PICKLED):
                refuse_missing_shards(who, folder / self.subfolder, pattern, "correct `revision`")
            raise TokenmartError(f"{who} contains no weights; correct `revision` or `subfolder`")
        record_revision(place.workspace, place.problem, record, commit)
        return found

    def present(self, full_id: str, place: Place) -> Path | None:
        """The folder if the hub's cache has the recorded commit completely."""
        commit = recorded_revision(place.workspace, place.problem, self._record(full_id))
        found = self._here(self.repository or full_id, commit) if commit else None
        return None if found is None else found.path

    def _record(self, full_id: str) -> str:
        """Name of this revision in the lock file: two of one repository are two entries."""
        repository = self.repository or full_id
        return repository if self.revision == "main" else f"{repository}@{self.revision}"

    def _here(self, repository: str, commit: str) -> Located | None:
        """A commit in the hub's cache when all its weight shards are there, else None."""
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import LocalEntryNotFoundError

        wanted = self._wanted(self.pickled)
        try:
            folder = Path(
                snapshot_download(
                    repository, revision=commit, allow_patterns=wanted, local_files_only=True
                )
            )
        except (LocalEntryNotFoundError, ValueError):
            return None
        weights = folder / self.subfolder
        if has_weights(weights, SAFETENSORS):
            return Located(weights, commit)
        if self.pickled and has_weights(weights, PICKLED):
            return Located(weights, commit, is_pickled=True)
        return None

    def _only_pickled(self, full_id: str, commit: str, names: list[PurePosixPath]) -> bool:
        """Whether a repository has pickled weights and no others, by its list of files.

        Raises:
            TokenmartError: it has no weights that may be loaded.
        """
        names = [name for name in names if name.parent == PurePosixPath(self.subfolder or ".")]
        if any(name.match(SAFETENSORS) for name in names):
            return False
        if not any(name.match(PICKLED) for name in names):
            raise TokenmartError(
                f"{full_id}: commit {commit} has no safetensors weights; correct `revision`, "
                "`subfolder` or `full_id`"
            )
        if not self.pickled:
            raise TokenmartError(
                f"{full_id}: commit {commit} has no safetensors weights, only pickled ones, which "
                "may contain code; allow them with `pickled: true` in its source: they are then "
                "read as data, without executing anything, and converted once"
            )
        return True

    def need(self, full_id: str, place: Place) -> Need:
        """The repository."""
        present = self.present(full_id, place) is not None
        where = f"hub:{self.repository or full_id}@{self.revision}"
        remedy = f"{place.fetch_command} --model {full_id}"
        return Need("models", full_id, present, where, "the Hugging Face hub", remedy)

    def _wanted(self, pickled: bool) -> list[str]:
        """Patterns of the files to download: weights, configuration, tokenizer."""
        prefix = f"{self.subfolder.strip('/')}/" if self.subfolder else ""
        weights = [SAFETENSORS, PICKLED] if pickled else [SAFETENSORS]
        code = ["*.py"] if self.trust_remote_code else []
        return [prefix + pattern for pattern in (*weights, *_WANTED, *code)]


def _remedy(full_id: str, place: Place) -> str:
    return f"run `{place.fetch_command} --model {full_id}`"


def _explained(full_id: str, revision: str, place: Place, error: Exception) -> TokenmartError:
    if isinstance(error, OSError) and is_explained(error):
        return explained(error)
    return TokenmartError(_explain(full_id, revision, place, error))


def _explain(full_id: str, revision: str, place: Place, error: Exception) -> str:
    name = type(error).__name__
    if name == "GatedRepoError":
        return f"{full_id}: gated; accept its licence on the hub and log in with `hf auth login`"
    if name in ("RepositoryNotFoundError", "HFValidationError"):
        return (
            f"{full_id}: no such model on the hub (or it is private); correct `full_id`, or the "
            "`repository` of its source"
        )
    if name == "RevisionNotFoundError":
        return f"{full_id}: no revision {revision!r}; correct `revision`"
    first = (str(error).splitlines() or [name])[0][:160]
    return (
        f"{full_id}: can't be fetched from the hub ({first}); check the network, then "
        f"{_remedy(full_id, place)}"
    )
