"""Sources of model weights (hub, local, gguf), and the files of a checkpoint."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from warehouse.errors import TokenmartError, explained, first_line, is_explained
from warehouse.file_model import FileModel
from warehouse.files import cached_sha256, files_sha256
from warehouse.sources.folders import ProblemFolders, RequiredFile
from warehouse.sources.lock_file import record_revision, recorded_revision

SAFETENSORS = "*.safetensors"
PICKLED = "pytorch_model*.bin"
"""File names of the two kinds of weights; a repository may hold other `.bin` files."""
_FORMS = {SAFETENSORS: "model.safetensors", PICKLED: "pytorch_model.bin"}
_OF_TRANSFORMERS = "model*.safetensors"
"""Beside them a repository may hold the same weights for other software (`consolidated*`)."""
_SHARD = re.compile(r"(.+)-\d{5}-of-(\d{5})(\.\w+)")
_TOKENIZER = (".json", ".model", ".txt", ".tiktoken")
_HASHED = (".safetensors", *_TOKENIZER)
"""Of files that rows depend on: weights, configuration, tokenizer (`vocab.txt`, `merges.txt`)."""
_WANTED = ("*.json", "*.model", "*.txt", "*.jinja", "*.tiktoken")


@dataclass(frozen=True)
class Located:
    """Weights on this machine.

    `path` is a folder that transformers can load, or one GGUF file; `revision` identifies its
    content: a commit (with the subfolder, if there is one), or a sha256. The weights of a folder
    that `is_pickled` are `.bin` files. `tokenizer` is a folder that replaces a GGUF file's own.
    """

    path: Path
    revision: str
    is_gguf: bool = False
    is_pickled: bool = False
    tokenizer: Path | None = None


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


class _PlacedSource(WeightSource):
    """A folder or file that the user places."""

    placed_by_hand: ClassVar[bool] = True
    path: Path

    def place(self, full_id: str, folders: ProblemFolders) -> str:
        """The folder or file."""
        return str(folders.resolve(self.path))


class LocalSource(_PlacedSource):
    """A folder with a configuration, a tokenizer and safetensors weights or, if allowed, pickled
    ones."""

    kind: Literal["local"]
    pickled: bool = False
    trust_remote_code: bool = False

    def locate(self, full_id: str, folders: ProblemFolders) -> Located:
        """The folder; its revision is the hash of the files that its rows depend on."""
        folder = folders.resolve(self.path)
        safe = has_weights(folder, SAFETENSORS)
        pickled = self.pickled and not safe and has_weights(folder, PICKLED)
        if not (folder / "config.json").is_file() or not (safe or pickled):
            raise no_weights(f"{full_id}: source.path {folder}", folder)
        more = (".bin",) * pickled + (".py",) * self.trust_remote_code
        hashed = (*_HASHED, *more)
        files = [path for path in sorted(folder.iterdir()) if path.suffix in hashed]
        return Located(folder, files_sha256(files, folders.workspace), is_pickled=pickled)

    def present(self, full_id: str, folders: ProblemFolders) -> Path | None:
        """The folder when it contains a configuration."""
        folder = folders.resolve(self.path)
        return folder if (folder / "config.json").is_file() else None


class GgufSource(_PlacedSource):
    """One GGUF file; weights are dequantised once into the cache.

    `tokenizer` is a folder with a tokenizer.json, in place of the tokenizer in the file.
    """

    kind: Literal["gguf"]
    sha256: str | None = None
    tokenizer: Path | None = None

    def locate(self, full_id: str, folders: ProblemFolders) -> Located:
        """The file; its revision is its sha256, with that of another tokenizer's files."""
        file = folders.resolve(self.path)
        if not file.is_file():
            what = f"{full_id}: source.path {file}: no such file"
            raise TokenmartError(what, code="no-weights", where=file)
        sha256 = cached_sha256(file, folders.workspace)
        if self.sha256 not in (None, sha256):
            raise TokenmartError(
                f"{full_id}: {file}: sha256 is {sha256}, the problem file expects {self.sha256}",
                code="other-sha256",
                where=file,
            )
        if self.tokenizer is None:
            return Located(file, sha256, is_gguf=True)
        folder = folders.resolve(self.tokenizer)
        if not (folder / "tokenizer.json").is_file():
            raise TokenmartError(
                f"{full_id}: source.tokenizer {folder}: no folder with a tokenizer.json",
                code="no-tokenizer",
                where=folder,
            )
        files = [path for path in sorted(folder.iterdir()) if path.suffix in _TOKENIZER]
        revision = f"{sha256}+{files_sha256(files, folders.workspace)}"
        return Located(file, revision, is_gguf=True, tokenizer=folder)

    def present(self, full_id: str, folders: ProblemFolders) -> Path | None:
        """The file when it is there."""
        file = folders.resolve(self.path)
        return file if file.is_file() else None


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
        here = self._here(repository, commit) if commit else None
        if here is not None:
            return here
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
            if (here := self._located(Path(top))) is not None:
                record_revision(folders.workspace, folders.problem, record, commit)
                return here
        raise no_weights(f"{full_id}: commit {commit}", full_id)

    def present(self, full_id: str, folders: ProblemFolders) -> Path | None:
        """The folder if the hub's cache has the recorded commit completely."""
        commit = recorded_revision(folders.workspace, folders.problem, self._record(full_id))
        here = self._here(self.repository or full_id, commit) if commit else None
        return None if here is None else here.path

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
            if (located := self._located(Path(top))) is not None:
                return located
        return None

    def _forms(self) -> tuple[str, ...]:
        """Patterns of weight files that may be loaded, the preferred ones first."""
        safe = (_OF_TRANSFORMERS, SAFETENSORS)
        return (*safe, PICKLED) if self.pickled else safe

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


def weight_files(folder: Path, pattern: str) -> list[Path]:
    """The files that transformers loads of a folder's weights, there or not.

    Those are the files that its index names, else the one of the usual name; other names are taken
    where there is neither. Other files may have the same weights again (`consolidated*`).

    Args:
        folder: of a checkpoint.
        pattern: `SAFETENSORS` or `PICKLED`.

    Raises:
        TokenmartError: the index is damaged.
    """
    one = folder / _FORMS[pattern]
    index = folder / f"{one.name}.index.json"
    named: list[Path] = []
    if index.is_file():
        try:
            names = set(json.loads(index.read_bytes())["weight_map"].values())
            named = sorted(folder / name for name in names)
        except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
            what = f"{index}: no list of weights ({error}); fetch the model again"
            raise TokenmartError(what, code="bad-index", where=index) from error
    return named or ([one] if one.is_file() else sorted(folder.glob(pattern)))


def has_weights(folder: Path, pattern: str) -> bool:
    """Whether a folder contains weights of this kind, with every file that belongs to them.

    Those are the files that `weight_files` gives, or numbered ones without an index, as a download
    that was killed leaves them.

    Raises:
        TokenmartError: an index is damaged.
    """
    files = weight_files(folder, pattern)
    needed = {path.name for path in files}
    for path in files:
        if parts := _SHARD.fullmatch(path.name):
            begin, count, end = parts[1], int(parts[2]), parts[3]
            needed |= {f"{begin}-{n:05d}-of-{count:05d}{end}" for n in range(1, count + 1)}
    return bool(files) and all((folder / name).is_file() for name in needed)


def is_mask_buffer(dtype: str, shape: Sequence[int]) -> bool:
    """Whether a tensor of a safetensors header is a causal mask that an architecture stored.

    GPT-NeoX and GPT-2 wrote theirs, shape (1, 1, n, n), beside the weights; transformers leaves
    them out when it loads a checkpoint.
    """
    return dtype == "BOOL" or (len(shape) == 4 and tuple(shape[:2]) == (1, 1))
