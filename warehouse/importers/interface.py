"""The door for importers: one class a format, in a file of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar


@dataclass(frozen=True)
class Row:
    """One scored item as a file gives it: where it stands, and its fields, not yet checked.

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
