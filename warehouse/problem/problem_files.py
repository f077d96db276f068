"""Paths of problem files, and their content before it is checked."""

from __future__ import annotations

import shlex
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from warehouse.errors import ProblemFileError
from warehouse.paths import Workspace

if TYPE_CHECKING:
    from warehouse.problem.yaml_file import YamlTree


class Named(Protocol):
    """A problem, as far as its name goes; `asked` is the value of `--problem`, quoted."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def asked(self) -> str:
        """Its name, or the path of its file."""


def problem_path(name: str, workspace: Workspace) -> Path:
    """The file of a shipped problem, or the path itself when `name` is one."""
    if name.endswith((".yml", ".yaml")) or "/" in name:
        return Path(name)
    return workspace.problems / f"{name}.yml"


def paths_start(file: Path, workspace: Workspace) -> Path | None:
    """The folder at which relative paths of a problem file start; None for the checkout."""
    folder = file.resolve().parent
    return None if folder == workspace.problems.resolve() else folder


def list_problems(workspace: Workspace) -> list[str]:
    """Names of the problem files that ship or were added, sorted."""
    return sorted(path.stem for path in workspace.problems.glob("*.yml"))


def namesake(problem: Named, workspace: Workspace) -> Path | None:
    """The problem file here whose name another file has too, when the problem is read from that."""
    here = workspace.problems / f"{problem.name}.yml"
    (asked,) = shlex.split(problem.asked)
    if not here.is_file() or here.samefile(problem_path(asked, workspace)):
        return None
    return here


def read_problem_file(name: str, workspace: Workspace) -> YamlTree:
    """A problem file of any kind, parsed but not checked; its value is a mapping.

    Raises:
        ProblemFileError: missing, unreadable, or no mapping.
    """
    from warehouse.problem.yaml_file import parse_yaml

    path = problem_path(name, workspace)
    if not _is_file(path):
        raise ProblemFileError(_no_such_file(name, path, workspace))
    return with_keys(parse_yaml(path))


def with_keys(tree: YamlTree) -> YamlTree:
    """The same tree, whose value is a mapping.

    Raises:
        ProblemFileError: it is none.
    """
    if not isinstance(tree.value, dict):
        raise ProblemFileError(
            f"{tree.path}:1: expected keys such as name, models, probes; write one with "
            "`tokenmart data new`"
        )
    return tree


def _is_file(path: Path) -> bool:
    with suppress(OSError):  # a name too long, say
        return path.is_file()
    return False


def _no_such_file(name: str, path: Path, workspace: Workspace) -> str:
    problems = list_problems(workspace)
    close = get_close_matches(path.stem, problems, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    here = next((each for each in (f"{name}.yml", f"{name}.yaml") if _is_file(Path(each))), None)
    hint = f"did you mean --problem {here}, in this folder? " if here else hint
    shown = str(path) if len(str(path)) < 300 else f"{str(path)[:300]}…"
    return (
        f"{shown}: no such problem file; {hint}problems here: {', '.join(problems) or 'none'} "
        "(or give the path of your own .yml)"
    )
