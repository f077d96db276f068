"""Problem files of all kinds: their paths, their content unchecked, what a ranking needs.

A problem file without `kind:` describes documents, models, probes and a target (`Problem`). One
with `kind: NAME` belongs to the plugin that has a `ProblemKind` of this name in `problem_kinds/`.
"""

from __future__ import annotations

import shlex
from abc import ABC
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, NoReturn, Protocol

from warehouse.errors import OtherKindError, ProblemFileError
from warehouse.file_model import FileModel
from warehouse.files import storage_errors, write_whole
from warehouse.paths import (
    Workspace,
    problem_record,
    problems_here,
    recorded_file,
)
from warehouse.plugins import kinds
from warehouse.problem.yaml_file import YamlTree, parse_yaml


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
    def argument(self) -> str:
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
    def marts(self) -> tuple[str, ...]:
        """dbt models that its metrics are read from: each is older or newer than its files."""

    @property
    def build(self) -> str:
        """The command that builds all of them."""

    @property
    def ranked_models(self) -> Sequence[RankedModel]:
        """The models that are ranked."""

    @property
    def target(self) -> AnyTarget | None:
        """The target that ranks them."""


def problem_path(name: str, workspace: Workspace) -> Path:
    """The file of a shipped problem, or the path itself when `name` is one."""
    if name.endswith((".yml", ".yaml")) or "/" in name:
        return Path(name)
    return workspace.problems / f"{name}.yml"


def paths_start(file: Path, workspace: Workspace) -> Path | None:
    """The folder at which relative paths of a problem file start; None for the checkout."""
    folder = file.resolve().parent
    return None if folder == workspace.problems.resolve() else folder


def namesake(problem: Ranked, workspace: Workspace) -> Path | None:
    """The problem file here whose name another file has too, when the problem is read from that."""
    here = workspace.problems / f"{problem.name}.yml"
    (argument,) = shlex.split(problem.argument)
    if not here.is_file() or here.samefile(problem_path(argument, workspace)):
        return None
    return here


def record_file(problem: Ranked, workspace: Workspace) -> None:
    """Record the file of a problem whose documents are stored.

    Raises:
        StorageError: it can't be written.
    """
    (argument,) = shlex.split(problem.argument)
    path, record = (
        problem_path(argument, workspace).resolve(),
        problem_record(problem.name, workspace),
    )
    if recorded_file(problem.name, workspace) != path:
        with storage_errors(record):
            record.parent.mkdir(parents=True, exist_ok=True)
            write_whole(record, str(path))


def read_problem_file(name: str, workspace: Workspace) -> YamlTree:
    """A problem file of any kind, parsed but not checked.

    Raises:
        ProblemFileError: missing or unreadable.
    """
    path = problem_path(name, workspace)
    if path.is_file():
        return parse_yaml(path)
    hint = f"did you mean --problem {name}.yml? " if Path(f"{name}.yml").is_file() else ""
    raise ProblemFileError(
        f"{path}: no such problem file; {hint}{problems_here(workspace)}",
        code="no-problem-file",
        where=name,
    )


class ProblemKind(ABC):
    """A kind of problem file: `kind:` in the file names it. What it can't do stops with `purpose`.

    Args:
        name: the value of `--problem`.
        tree: the file, parsed and not checked.
    """

    kind: ClassVar[str]
    purpose: ClassVar[str]
    """Description of such a file and of the commands that read it, for messages."""
    keys: ClassVar[type[FileModel]]
    """The keys of such a file, for the reference."""

    def __init__(self, name: str, tree: YamlTree, workspace: Workspace) -> None:
        self.name, self.tree, self.workspace = name, tree, workspace

    def refuse(self) -> NoReturn:
        """Raise OtherKindError: the command at hand has no use for such a file."""
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


def problem_kind(name: str, tree: YamlTree, workspace: Workspace) -> ProblemKind | None:
    """The reader of a problem file of another kind; None where the core reads it.

    Args:
        name: the value of `--problem`.
        tree: the file.
    """
    kind = kinds(ProblemKind, "problem_kinds").get(str(tree.value.get("kind")))
    return None if kind is None else kind(name, tree, workspace)
