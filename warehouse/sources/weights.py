"""Sources of model weights: the interface, and the kinds that ship (hub, local, gguf)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from warehouse.errors import TokenmartError, first_line
from warehouse.file_model import FileModel
from warehouse.files import cached_sha256, explained, files_sha256, is_explained
from warehouse.sources.checkpoint_files import PICKLED, SAFETENSORS, has_weights
from warehouse.sources.folders import ProblemFolders, RequiredFile
from warehouse.sources.lock_file import record_revision, recorded_revision

_HASHED = (".safetensors", ".json", ".model", ".txt", ".tiktoken")
"""Of files that rows depend on: weights, configuration, tokenizer (`vocab.txt`, `merges.txt`)."""
_WANTED = ("*.json", "*.model", "*.txt", "*.jinja", "*.tiktoken")


@dataclass(frozen=True)
class Located:
    """Weights on this machine.

    `path` is a folder that transformers can load, or one GGUF file; `revision` identifies its
    content: a commit (with the subfolder, if there is one), or a sha256. The weights of a folder
    that `is_pickled` are `.bin` files.
    """

    path: Path
    revision: str
    is_gguf: bool = False
    is_pickled: bool = False


class WeightSource(FileModel, ABC):
    """The `source` of a model; a kind declares `kind: Literal[…]` and what it asks for.

    Checkpoints of an `on_demand` kind are too large to come with everything else: they are
    fetched when they are asked for by name, or needed. Those `placed_by_hand` can't be fetched.
    """

    kind: str
    on_demand: ClassVar[bool] = False
    placed_by_hand: ClassVar[bool] = False

    @abstractmethod
    def locate(self, full_id: str, folders: ProblemFolders) -> Located:
        """The checkpoint, checked, and fetched when it is missing.

        Raises:
            TokenmartError: missing and can't be fetched, or not what was promised.
        """

    @abstractmethod
    def present(self, full_id: str, folders: ProblemFolders) -> Path | None:
        """The folder or GGUF file when it is here, by a look at the disk; nothing is fetched."""

    @abstractmethod
    def place(self, full_id: str, folders: ProblemFolders) -> str:
        """Its path, or the repository that it is downloaded from."""

    def required_file(self, full_id: str, folders: ProblemFolders) -> RequiredFile:
        """Files that must be on disk; nothing is read or fetched."""
        present = self.present(full_id, folders) is not None
        return RequiredFile(full_id, present, self.place(full_id, folders))


class LocalSource(WeightSource):
    """A folder with a configuration, a tokenizer and safetensors weights or, if allowed, pickled
    ones."""

    kind: Literal["local"]
    placed_by_hand: ClassVar[bool] = True
    path: Path
    pickled: bool = False
    trust_remote_code: bool = False

    def locate(self, full_id: str, folders: ProblemFolders) -> Located:
        """The folder; its revision is the hash of the files that its rows depend on."""
        folder = folders.resolve(self.path)
        safe = has_weights(folder, SAFETENSORS)
        pickled = self.pickled and not safe and has_weights(folder, PICKLED)
        if not (folder / "config.json").is_file() or not (safe or pickled):
            raise no_weights(f"{full_id}: source.path {folder}", folder)
        own = (".bin",) * pickled + (".py",) * self.trust_remote_code
        hashed = (*_HASHED, *own)
        files = [path for path in sorted(folder.iterdir()) if path.suffix in hashed]
        return Located(folder, files_sha256(files, folders.workspace), is_pickled=pickled)

    def present(self, full_id: str, folders: ProblemFolders) -> Path | None:
        """The folder when it contains a configuration."""
        folder = folders.resolve(self.path)
        return folder if (folder / "config.json").is_file() else None

    def place(self, full_id: str, folders: ProblemFolders) -> str:
        """The folder."""
        return str(folders.resolve(self.path))


class GgufSource(WeightSource):
    """One GGUF file; weights are dequantised once into the cache."""

    kind: Literal["gguf"]
    placed_by_hand: ClassVar[bool] = True
    path: Path
    sha256: str | None = None

    def locate(self, full_id: str, folders: ProblemFolders) -> Located:
        """The file; its revision is its sha256."""
        file = folders.resolve(self.path)
        if not file.is_file():
            what = f"{full_id}: source.path {file}: no such file"
            raise TokenmartError(what, code="no-weights", where=file)
        found = cached_sha256(file, folders.workspace)
        if self.sha256 not in (None, found):
            raise TokenmartError(
                f"{full_id}: {file}: sha256 is {found}, the problem file expects {self.sha256}",
                code="other-sha256",
                where=file,
            )
        return Located(file, found, is_gguf=True)

    def present(self, full_id: str, folders: ProblemFolders) -> Path | None:
        """The file when it is there."""
        file = folders.resolve(self.path)
        return file if file.is_file() else None

    def place(self, full_id: str, folders: ProblemFolders) -> str:
        """The file."""
        return str(folders.resolve(self.path))


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

    def locate(self, full_id: str, folders: ProblemFolders) -> Located:
        """The folder and the commit of a checkpoint, downloading what is missing.

        The first call resolves the revision to a commit and records it in the problem's lock
        file; later calls use that commit, and need no network once it is complete.

        Raises:
            TokenmartError: no network, no access, no such revision, or no weights that
                may be loaded.
            LockedFileError: the lock file is damaged.
        """
        from huggingface_hub import snapshot_download

        repository, record = self.repository or full_id, self._record(full_id)
        commit = recorded_revision(folders.workspace, folders.problem, record)
        found = self._here(repository, commit) if commit else None
        if found is not None:
            return found
        if folders.offline:
            raise TokenmartError(
                f"{full_id}: not fetched yet; run `{folders.fetch_command} --model {full_id}`",
                code="offline",
                where=full_id,
            )
        for weights in self._forms():
            try:
                revision = commit or self.revision
                top = snapshot_download(
                    repository, revision=revision, allow_patterns=self._wanted(weights)
                )
            except Exception as error:  # the hub client raises unrelated classes for one event
                if isinstance(error, OSError) and is_explained(error):
                    raise explained(error) from error
                reason = first_line(error, 200) or type(error).__name__
                raise TokenmartError(
                    f"{full_id}: can't be fetched from the hub ({type(error).__name__}: {reason}); "
                    f"then run `{folders.fetch_command} --model {full_id}`",
                    code="hub",
                    where=full_id,
                ) from error
            commit = Path(top).name
            if (found := self._located(Path(top))) is not None:
                record_revision(folders.workspace, folders.problem, record, commit)
                return found
        raise no_weights(f"{full_id}: commit {commit}", full_id)

    def present(self, full_id: str, folders: ProblemFolders) -> Path | None:
        """The folder if the hub's cache has the recorded commit completely."""
        commit = recorded_revision(folders.workspace, folders.problem, self._record(full_id))
        found = self._here(self.repository or full_id, commit) if commit else None
        return None if found is None else found.path

    def place(self, full_id: str, folders: ProblemFolders) -> str:
        """The repository, revision and subfolder."""
        folder = f"/{self.subfolder.strip('/')}" if self.subfolder else ""
        return f"hub:{self.repository or full_id}@{self.revision}{folder}"

    def _record(self, full_id: str) -> str:
        """Name of this revision in the lock file: two of one repository are two entries."""
        repository = self.repository or full_id
        return repository if self.revision == "main" else f"{repository}@{self.revision}"

    def _here(self, repository: str, commit: str) -> Located | None:
        """A commit in the hub's cache when all its weight shards are there, else None."""
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import LocalEntryNotFoundError

        for weights in self._forms():
            wanted = self._wanted(weights)
            try:
                # without patterns it would ask for every file of the repository
                top = snapshot_download(
                    repository, revision=commit, allow_patterns=wanted, local_files_only=True
                )
            except (LocalEntryNotFoundError, ValueError):
                continue
            if (found := self._located(Path(top))) is not None:
                return found
        return None

    def _forms(self) -> tuple[str, ...]:
        """Patterns of weight files that may be loaded, the preferred ones first."""
        return (SAFETENSORS, PICKLED) if self.pickled else (SAFETENSORS,)

    def _located(self, top: Path) -> Located | None:
        """The checkpoint in the folder of a commit, if it is complete."""
        folder = top / self.subfolder
        safe = has_weights(folder, SAFETENSORS)
        if not safe and not (self.pickled and has_weights(folder, PICKLED)):
            return None
        # two checkpoints of one commit are two contents
        revision = f"{top.name}/{self.subfolder.strip('/')}" if self.subfolder else top.name
        return Located(folder, revision, is_pickled=not safe)

    def _wanted(self, weights: str) -> list[str]:
        """Patterns of the files to download: weights, configuration, tokenizer."""
        prefix = f"{self.subfolder.strip('/')}/" if self.subfolder else ""
        code = ["*.py"] if self.trust_remote_code else []
        return [prefix + pattern for pattern in (weights, *_WANTED, *code)]


def no_weights(who: str, place: object) -> TokenmartError:
    """The error for a checkpoint without weights, or not all of them."""
    return TokenmartError(
        f"{who} has no config.json with all .safetensors weights; correct the source, or allow "
        ".bin files, which are read as data, with `pickled: true` in it",
        code="no-weights",
        where=place,
    )
