"""YAML with positions: parse a file, validate it, and point at the line that is wrong."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from warehouse.errors import ProblemFileError
from warehouse.plugins import kind_of

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Parsed = TypeVar("Parsed", bound=BaseModel)
Location = tuple[int | str, ...]


@dataclass(frozen=True)
class YamlTree:
    """A parsed YAML file: plain values, and the node tree that knows the lines."""

    path: Path
    value: Any
    root: yaml.Node | None

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
    """Validate `raw` as `model`.

    Raises:
        ProblemFileError: the first mistake, as one line with its place and remedy.
    """
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        mistakes = _by_cause(model, error.errors(), tree)
        first = mistakes[0]
        location = first["loc"]
        if first["type"] == "union_tag_invalid":
            location = (*location, "kind")
        line, keys, _ = tree.line(location)
        more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
        raise ProblemFileError(
            f"{tree.path}:{line}: {keys or 'file'}: {_explain(model, first, tree)}{more}"
        ) from error


def _by_cause(
    model: type[BaseModel], errors: list[ErrorDetails], tree: YamlTree
) -> list[ErrorDetails]:
    """Misspelt keys first, from the top; without the keys that are missing because of them."""
    meant = {
        error["loc"]: key
        for error in errors
        if error["type"] == "extra_forbidden" and (key := _meant(model, error["loc"], tree))
    }
    missing = {(*location[:-1], key) for location, key in meant.items()}
    left = [e for e in errors if e["type"] != "missing" or e["loc"] not in missing]
    misspelt = [error for error in left if error["loc"] in meant]
    misspelt.sort(key=lambda error: tree.line(error["loc"])[0])
    return misspelt + [error for error in left if error["loc"] not in meant]


def _meant(model: type[BaseModel], location: Location, tree: YamlTree) -> str | None:
    """The key of the same section that is closest to the unknown one and not given yet."""
    *section, name = location
    return _closest(str(name), _keys(model, tuple(section)) - _given(tuple(section), tree))


def _explain(model: type[BaseModel], error: ErrorDetails, tree: YamlTree) -> str:
    location = error["loc"]
    name = location[-1] if location else ""
    if error["type"] == "missing":
        return f"key {name!r} is missing; add it"
    if error["type"] == "extra_forbidden":
        meant = _meant(model, location, tree)
        left = _keys(model, location[:-1]) - _given(location[:-1], tree)
        other = f"remove it, or use one of: {', '.join(sorted(left))}" if left else "remove it"
        return f"unknown key {name!r}; {f'did you mean {meant!r}?' if meant else other}"
    if error["type"] == "union_tag_invalid":
        kinds = sorted(kind_of(cls) for cls in _classes_at(model, location))
        tag = error["ctx"]["tag"]
        close = _closest(tag, kinds)
        hint = f"did you mean {close!r}? The kinds are" if close else "use one of"
        return f"kind {tag!r} is unknown; {hint}: {', '.join(kinds)}"
    if error["type"] == "union_tag_not_found":
        kinds = sorted(kind_of(cls) for cls in _classes_at(model, location))
        misspelt = _closest("kind", _given(location, tree))
        if misspelt:
            return f"unknown key {misspelt!r}; did you mean 'kind'?"
        return f"key 'kind' is missing; add it with one of: {', '.join(kinds)}"
    value = tree.line(location)[2]
    shown = "" if isinstance(value, dict | list) else f"{value!r}: "
    return shown + _sentence(error["msg"])


def _classes_at(model: type[BaseModel], location: Location) -> list[type[BaseModel]]:
    """The classes that what stands at a location may be parsed as, several before its kind."""
    classes = [model]
    for part in location:
        if isinstance(part, int):
            continue
        if len(classes) > 1:  # pydantic names the kind in the location
            classes = [cls for cls in classes if kind_of(cls) == part]
        else:
            field = classes[0].model_fields.get(part) if classes else None
            classes = list(_classes_in(field.annotation)) if field is not None else []
    return classes


def _classes_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The parsed classes an annotation names: of a union, a tuple, or the class itself."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _classes_in(part)


def _keys(model: type[BaseModel], section: Location) -> set[str]:
    return {key for cls in _classes_at(model, section) for key in cls.model_fields}


def _given(section: Location, tree: YamlTree) -> set[str]:
    value = tree.line(section)[2]
    return set(map(str, value)) if isinstance(value, dict) else set()


def _closest(name: str, among: Iterable[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name, sorted(among), n=1)), None)


def _sentence(text: str) -> str:
    """A validation message without its technical prefix, first letter lowered."""
    text = re.sub(r"^(Value error|Assertion failed), ", "", text)
    return text[:1].lower() + text[1:]
