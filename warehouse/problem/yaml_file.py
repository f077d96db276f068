"""YAML with positions, in the amounts that a person writes: words, numbers, lists and sections."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from warehouse.errors import ProblemFileError

Location = tuple[int | str, ...]

LARGEST_BYTES = 256 << 10
DEEPEST = 32
MOST_VALUES = 20_000
LONGEST_NUMBER = 40
"""Limits of a file: PyYAML is slow, and aliases expand few bytes to any number of values."""

_TAG = "tag:yaml.org,2002:"
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True)
class YamlTree:
    """A parsed YAML file: plain values, and the node tree with line numbers.

    `repeated` has the line and the name of each key that its section has already.
    """

    path: Path
    value: Any
    root: yaml.Node | None
    repeated: tuple[tuple[int, str], ...] = ()

    def line(self, location: Location) -> tuple[int, str, Any]:
        """1-based line, dotted key and value at the deepest part of `location` that exists."""
        node, value, keys = self.root, self.value, ""
        line = 1
        for part in location:
            child = None
            if isinstance(node, yaml.MappingNode) and isinstance(value, dict) and part in value:
                for key_node, value_node in node.value:
                    if key_node.value == part:
                        child, line = value_node, key_node.start_mark.line + 1
                keys += f".{part}" if keys else str(part)
            elif (
                isinstance(node, yaml.SequenceNode)
                and isinstance(part, int)
                and part < len(node.value)
            ):
                child = node.value[part]
                line = child.start_mark.line + 1
                keys += f"[{part}]"
            if child is None:
                continue
            node, value = child, value[part]
        return line, keys, value


_READ_ANOTHER_WAY = re.compile(r":|^[-+]?0[0-9_]")
"""1:30 is 90 and 010 is 8, as YAML 1.1 has it."""


class _RefusedError(yaml.MarkedYAMLError):
    """Valid YAML that is not supported; the message states what to do."""


def _refused(problem: str, node_or_event: Any) -> _RefusedError:
    return _RefusedError(None, None, problem, node_or_event.start_mark)


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader without dates and tags of its own, and within the limits above."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as PyYAML has it
        first: [(tag, pattern) for tag, pattern in pairs if tag != f"{_TAG}timestamp"]
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.repeated: list[tuple[int, str]] = []
        self._depth = 0
        self._values: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            node = super().compose_node(parent, index)
            if id(node) not in self._values:
                raise _refused(f"*{event.anchor} contains itself", event)
        else:
            if event.tag not in (None, "!"):
                raise _refused(f"the tag {event.tag[:60]!r} is not read; remove it", event)
            self._depth += 1
            if self._depth > DEEPEST:
                raise _refused(f"more than {DEEPEST} levels inside each other", event)
            node = super().compose_node(parent, index)
            self._depth -= 1
            self._values[id(node)] = 1 + sum(self._values[id(child)] for child in _children(node))
        if self._values[id(node)] > MOST_VALUES:
            raise _refused(f"more than {MOST_VALUES:,} values, aliases counted in full", event)
        return node

    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        node = super().compose_scalar_node(anchor)
        if found := _CONTROL.search(node.value):
            raise _refused(f"the control character {found[0]!r} in a value; remove it", node)
        number = node.tag in (f"{_TAG}int", f"{_TAG}float")
        if number and len(node.value) > LONGEST_NUMBER:
            raise _refused(f"a number of {len(node.value):,} characters; give a shorter one", node)
        if number and _READ_ANOTHER_WAY.search(node.value):
            raise _refused(
                f"{node.value!r}: YAML takes this for a number to another base; write it in "
                "decimal, or in quotes if it is text",
                node,
            )
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        names: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _refused("a list or section as a key; a key is one word", key)
            if key.tag != f"{_TAG}merge":
                key.tag = f"{_TAG}str"
            if key.value in names:
                self.repeated.append((key.start_mark.line + 1, key.value))
            names.add(key.value)
        return node


def _children(node: yaml.Node | None) -> Iterable[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return chain.from_iterable(node.value)
    return node.value if isinstance(node, yaml.SequenceNode) else ()


def parse_yaml(path: Path) -> YamlTree:
    """Parse a YAML file with line numbers.

    Raises:
        ProblemFileError: unreadable, too large, not UTF-8, not YAML, or nothing a person writes.
    """
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise ProblemFileError(f"{path}: can't be read ({error.strerror})") from error
    if len(content) > LARGEST_BYTES:
        raise ProblemFileError(
            f"{path}: larger than {LARGEST_BYTES:,} bytes; give the path of a problem file"
        )
    return parse_text(content, path)


def parse_text(content: bytes, path: Path) -> YamlTree:
    """`parse_yaml` of a file's content; the path is for messages.

    Raises:
        ProblemFileError: see `parse_yaml`.
    """
    try:
        text = content.decode("utf-8")
        loader = _Loader(text)
        root = loader.get_single_node()
        value = None if root is None else loader.construct_document(root)
    except UnicodeDecodeError as error:
        raise ProblemFileError(
            f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8"
        ) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ProblemFileError(
            f"{path}:{line}: the control character {text[error.position]!r}; remove it"
        ) from error
    except _RefusedError as error:
        assert error.problem_mark is not None
        raise ProblemFileError(f"{path}:{error.problem_mark.line + 1}: {error.problem}") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ProblemFileError(
            f"{path}:{line}: not valid YAML ({error.problem}); check indentation, brackets and "
            "quotes there, and use spaces, not tabs"
        ) from error
    return YamlTree(path, value, root, tuple(loader.repeated))
