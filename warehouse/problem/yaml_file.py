"""YAML files that keep line numbers: the syntax, and the errors of what was parsed from it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from warehouse.errors import ProblemFileError

Parsed = TypeVar("Parsed", bound=BaseModel)
Location = tuple[int | str, ...]

LARGEST_BYTES = 256 << 10
MOST_ERRORS = 10
_LONGEST_VALUE = 60
_TAG = "tag:yaml.org,2002:"
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True)
class YamlTree:
    """A parsed YAML file: plain values, and the node tree with line numbers."""

    path: Path
    value: Any
    root: yaml.Node | None

    def line(self, location: Location) -> tuple[int, str]:
        """1-based line and dotted key of the deepest part of `location` that exists.

        Parts that aren't in the file are passed over: pydantic adds the kind of a section.
        """
        node, line, keys = self.root, 1, ""
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
    _open_anchors = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        alias, anchor = isinstance(event, yaml.AliasEvent), getattr(event, "anchor", None)
        if alias and self._open_anchors:  # a few of them would expand to any number of values
            raise _error(f"*{anchor} inside a value that has an anchor; write it out", event)
        if getattr(event, "tag", None) not in (None, "!"):
            raise _error(f"the tag {event.tag[:60]!r} is not read; remove it", event)
        opened = anchor is not None and not alias
        self._open_anchors += opened
        node = super().compose_node(parent, index)
        self._open_anchors -= opened
        return node

    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        node = super().compose_scalar_node(anchor)
        if found := _CONTROL.search(node.value):
            raise _error(f"the control character {found[0]!r} in a value; remove it", node)
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        names: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _error("a list or section as a key; a key is one word", key)
            if key.tag != f"{_TAG}merge":
                key.tag = f"{_TAG}str"
            if key.value in names:
                raise _error(f"key {_short(key.value)} is given twice; remove one", key)
            names.add(key.value)
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
    for _each in (_Loader, Dumper):
        _each.add_implicit_resolver(f"{_TAG}{_kind}", re.compile(f"^(?:{_pattern})$"), list(_first))


def _error(problem: str, node_or_event: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(None, None, problem, node_or_event.start_mark)


def parse_yaml(path: Path) -> YamlTree:
    """Parse a YAML file with line numbers.

    Raises:
        ProblemFileError: unreadable, too large, not UTF-8, or not YAML.
    """
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise ProblemFileError(
            f"{path}: {error.strerror}", code="unreadable", where=path
        ) from error
    if len(content) > LARGEST_BYTES:
        raise ProblemFileError(
            f"{path}: larger than {LARGEST_BYTES:,} bytes", code="too-large", where=path
        )
    return parse_text(content, path)


def parse_text(content: bytes, path: Path) -> YamlTree:
    """`parse_yaml` of a file's content; the path is for messages.

    Raises:
        ProblemFileError: see `parse_yaml`.
    """
    line, what = 1, ""
    try:
        loader = _Loader(content.decode("utf-8"))
        root = loader.get_single_node()
        value = None if root is None else loader.construct_document(root)
        return YamlTree(path, value, root)
    except UnicodeDecodeError as error:
        line, what = content.count(b"\n", 0, error.start) + 1, "not UTF-8"
    except yaml.reader.ReaderError as error:
        line = content.decode("utf-8")[: error.position].count("\n") + 1
        what = f"the control character {chr(int(error.character))!r}; remove it"
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, what = mark.line + 1 if mark else 1, f"not valid YAML: {error.problem}"
    except RecursionError:
        what = "nested too deeply"
    where = f"{path}:{line}"
    raise ProblemFileError(f"{where}: {what}", code="not-yaml", where=where)


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
    found = sorted(
        (*tree.line(each["loc"]), _what(each), each["type"]) for each in errors[:MOST_ERRORS]
    )
    lines = [f"{tree.path}:{line}: {keys or 'file'}: {what}" for line, keys, what, _ in found]
    if (more := len(errors) - MOST_ERRORS) > 0:
        lines.append(f"and {more:,} more")
    first, _, _, kind = found[0]
    raise ProblemFileError(
        "\n  ".join(lines), code=kind.replace("_", "-"), where=f"{tree.path}:{first}"
    )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def _what(error: ErrorDetails) -> str:
    """pydantic's message, with the value that is wrong or the key that is missing."""
    if error["type"] == "missing":
        return f"{error['loc'][-1]}: {error['msg']}"
    value = error["input"]
    shown = "" if isinstance(value, dict | list | tuple) else f"{_short(value)}: "
    return shown + error["msg"]
