"""JSON as it should have been read: nothing repeated, nothing infinite, nothing oversized.

Python's parser keeps the last of two equal keys, accepts NaN and runs out of stack on deep
nesting. Files that decide a result are read here instead; every defect is one line.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAXIMUM_DEPTH = 32


class StrictJsonError(ValueError):
    """The text isn't acceptable JSON; the message names the defect, on one line."""


@dataclass(frozen=True)
class JsonFile:
    """A parsed file: its content and the sha256 of the very bytes that were parsed."""

    content: Any
    sha256: str


def read_json(path: Path, maximum_bytes: int) -> JsonFile:
    """Read and parse a JSON file strictly.

    Raises:
        StrictJsonError: unreadable, too large, not UTF-8, or not strict JSON.
    """
    try:
        if not path.is_file():
            what = "is not a regular file" if path.exists() else "does not exist"
            raise StrictJsonError(what)
        with path.open("rb") as stream:
            data = stream.read(maximum_bytes + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, StrictJsonError):
            raise
        raise StrictJsonError(f"can't be read ({getattr(error, 'strerror', error)})") from error
    if len(data) > maximum_bytes:
        raise StrictJsonError(f"is larger than {maximum_bytes:,} bytes")
    return JsonFile(content=parse_json(data), sha256=hashlib.sha256(data).hexdigest())


def parse_json(data: bytes) -> Any:
    """Parse UTF-8 bytes as JSON; see `StrictJsonError` for what is refused."""
    if not data.strip():
        raise StrictJsonError("is empty")
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise StrictJsonError("starts with a byte-order mark; save it as plain UTF-8")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise StrictJsonError(f"is not UTF-8 (byte {error.start})") from error
    _check_depth(text)
    try:
        not_finite: list[StrictJsonError] = []
        content = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=lambda name: _kept(not_finite, _no_constant(name)),
            parse_float=lambda literal: _finite(literal, not_finite),
            parse_int=lambda literal: _integer(literal, not_finite),
        )
    except json.JSONDecodeError as error:
        raise StrictJsonError(
            f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from error
    except RecursionError as error:
        raise StrictJsonError("is nested too deeply") from error
    if not_finite:  # in no object that could have said where
        raise not_finite[0]
    return content


def shown(value: object, limit: int = 60) -> str:
    """A value for an error message: ASCII, on one line, shortened."""
    text = json.dumps(value, default=repr)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def kind(value: object) -> str:
    """The JSON name of a parsed value's type."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}
    return "null" if value is None else names.get(type(value), "a number")


def _check_depth(text: str) -> None:
    depth = 0
    in_string = escaped = False
    for character in text:
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif character == '"':
            in_string = True
        elif character in "[{":
            depth += 1
            if depth > MAXIMUM_DEPTH:
                raise StrictJsonError(f"is nested deeper than {MAXIMUM_DEPTH} levels")
        elif character in "]}":
            depth -= 1


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise StrictJsonError(f"has the key {shown(key)} twice in one object")
        if isinstance(value, StrictJsonError):
            beside = {name: text for name, text in pairs if isinstance(text, str)}
            where = f", next to {shown(beside, 200)}" if beside else ""
            raise StrictJsonError(f"{value}, under {shown(key, 200)}{where}")
        found[key] = value
    return found


def _kept(found: list[StrictJsonError], error: StrictJsonError) -> StrictJsonError:
    """Placeholder for a number until its key is known."""
    found.append(error)
    return error


def _no_constant(name: str) -> StrictJsonError:
    return StrictJsonError(f"contains {name}, which is not a finite number")


def _finite(literal: str, found: list[StrictJsonError]) -> float | StrictJsonError:
    value = float(literal)
    if math.isfinite(value):
        return value
    told = f"contains {literal[:40]}, which is too large for a number"
    return _kept(found, StrictJsonError(told))


def _integer(literal: str, found: list[StrictJsonError]) -> int | StrictJsonError:
    if len(literal) <= 309:
        return int(literal)
    told = f"contains an integer of {len(literal)} digits, too large for a number"
    return _kept(found, StrictJsonError(told))
