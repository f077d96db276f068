"""YAML with positions: parse a file, validate it, and point at the line that is wrong."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from warehouse.errors import ProblemFileError

Parsed = TypeVar("Parsed", bound=BaseModel)


@dataclass(frozen=True)
class YamlTree:
    """A parsed YAML file: plain values, and the node tree that knows the lines."""

    path: Path
    value: Any
    root: yaml.Node | None

    def line(self, location: tuple[int | str, ...]) -> tuple[int, str, Any]:
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


def parse_yaml(path: Path) -> YamlTree:
    """Parse a YAML file with line numbers.

    Raises:
        ProblemFileError: not UTF-8, not YAML, or a key given twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        _refuse_duplicates(path, root)
        value = yaml.safe_load(text)
    except UnicodeDecodeError as error:
        raise ProblemFileError(
            f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8"
        ) from error
    except OSError as error:
        raise ProblemFileError(f"{path}: can't be read ({error.strerror})") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ProblemFileError(
            f"{path}:{line}: not valid YAML ({error.problem}); check indentation and quotes there"
        ) from error
    return YamlTree(path=path, value=value, root=root)


def _refuse_duplicates(path: Path, node: yaml.Node | None) -> None:
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.value in seen:
                raise ProblemFileError(
                    f"{path}:{line}: key {key.value!r} is given twice (first on line "
                    f"{seen[key.value]}); remove one"
                )
            seen[key.value] = line
            _refuse_duplicates(path, value)
    elif isinstance(node, yaml.SequenceNode):
        for child in node.value:
            _refuse_duplicates(path, child)


def report(model: type[Parsed], raw: Any, tree: YamlTree) -> Parsed:
    """Validate `raw` as `model`; the first mistake becomes one line with its place and remedy."""
    from warehouse.problem.spec import sentence

    try:
        return model.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        line, keys, value = tree.line(first["loc"])
        where = f"{tree.path}:{line}: {keys or 'file'}"
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        raise ProblemFileError(f"{where}: {_explain(first, value, sentence)}{more}") from error


def _explain(error: Any, value: Any, sentence: Any) -> str:
    name = error["loc"][-1] if error["loc"] else ""
    if error["type"] == "missing":
        return f"key {name!r} is missing; add it"
    if error["type"] == "extra_forbidden":
        known = _known_fields(name)
        close = difflib.get_close_matches(str(name), known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "remove it"
        return f"unknown key {name!r}; {hint}"
    if error["type"] == "union_tag_invalid":
        context = error["ctx"]
        return f"kind {context['tag']!r} is unknown; use one of {context['expected_tags']}"
    if error["type"] == "union_tag_not_found":
        return "key 'kind' is missing; add it"
    shown = repr(value) if not isinstance(value, (dict, list)) else ""
    return f"{shown + ': ' if shown else ''}{sentence(error['msg'])}"


def _known_fields(_name: Any) -> list[str]:
    from warehouse.problem import spec as problem

    return sorted(
        {
            field
            for cls in vars(problem).values()
            if isinstance(cls, type) and issubclass(cls, BaseModel)
            for field in cls.model_fields
        }
    )
