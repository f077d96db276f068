"""All mistakes of a problem file together: place, what is wrong, what to write instead."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from warehouse.errors import ProblemFileError
from warehouse.plugins import kind_of

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from warehouse.problem.yaml_file import Location, YamlTree

Parsed = TypeVar("Parsed", bound=BaseModel)

MOST_SHOWN = 25
_MOST_EXPLAINED = 200
_LONGEST_VALUE = 60
_WHOLE_NUMBER = "must be a whole number"
_EXPECTED = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "int_from_float": _WHOLE_NUMBER,
    "int_parsing": _WHOLE_NUMBER,
    "int_parsing_size": _WHOLE_NUMBER,
    "int_type": _WHOLE_NUMBER,
    "path_type": "must be a path",
    "string_type": "must be text; put it in quotes",
    "tuple_type": "must be a list: its entries in [ ], or each on a line of its own after '- '",
}
_NOT_INHERITED = ("full_id", "kind", "note")


@dataclass(frozen=True, order=True)
class Mistake:
    """A mistake on a line of a problem file; unknown keys sort first."""

    known_key: bool
    line: int
    keys: str
    what: str


def check(
    model: type[Parsed],
    raw: Any,
    tree: YamlTree,
    *,
    folder: Path | None = None,
    found: Iterable[Mistake] = (),
    inherited: Collection[Location] = (),
) -> Parsed:
    """Validate `raw` as `model`.

    Args:
        raw: plain values.
        tree: their positions in the file.
        folder: where relative paths start; None leaves them as they are.
        found: mistakes that are known already.
        inherited: places whose mistakes are those of another place.

    Raises:
        ProblemFileError: all mistakes, each with its line and what to do; one mistake is one line.
    """
    mistakes = set(found)
    unexplained = 0
    for line, name in tree.repeated:
        what = f"key {_short(name)} is given twice; remove one"
        mistakes.add(Mistake(True, line, "", what))
    try:
        parsed = model.model_validate(raw, context={"folder": folder})
    except ValidationError as error:
        own = [each for each in error.errors() if each["loc"][:3] not in inherited]
        unexplained = max(0, len(own) - _MOST_EXPLAINED)
        shown = own[:_MOST_EXPLAINED]
        mistakes.update(_by_cause(model, shown, tree))
    if not mistakes:
        return parsed
    lines = [
        f"{tree.path}:{m.line}: {m.keys + ': ' if m.keys else ''}{m.what}" for m in sorted(mistakes)
    ]
    if len(lines) > 1:
        number = len(lines) + unexplained
        more = number - MOST_SHOWN
        lines = [f"{tree.path}: {number:,} mistakes", *lines[:MOST_SHOWN]]
        lines += [f"and {more:,} more"] * (more > 0)
    raise ProblemFileError("\n  ".join(lines))


def _mistake_at(tree: YamlTree, location: Location, what: str) -> Mistake:
    line, keys, _ = tree.line(location)
    return Mistake(True, line, keys, what)


def _by_cause(
    model: type[BaseModel], errors: list[ErrorDetails], tree: YamlTree
) -> Iterator[Mistake]:
    """Mistakes without those that follow from others: keys missing because they are misspelt, lists
    too short because their entries are wrong."""
    places = [error["loc"] for error in errors]
    meant = {
        error["loc"]: key
        for error in errors
        if error["type"] == "extra_forbidden" and (key := _meant(model, error["loc"], tree))
    }
    missing = {(*location[:-1], key) for location, key in meant.items()}
    based = {location[:-1] for location, key in meant.items() if key == "base"}
    for error in errors:
        if error["type"] == "missing" and (error["loc"] in missing or error["loc"][:-1] in based):
            continue
        depth = len(error["loc"])
        if error["type"] == "too_short" and any(
            place[:depth] == error["loc"] and len(place) > depth for place in places
        ):
            continue
        if error["type"] == "at_places":
            for index, key, what in error["ctx"]["places"]:
                yield _mistake_at(tree, (*error["loc"], index, key), what)
            continue
        kind = ("kind",) if error["type"] == "union_tag_invalid" else ()
        line, keys, _ = tree.line((*error["loc"], *kind))
        shown = keys if len(keys) <= 2 * _LONGEST_VALUE else f"{keys[: 2 * _LONGEST_VALUE]}…"
        what, is_key = _explain(model, error, tree)
        yield Mistake(not is_key, line, shown or "file", what)


def _meant(model: type[BaseModel], location: Location, tree: YamlTree) -> str | None:
    """The key of the same section that is closest to the unknown one and not given yet."""
    *section, name = location
    return _closest(str(name), _keys(model, tuple(section)) - _given(tuple(section), tree))


def _explain(model: type[BaseModel], error: ErrorDetails, tree: YamlTree) -> tuple[str, bool]:
    """The mistake and what to do, and whether it concerns the name of a key."""
    location, kind = error["loc"], error["type"]
    name = location[-1] if location else ""
    if kind == "missing":
        return f"key {name!r} is missing; add it", False
    if kind == "extra_forbidden":
        meant = _meant(model, location, tree)
        left = _keys(model, location[:-1]) - _given(location[:-1], tree)
        other = f"remove it, or use one of: {', '.join(sorted(left))}" if left else "remove it"
        return f"unknown key {_short(name)}; {f'did you mean {meant!r}?' if meant else other}", True
    kinds = sorted(
        kind_of(cls) for cls in _classes_at(model, location) if "kind" in cls.model_fields
    )
    listed = ", ".join(kinds)
    if kind == "union_tag_invalid":
        tag = str(error["ctx"]["tag"])
        close = _closest(tag, kinds)
        hint = f"did you mean {close!r}? The kinds are" if close else "use one of"
        return f"kind {_short(tag)} is unknown; {hint}: {listed}", False
    if kind == "union_tag_not_found":
        misspelt = _closest("kind", _given(location, tree))
        if misspelt:
            return f"unknown key {misspelt!r}; did you mean 'kind'?", True
        return f"key 'kind' is missing; add it with one of: {listed}", False
    value = error["input"]
    if value is None:
        return "is empty; give it a value, or remove the key", False
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        keys = f"'kind', one of: {listed}" if kinds else ", ".join(sorted(_keys(model, location)))
        return f"{_shown(value)}must be a section with the keys {keys}", False
    what = _EXPECTED.get(kind) or _sentence(error["msg"])
    if kind == "string_pattern_mismatch":
        pattern = str(error["ctx"]["pattern"])
        what = f"must match {pattern}{_such_as(str(value), pattern)}"
    elif kind == "literal_error" and isinstance(value, str):
        close = _closest(value, re.findall(r"'([^']*)'", error["msg"]))
        what += f"; did you mean {close!r}?" if close else ""
    return _shown(value) + what, False


def _classes_at(model: type[BaseModel], location: Location) -> list[type[BaseModel]]:
    """The classes that a value at a location may be parsed as; several if its kind is unknown."""
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
    return next(iter(get_close_matches(name, sorted(among), n=1)), None)


def _such_as(value: str, pattern: str) -> str:
    """An example that is close to the value and matches; empty where none is found."""
    cased = re.sub(r"[^A-Za-z0-9/._+-]+", "-", value)
    for example in (cased, *(re.sub(r"[^a-z0-9]+", joint, value.lower()) for joint in "_-")):
        if re.fullmatch(pattern, example.strip("_-/")):
            return f"; such as {example.strip('_-/')[:_LONGEST_VALUE]!r}"
    return ""


def _sentence(text: str) -> str:
    """A validation message without its technical prefix, first letter lowered."""
    text = re.sub(r"^(Value error|Assertion failed), ", "", text)
    text = re.sub(r"^(Input|String|Tuple) should ", "must ", text)
    text = re.sub(r"(\d) items? after validation, not \d+", r"\1 entry", text)
    return text[:1].lower() + text[1:]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def _shown(value: object) -> str:
    return "" if isinstance(value, dict | list | tuple) else f"{_short(value)}: "


@dataclass
class Inherited:
    """Models with the keys that they inherit.

    `mistakes` are bases that are no checkpoint of the file; `places` those whose values are, or
    would be, their base's: what is wrong there is said of the base.
    """

    models: Any
    mistakes: list[Mistake] = field(default_factory=list)
    places: set[Location] = field(default_factory=set)


def inherit(models: Any, fields: Collection[str], tree: YamlTree) -> Inherited:
    """Fill each model that has `base` with the source, family, licence … of that model.

    Args:
        models: the value of `models`, unchecked.
        fields: the keys that a model may have.
    """
    if not isinstance(models, list):
        return Inherited(models)
    checkpoints = {
        str(entry.get("full_id")): entry
        for entry in reversed(models)
        if isinstance(entry, dict) and "base" not in entry
    }
    found = Inherited([])
    for index, entry in enumerate(models):
        if not isinstance(entry, dict) or "base" not in entry:
            found.models.append(entry)
            continue
        base = checkpoints.get(str(entry["base"]))
        # a checkpoint without an id is the mistake to name
        if base is None and "None" not in checkpoints:
            known = ", ".join(reversed(checkpoints)) or "none"
            shown = repr(entry["base"])[:100]
            what = f"{shown} is not a checkpoint of this file; use one of {known}"
            found.mistakes.append(_mistake_at(tree, ("models", index, "base"), what))
        taken = {key: value for key, value in (base or {}).items() if key not in _NOT_INHERITED}
        keys = {*fields, *taken} - entry.keys() - {"full_id"}
        found.places |= {("models", index, key) for key in keys}
        found.models.append({**taken, **entry})
    return found
