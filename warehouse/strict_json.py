"""JSON as it should have been read: nothing repeated, nothing infinite, nothing oversized.

Python's parser keeps the last of two equal keys, accepts NaN and runs out of stack on deep
nesting. Files that decide a result are read here instead; every defect is one line.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAXIMUM_DEPTH = 32
_TOKEN = re.compile(r'"(?:[^"\\]|\\.?)*"?|[][{}]', re.DOTALL)
"""A text in quotes, closed or not, or a bracket."""


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
        is_there, is_file = path.exists(), path.is_file()
        data = b""
        if is_file:
            with path.open("rb") as stream:
                data = stream.read(maximum_bytes + 1)
    except (OSError, ValueError) as error:
        raise StrictJsonError(f"can't be read ({getattr(error, 'strerror', error)})") from error
    if not is_file:
        raise StrictJsonError("is not a regular file" if is_there else "does not exist")
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
    if deeper_than(text, MAXIMUM_DEPTH):
        raise StrictJsonError(f"is nested deeper than {MAXIMUM_DEPTH} levels")
    refused: list[StrictJsonError] = []

    def refuse(what: str) -> StrictJsonError:
        """Stands for a number until its key is known."""
        refused.append(StrictJsonError(what))
        return refused[-1]

    def real(literal: str) -> float | StrictJsonError:
        value = float(literal)
        finite = math.isfinite(value)
        return (
            value if finite else refuse(f"contains {literal[:40]}, which is too large for a number")
        )

    def whole(literal: str) -> int | StrictJsonError:
        if len(literal) <= 309:
            return int(literal)
        return refuse(f"contains an integer of {len(literal)} digits, too large for a number")

    def constant(name: str) -> StrictJsonError:
        return refuse(f"contains {name}, which is not a finite number")

    try:
        content = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=constant,
            parse_float=real,
            parse_int=whole,
        )
    except json.JSONDecodeError as error:
        raise StrictJsonError(
            f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from error
    if refused:  # in no object that could have said where
        raise refused[0]
    return content


def deeper_than(text: str, levels: int) -> bool:
    """Whether a JSON text has more levels of lists and objects inside each other."""
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if depth > levels:
            return True
    return False


def repeated_key(pairs: list[tuple[str, Any]]) -> str | None:
    """A key that an object has twice; of equal keys, Python would keep the last."""
    names = [name for name, _ in pairs]
    if len(set(names)) == len(names):
        return None
    return next(name for name in names if names.count(name) > 1)


def shown(value: object, limit: int = 60) -> str:
    """A value for an error message: ASCII, on one line, shortened."""
    text = json.dumps(value, default=repr)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def kind(value: object) -> str:
    """The JSON name of a parsed value's type."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}
    return "null" if value is None else names.get(type(value), "a number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if (twice := repeated_key(pairs)) is not None:
        raise StrictJsonError(f"has the key {shown(twice)} twice in one object")
    for key, value in pairs:
        if isinstance(value, StrictJsonError):
            beside = {name: text for name, text in pairs if isinstance(text, str)}
            where = f", next to {shown(beside, 200)}" if beside else ""
            raise StrictJsonError(f"{value}, under {shown(key, 200)}{where}")
    return dict(pairs)
