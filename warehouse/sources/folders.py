"""Folders of a problem's files, whether missing ones may be fetched, and the files it needs."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from warehouse.files import locked
from warehouse.paths import Workspace
from warehouse.store.schema import table_path


@dataclass(frozen=True)
class ProblemFolders:
    """The checkout, the name of the problem files are for, and `offline`: download nothing.

    `argument` is the value of `--problem`, if it isn't the name.
    """

    workspace: Workspace
    problem: str = ""
    offline: bool = False
    argument: str = ""

    @property
    def archives(self) -> Path:
        """Folder of wheels and source distributions; files placed by hand are accepted here."""
        return self.workspace.cache / "archives"

    @property
    def documents_table(self) -> Path:
        """The problem's documents as a table, once they have been read."""
        return table_path(self.workspace, "documents", self.problem)

    @property
    def fetch_command(self) -> str:
        """The command that fetches what the problem needs."""
        return f"tokenmart data fetch --problem {self.argument or self.problem}"

    def resolve(self, path: Path) -> Path:
        """A path of a parsed problem file; what is still relative starts at the checkout."""
        return self.workspace.root / path

    def one_at_a_time(self, name: str) -> AbstractContextManager[None]:
        """Two processes that need the same download: one fetches, the other waits and finds it.

        Raises:
            StorageError: the cache can't be written.
        """
        return locked(self.workspace.cache / "locks" / f"{name}.lock")


@dataclass(frozen=True)
class RequiredFile:
    """One file or folder that a problem needs.

    `place` is its path, where it may also be placed by hand, or the repository that it is
    downloaded from. `download_bytes` is about what a checkpoint of the hub needs, None if its size
    is unknown.
    """

    name: str
    present: bool
    place: str
    download_bytes: int | None = 0
