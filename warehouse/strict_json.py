"""JSON that decides a result: no key is repeated, and the bytes that were parsed have a hash.

Python's parser keeps the last of two equal keys. Files that decide a result are read here instead;
every defect is one line.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class StrictJsonError(Exception):
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
    if not path.is_file():
        raise StrictJsonError("is not a regular file" if path.exists() else "does not exist")
    try:
        with path.open("rb") as stream:
            data = stream.read(maximum_bytes + 1)
    except OSError as error:
        raise StrictJsonError(f"can't be read ({error.strerror})") from error
    if len(data) > maximum_bytes:
        raise StrictJsonError(f"is larger than {maximum_bytes:,} bytes")
    return JsonFile(content=parse_json(data), sha256=hashlib.sha256(data).hexdigest())


def parse_json(data: bytes) -> Any:
    """Parse UTF-8 bytes as JSON; see `StrictJsonError` for what is refused.

    Numbers that are not finite are left to the reader, which knows what they are scores of.
    """
    try:
        return json.loads(data.decode(), object_pairs_hook=_unique)
    except UnicodeDecodeError as error:
        raise StrictJsonError(f"is not UTF-8 (byte {error.start})") from error
    except RecursionError as error:
        raise StrictJsonError("is nested too deeply") from error
    except ValueError as error:
        raise StrictJsonError(f"is not JSON: {error}") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise StrictJsonError(f"has the key {shown(twice)} twice in one object")
    return content


def shown(value: object, limit: int = 60) -> str:
    """A value for an error message: ASCII, on one line, shortened."""
    text = json.dumps(value, default=repr)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def kind(value: object) -> str:
    """The JSON name of a parsed value's type."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}
    return "null" if value is None else names.get(type(value), "a number")
