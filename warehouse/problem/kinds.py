"""Problem files of other kinds, which plugins read, and what all problems have in common.

A problem file without `kind:` describes documents, models, probes and a target (`Problem`). One
with `kind: NAME` belongs to the plugin that has a `ProblemKind` of this name in `problem_kinds/`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Protocol

from warehouse.errors import OtherKindError
from warehouse.frozen import Frozen
from warehouse.plugins import kinds

if TYPE_CHECKING:
    from warehouse.paths import Workspace
    from warehouse.problem.yaml_file import YamlTree


class RankedModel(Protocol):
    """A model, as far as a ranking needs it."""

    @property
    def full_id(self) -> str:
        """Its id as published."""

    @property
    def model_id(self) -> str:
        """Its partition key."""

    @property
    def family(self) -> str:
        """Models of one family are not independent."""

    @property
    def parameters(self) -> int | None:
        """Number of parameters, where known."""


class AnyTarget(Protocol):
    """A target of any kind."""

    @property
    def kind(self) -> str:
        """Its kind."""


class Ranked(Protocol):
    """A problem, as far as a ranking of its models needs it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def asked(self) -> str:
        """The value of `--problem`, for the commands in messages."""

    @property
    def title(self) -> str:
        """Its title."""

    @property
    def description(self) -> str:
        """Its description."""

    @property
    def baseline(self) -> str:
        """`metric/variant` that the others are compared with; empty for perplexity."""

    @property
    def ranked_models(self) -> Sequence[RankedModel]:
        """The models that are ranked."""

    @property
    def target(self) -> AnyTarget | None:
        """The target that ranks them."""


class ProblemKind(ABC):
    """A kind of problem file: `kind:` in the file names it. What it can't do stops with `purpose`.

    Args:
        name: the value of `--problem`.
        tree: the file, parsed and not checked.
        workspace: the checkout.
    """

    kind: ClassVar[str]
    purpose: ClassVar[str]
    """Description of such a file and of the commands that read it, for messages."""
    keys: ClassVar[type[Frozen]]
    """The keys of such a file, for the reference."""

    def __init__(self, name: str, tree: YamlTree, workspace: Workspace) -> None:
        self.name, self.tree, self.workspace = name, tree, workspace

    def refuse(self) -> NoReturn:
        """Stop: the command at hand has no use for such a file.

        Raises:
            OtherKindError: always.
        """
        raise OtherKindError(f"{self.tree.path}: {self.purpose}")

    def ranked(self) -> Ranked:
        """The problem for ranking its models.

        Raises:
            TokenmartError: the file is wrong, its data are not here, or there is nothing to rank.
        """
        self.refuse()

    def fetch(self, dry_run: bool) -> None:
        """Download what the problem needs (`tokenmart data fetch`), and print what was downloaded.

        Raises:
            TokenmartError: the file or its data are wrong, or nothing is fetched for this kind.
        """
        self.refuse()

    def missing(self) -> tuple[str, str]:
        """Report for `tokenmart doctor`: present data, and the command that fetches the rest.

        Returns:
            Finding; remedy, empty where all is here.

        Raises:
            TokenmartError: the file is wrong.
        """
        self.refuse()


def problem_kind(name: str, tree: YamlTree, workspace: Workspace) -> ProblemKind | None:
    """The reader of a problem file of another kind; None where the core reads it.

    Args:
        name: the value of `--problem`.
        tree: the file, whose value is a mapping.
        workspace: the checkout.
    """
    written: Any = tree.value.get("kind")
    if not isinstance(written, str):
        return None
    known = kinds(ProblemKind, "problem_kinds")
    return known[written](name, tree, workspace) if written in known else None
