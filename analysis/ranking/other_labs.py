"""Models of other labs, ranked with one's own; a plugin reads them (sub-folder `labs/`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.plugins import kinds
from warehouse.problem.problem_files import Ranked


@dataclass(frozen=True)
class LabModel:
    """A model of another lab; `kind` is its series of doses."""

    model_id: str
    full_id: str
    family: str
    parameters: int | None
    kind: str
    dtypes: tuple[str, ...]


@dataclass(frozen=True)
class OtherLab:
    """Models, values and scores that another lab adds to a ranking.

    sha256: of what was read.
    models: that one's own store hasn't.
    values: metric, variant, model_id, value, documents, tokens; of metrics computed the same way in
        both.
    scores: measured target by model_id, with standard error and number of items; empty where the
        target is a file.
    notes: what differs and doesn't keep values apart.
    """

    name: str
    sha256: str
    models: tuple[LabModel, ...]
    values: tuple[tuple[str, str, str, float | None, int, int], ...]
    scores: dict[str, tuple[float, float | None, int]]
    notes: tuple[str, ...]


class LabSource(ABC):
    """Reads what other labs have shared; a plugin's subclass has a `kind`."""

    kind: ClassVar[str]

    @abstractmethod
    def read(self, problem: Ranked, workspace: Workspace, names: Sequence[str]) -> list[OtherLab]:
        """The additions of these labs to a problem.

        Raises:
            TokenmartError: no such lab, nothing of the problem, or values that can't be compared.
            StorageError: a file can't be read.
        """


def other_labs(problem: Ranked, workspace: Workspace, names: Sequence[str]) -> list[OtherLab]:
    """The additions of other labs to a problem, by the names that --with gives.

    Raises:
        TokenmartError: there is no plugin for it; see `LabSource.read`.
        StorageError: a file can't be read.
    """
    if not names:
        return []
    sources = kinds(LabSource, "labs")  # type: ignore[type-abstract]
    if len(sources) > 1:
        raise TokenmartError(
            f"--with: several plugins read exports ({', '.join(sources)}); keep one"
        )
    for source in sources.values():
        return source().read(problem, workspace, names)
    raise TokenmartError("--with: no plugin reads other labs' exports; restore plugins/exchange")
