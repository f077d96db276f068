"""The interface of weight sources: one class per kind, each in its own file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from warehouse.errors import TokenmartError
from warehouse.frozen import Frozen
from warehouse.sources.place import Need, Place
from warehouse.strict_json import StrictJsonError, read_json


@dataclass(frozen=True)
class Located:
    """Weights on this machine.

    `path` is a folder that transformers can load, or one GGUF file; `revision` identifies its
    content: a commit, or a sha256. The weights of a folder that `is_pickled` are `.bin` files.
    """

    path: Path
    revision: str
    is_gguf: bool = False
    is_pickled: bool = False


SAFETENSORS = "*.safetensors"
PICKLED = "pytorch_model*.bin"
"""File names of the two kinds of weights; a repository may hold other `.bin` files."""
_LARGEST_INDEX = 64 << 20


def has_weights(folder: Path, pattern: str) -> bool:
    """Whether a folder contains weights of this kind, with every file that their index names.

    Raises:
        TokenmartError: an index is damaged, or names a file outside the folder.
    """
    return any(folder.glob(pattern)) and not _missing_shards(folder, pattern)


def refuse_missing_shards(
    who: str, folder: Path, pattern: str, remedy: str = "fetch the model again"
) -> None:
    """Stop at a folder without all files of its index.

    Args:
        who: the model's name in the message, or where it is.
        folder: of the checkpoint.
        pattern: of its weights' names.
        remedy: what to do.

    Raises:
        TokenmartError: it does; with the first of their names.
    """
    if missing := _missing_shards(folder, pattern):
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise TokenmartError(
            f"{who} lacks {', '.join(missing[:3])}{more}, named by the index of its weights; "
            f"{remedy}"
        )


def _missing_shards(folder: Path, pattern: str) -> list[str]:
    missing: set[str] = set()
    for index in folder.glob(f"{pattern}.index.json"):
        try:
            shards = set(read_json(index, _LARGEST_INDEX).content["weight_map"].values())
            inside = all(Path(shard).name == shard for shard in shards)
        except (StrictJsonError, AttributeError, KeyError, TypeError) as error:
            reason = error if isinstance(error, StrictJsonError) else "has no table `weight_map`"
            raise TokenmartError(f"{index}: {reason}; fetch the model again") from error
        if not inside:
            raise TokenmartError(
                f"{index}: names files outside its folder; fetch the model from its publisher"
            )
        missing |= {shard for shard in shards if not (folder / shard).is_file()}
    return sorted(missing)


class WeightSource(Frozen, ABC):
    """The `source` of a model; a kind declares `kind: Literal[…]` and what it asks for.

    Checkpoints of an `on_demand` kind are too large to come with everything else: they are
    fetched when they are asked for by name, or needed.
    """

    kind: str
    on_demand: ClassVar[bool] = False

    @abstractmethod
    def locate(self, full_id: str, place: Place) -> Located:
        """The checkpoint, checked, and fetched when it is missing.

        Args:
            full_id: id of the checkpoint, as published.
            place: the checkout and the problem.

        Raises:
            TokenmartError: missing and can't be fetched, or not what was promised.
        """

    @abstractmethod
    def present(self, full_id: str, place: Place) -> Path | None:
        """The folder or GGUF file when it is here, by a look at the disk; nothing is fetched."""

    @abstractmethod
    def need(self, full_id: str, place: Place) -> Need:
        """Files that must be on disk; nothing is read or fetched."""
