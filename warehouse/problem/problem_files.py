"""Problem files of all kinds: their paths, YAML with line numbers, what a ranking needs.

A problem file without `kind:` describes documents, models, probes and a target (`Problem`). One
with `kind: NAME` belongs to the plugin that has a `ProblemKind` of this name in `problem_kinds/`.
"""

from __future__ import annotations

import json
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Protocol, TypeVar

import yaml
from pydantic import BaseModel, Field, PrivateAttr, ValidationError
from pydantic_core import ErrorDetails

from warehouse.errors import OtherKindError, ProblemFileError
from warehouse.file_model import FileModel
from warehouse.files import storage_errors, write_whole
from warehouse.paths import Workspace, problem_record, problems_here, recorded_file
from warehouse.plugins import kinds

Parsed = TypeVar("Parsed", bound=BaseModel)
Location = tuple[int | str, ...]
_MOST_BY_ALIASES = 100_000
"""Values that the aliases of a YAML file may add; a few nested ones could stand for billions."""


class RankedModel(Protocol):
    """A model, as far as a ranking needs it; models of one family are not independent."""

    @property
    def full_id(self) -> str: ...
    @property
    def model_id(self) -> str: ...
    @property
    def family(self) -> str: ...
    @property
    def parameters(self) -> int | None: ...


class AnyTarget(FileModel):
    """A target of any kind."""

    kind: str


class Ranked(FileModel):
    """A problem of any kind, as far as a ranking of its models needs it.

    `marts` are the dbt models that its metrics are read from, each older or newer than its files,
    and `build` is the command that builds all of them.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=100)
    title: str = Field(description="title in tables and reports")
    description: str = Field(default="", description="free text")
    target: AnyTarget | None = Field(default=None, description="score to rank the models by")
    baseline: str = Field(
        default="", description="METRIC/VARIANT that others are compared with; default: perplexity"
    )

    marts: ClassVar[tuple[str, ...]] = ("fct_tokens", "metric_values")
    build: ClassVar[str] = "tokenmart dbt build"
    _argument: str = PrivateAttr(default="")

    @property
    def argument(self) -> str:
        """Value of `--problem` that selects this problem: its name or the path of its file."""
        return shlex.quote(self._argument or self.name)

    @property
    @abstractmethod
    def ranked_models(self) -> Sequence[RankedModel]:
        """The models that are ranked."""


@dataclass(frozen=True)
class YamlTree:
    """A parsed YAML file: its keys with plain values, and the node tree with line numbers."""

    path: Path
    value: dict[str, Any]
    root: yaml.Node

    def line(self, location: Location) -> tuple[int, str]:
        """1-based line and dotted key of the deepest part of `location` that exists.

        Parts that aren't in the file are passed over: pydantic adds the kind of a section.
        """
        node: yaml.Node = self.root
        line, keys = 1, ""
        for part in location:
            child: yaml.Node | None = None
            if isinstance(node, yaml.MappingNode):
                for key, value in node.value:
                    if key.value == str(part):
                        child, line = value, key.start_mark.line + 1
                        keys += f".{part}" if keys else str(part)
            elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
                child = node.value[part]
                line = child.start_mark.line + 1
                keys += f"[{part}]"
            node = child or node
        return line, keys

    def error(self, location: Location, what: str, code: str = "") -> ProblemFileError:
        """An error at a place of the file."""
        line, keys = self.line(location)
        where = f"{self.path}:{line}"
        return ProblemFileError(f"{where}: {keys or 'file'}: {what}", code=code, where=where)


class Dumper(yaml.SafeDumper):
    """PyYAML's safe dumper, which quotes a text that the loader would read as a number."""


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with the plain values of YAML 1.2, and no key given twice.

    YAML 1.1 takes 010 for 8, 1:30 for 90 and `no` for false; here they are text, which is refused
    for a number or a truth value.
    """

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - as PyYAML has it

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        names: set[str] = set()
        for key, _ in node.value:
            if str(key.value) in names:
                problem = f"key {key.value!r} is given twice"
                raise yaml.MarkedYAMLError(None, None, problem, key.start_mark)
            names.add(str(key.value))
        return node


for _kind, _pattern, _first in (
    ("bool", "true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(?:0|[1-9][0-9_]{0,30})", "-+0123456789"),
    ("float", r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[1-9][0-9]*(?=[eE]))(?:[eE][-+]?[0-9]+)?",
     "-+.0123456789"),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+."),
    ("null", "~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("merge", "<<", "<"),
):  # fmt: skip
    _tag = f"tag:yaml.org,2002:{_kind}"
    for _each in (_Loader, Dumper):
        _each.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), list(_first))


def parse_yaml(path: Path) -> YamlTree:
    """Parse a YAML file with line numbers.

    Raises:
        ProblemFileError: unreadable, not UTF-8, not YAML, or no mapping.
    """
    try:
        return parse_text(path.read_bytes(), path)
    except OSError as error:
        what = f"{path}: {error.strerror}"
        raise ProblemFileError(what, code="unreadable", where=path) from error


@lru_cache(maxsize=8)  # a command reads its file several times
def parse_text(content: bytes, path: Path) -> YamlTree:
    """`parse_yaml` of a file's content; the path is for messages.

    Raises:
        ProblemFileError: see `parse_yaml`.
    """
    line = 1
    try:
        loader = _Loader(content.decode())
        root = loader.get_single_node()
        if isinstance(root, yaml.MappingNode):
            sizes: dict[int, int] = {}
            if _size(root, sizes) > len(sizes) + _MOST_BY_ALIASES:
                raise yaml.YAMLError(f"its aliases repeat more than {_MOST_BY_ALIASES:,} values")
            value = loader.construct_document(root)
            json.dumps(value)  # `!!binary`, `!!timestamp` or a list in itself are no values of ours
            return YamlTree(path, value, root)
        what = "expected keys such as name, models, probes"
    except UnicodeDecodeError as error:
        line, what = content.count(b"\n", 0, error.start) + 1, "not UTF-8"
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, what = mark.line + 1 if mark else 1, str(error.problem)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        what = " ".join(str(error).split())
    where = f"{path}:{line}"
    raise ProblemFileError(f"{where}: not a problem file: {what}", code="not-yaml", where=where)


def _size(node: yaml.Node, sizes: dict[int, int]) -> int:
    """How many values a node has where each alias stands for all that it names.

    Args:
        sizes: of the nodes seen so far, by identity; one in itself counts as empty.
    """
    if id(node) not in sizes:
        sizes[id(node)] = 0
        below: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            below = [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            below = node.value
        sizes[id(node)] = 1 + sum(_size(part, sizes) for part in below)
    return sizes[id(node)]


def check(model: type[Parsed], raw: Any, tree: YamlTree, *, folder: Path | None = None) -> Parsed:
    """Validate `raw` as `model`.

    Args:
        raw: plain values.
        tree: their positions in the file.
        folder: where relative paths start; None leaves them as they are.

    Raises:
        ProblemFileError: pydantic's errors, a line each; code and place are those of the first.
    """
    try:
        # as JSON: strict, so that no `true` is 1, and lists are still tuples and texts paths
        content = json.dumps(raw)
        return model.model_validate_json(content, strict=True, context={"folder": folder})
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False)
    mistakes = sorted((*tree.line(each["loc"]), _what(each), each["type"]) for each in errors)
    lines = [f"{tree.path}:{line}: {keys or 'file'}: {what}" for line, keys, what, _ in mistakes]
    first, _, _, kind = mistakes[0]
    raise ProblemFileError(
        "\n  ".join(lines), code=kind.replace("_", "-"), where=f"{tree.path}:{first}"
    )


def _what(error: ErrorDetails) -> str:
    """pydantic's message, with the value that is wrong or the key that is missing."""
    if error["type"] == "missing":
        return f"{error['loc'][-1]}: {error['msg']}"
    value = error["input"]
    return error["msg"] if isinstance(value, dict | list) else f"{value!r}: {error['msg']}"


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

    def models(self) -> Collection[str] | None:
        """Ids of the models whose rows in the store it needs; None to leave all rows alone.

        Raises:
            TokenmartError: the file is wrong.
        """
        return None

    def fetch(self) -> None:
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
    if "kind" not in tree.value:  # no plugin's modules are imported for it
        return None
    known: dict[str, type[ProblemKind]] = kinds("problem_kinds")
    kind = known.get(str(tree.value["kind"]))
    return None if kind is None else kind(name, tree, workspace)
