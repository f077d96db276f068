"""JSON as it should have been read: nothing repeated, nothing infinite, nothing oversized.

Python's parser keeps the last of two equal keys and accepts NaN. Files that decide a result are
read here instead; every defect is one line.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAXIMUM_DEPTH = 32
_TOO_DEEP = f"is nested deeper than {MAXIMUM_DEPTH} levels"
_LONGEST_INTEGER = 309
"""Digits: a longer one is infinite as a float."""


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


@dataclass(frozen=True)
class _Refused:
    """A number that is refused once its key is known, and why."""

    why: str


def parse_json(data: bytes) -> Any:
    """Parse UTF-8 bytes as JSON; see `StrictJsonError` for what is refused."""
    if not data.strip():
        raise StrictJsonError("is empty")
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise StrictJsonError("starts with a byte-order mark; save it as plain UTF-8")
    try:
        content = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_finite,
            parse_float=_finite,
            parse_int=_whole,
        )
    except UnicodeDecodeError as error:
        raise StrictJsonError(f"is not UTF-8 (byte {error.start})") from error
    except json.JSONDecodeError as error:
        raise StrictJsonError(
            f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from error
    except RecursionError as error:
        raise StrictJsonError(_TOO_DEEP) from error
    _check([content], MAXIMUM_DEPTH + 1)
    return content


def _check(container: dict[str, Any] | list[Any], levels: int) -> None:
    """Stop at a refused number, with what is beside it, and below this number of levels."""
    if levels < 0:
        raise StrictJsonError(_TOO_DEEP)
    for value in container.values() if isinstance(container, dict) else container:
        if isinstance(value, dict | list):
            _check(value, levels - 1)
        elif isinstance(value, _Refused):
            where = ""
            if isinstance(container, dict):
                keys = [key for key, each in container.items() if each is value]
                texts = {key: each for key, each in container.items() if isinstance(each, str)}
                where = f", under {shown(keys[0], 200)}" + (
                    f", next to {shown(texts, 200)}" if texts else ""
                )
            raise StrictJsonError(f"contains {value.why}{where}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise StrictJsonError(f"has the key {shown(twice)} twice in one object")
    return content


def _finite(literal: str) -> float | _Refused:
    value = float(literal)
    if math.isfinite(value):
        return value
    return _Refused(f"{literal[:40]}, which is not a finite number")


def _whole(literal: str) -> int | _Refused:
    if len(literal) <= _LONGEST_INTEGER:
        return int(literal)
    return _Refused(f"an integer of {len(literal)} digits")


def shown(value: object, limit: int = 60) -> str:
    """A value for an error message: ASCII, on one line, shortened."""
    text = json.dumps(value, default=repr)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def kind(value: object) -> str:
    """The JSON name of a parsed value's type."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}
    return "null" if value is None else names.get(type(value), "a number")
