"""Interfaces of importers: one class a format, in a file of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from warehouse.paths import Workspace


@dataclass(frozen=True)
class Row:
    """One scored item as read from a file: its place, and its fields, not yet checked.

    `place` names file and line for messages. `fields` has `task`, `item` (a whole number) and
    `score`, and may have the other columns of the `downstream` table.
    """

    place: str
    fields: dict[str, Any]


@dataclass(frozen=True)
class Importer(ABC):
    """A format of scores made elsewhere, for one model; `kind` is its name.

    `metric` is the user's choice where a file holds several.
    """

    kind: ClassVar[str]
    metric: str | None = None

    @abstractmethod
    def read(self, path: Path) -> Iterator[Row]:
        """The scored items of a file.

        Raises:
            TokenmartError: it can't be read, or is not in this format.
        """


class StoringImporter(ABC):
    """A format of something other than target scores; it stores what it reads. `kind` names it.

    `of_other_models`: the model that the files are of need not be one of the problem.
    """

    kind: ClassVar[str]
    of_other_models: ClassVar[bool] = False

    @abstractmethod
    def import_files(
        self,
        files: Sequence[Path],
        workspace: Workspace,
        problem: str,
        model_id: str,
        *,
        force: bool = False,
    ) -> dict[str, int]:
        """Read one model's files and store them; every row is checked before anything is written.

        Args:
            files: all files of the model.
            workspace: the checkout.
            problem: name of the problem.
            model_id: partition key of the model.
            force: replace what is stored and differs.

        Returns:
            Items by task.

        Raises:
            TokenmartError: a file or a row is wrong.
            StorageError: the disk is full or the folder can't be written.
        """
