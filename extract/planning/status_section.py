"""Tables that plugins add to `tokenmart status`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from warehouse.paths import Workspace
from warehouse.plugins import kinds
from warehouse.problem.spec import Problem

if TYPE_CHECKING:
    from warehouse.terminal import Column


class StatusSection(ABC):
    """A table below that of the documents' units; `kind` is its name."""

    kind: ClassVar[str]

    def __init__(self, problem: Problem, workspace: Workspace) -> None:
        self.problem, self.workspace = problem, workspace

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """Its rows, which `--json` prints; empty where it has nothing to show."""
        return self.read()

    @abstractmethod
    def read(self) -> list[dict[str, Any]]:
        """Read the rows from the store."""

    @abstractmethod
    def columns(self) -> list[Column]:
        """The rows for the terminal."""

    @abstractmethod
    def notes(self) -> list[str]:
        """Failures with reasons, and how to compute the rest."""


def sections_of(problem: Problem, workspace: Workspace) -> list[StatusSection]:
    """Sections of plugins that have rows for a problem."""
    known = kinds(StatusSection, "status_sections")  # type: ignore[type-abstract]
    sections = [each(problem, workspace) for each in known.values()]
    return [section for section in sections if section.rows]
