"""YAML files that keep line numbers: the syntax, and the errors of what was parsed from it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from warehouse.errors import ProblemFileError

Parsed = TypeVar("Parsed", bound=BaseModel)
Location = tuple[int | str, ...]
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


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


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader that refuses a key given twice and leaves dates to pydantic."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as PyYAML has it
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        names: set[str] = set()
        for key, _ in node.value:
            if str(key.value) in names:
                problem = f"key {key.value!r} is given twice"
                raise yaml.MarkedYAMLError(None, None, problem, key.start_mark)
            names.add(str(key.value))
        return node


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
            return YamlTree(path, loader.construct_document(root), root)
        what = "expected keys such as name, models, probes"
    except UnicodeDecodeError as error:
        line, what = content.count(b"\n", 0, error.start) + 1, "not UTF-8"
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, what = mark.line + 1 if mark else 1, str(error.problem)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        what = " ".join(str(error).split())
    where = f"{path}:{line}"
    raise ProblemFileError(f"{where}: not a problem file: {what}", code="not-yaml", where=where)


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
        return model.model_validate(raw, context={"folder": folder})
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False)
    found = sorted((*tree.line(each["loc"]), _what(each), each["type"]) for each in errors)
    lines = [f"{tree.path}:{line}: {keys or 'file'}: {what}" for line, keys, what, _ in found]
    first, _, _, kind = found[0]
    raise ProblemFileError(
        "\n  ".join(lines), code=kind.replace("_", "-"), where=f"{tree.path}:{first}"
    )


def _what(error: ErrorDetails) -> str:
    """pydantic's message, with the value that is wrong or the key that is missing."""
    if error["type"] == "missing":
        return f"{error['loc'][-1]}: {error['msg']}"
    value = error["input"]
    return error["msg"] if isinstance(value, dict | list) else f"{value!r}: {error['msg']}"
