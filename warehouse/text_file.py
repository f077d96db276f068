"""Text files from users: one encoding, one limit of size and depth, one error line.

A byte-order mark is left out. JSON may hold `NaN` and `Infinity`, as Python and the programs
written in it do; what reads a number decides on them. Half surrogate pairs are no text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from warehouse.errors import TokenmartError
from warehouse.strict_json import deeper_than, repeated_key

ENCODING = "utf-8-sig"
LARGEST_BYTES = 1 << 30
LONGEST_LINE = 256 << 20
"""In characters."""
DEEPEST = 64
"""Levels of JSON inside each other: no program that we read from writes more than ten."""

_NOT_TEXT = (
    (b"\x1f\x8b", "compressed with gzip", "decompress it with gunzip"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "decompress it with unzstd"),
    (b"BZh", "compressed with bzip2", "decompress it with bunzip2"),
    (b"PK\x03\x04", "a zip archive", "unpack it"),
    (b"PAR1", "Parquet, not text", "give it the suffix .parquet"),
    (b"\xff\xfe", "UTF-16", "save it as UTF-8"),
    (b"\xfe\xff", "UTF-16", "save it as UTF-8"),
)
"""First bytes of files that aren't text → what they are, and what to do."""

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_LONG_NUMBER = re.compile(r"\d{300}")


def refuse_no_file(path: Path) -> None:
    """Refuse what is no file before anything opens it: reading a pipe would wait for a writer.

    Raises:
        TokenmartError: no such file, a folder, or a pipe.
    """
    if path.is_file():
        return
    if path.is_dir():
        raise TokenmartError(f"{path}: is a folder; name a file in it")
    if path.exists():
        raise TokenmartError(f"{path}: is a pipe or a device; write it to a file, and name that")
    raise TokenmartError(f"{path}: no such file; correct the path")


def read_text(path: Path, most_bytes: int = LARGEST_BYTES) -> str:
    """The text of a file without its byte-order mark.

    Raises:
        TokenmartError: no such file, too large, or not UTF-8.
    """
    refuse_no_file(path)
    try:
        size = path.stat().st_size
        if size > most_bytes:
            raise TokenmartError(
                f"{path}: {size / 1e6:,.0f} MB, expected at most {most_bytes / 1e6:,.0f} MB; "
                "split it, or leave it out"
            )
        return path.read_text(encoding=ENCODING)
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error


def text_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Each line that isn't blank, with its place for messages: `path:number`.

    Raises:
        TokenmartError: it can't be read, isn't UTF-8, or a line is too long.
    """
    refuse_no_file(path)
    try:
        with path.open(encoding=ENCODING) as file:
            number = 0
            while line := file.readline(LONGEST_LINE + 1):
                number += 1
                if len(line) > LONGEST_LINE:
                    raise TokenmartError(
                        f"{path}:{number}: longer than {LONGEST_LINE:,} characters; write one "
                        "object a line"
                    )
                if line.strip():
                    yield f"{path}:{number}", line
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error


def parse_json(text: str, place: str, unique: bool = False) -> Any:
    """JSON from a text.

    Args:
        place: names file and line for messages.
        unique: refuse an object that has a field twice.

    Raises:
        TokenmartError: not JSON, nested too deeply, or half a surrogate pair in it.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if (twice := repeated_key(pairs)) is not None:
            raise TokenmartError(f"{place}: field {twice!r} is given twice; keep one")
        return dict(pairs)

    def whole(literal: str) -> int:
        if len(literal.lstrip("-")) > 300:
            raise ValueError("as a decimal it would be infinite")
        return int(literal)

    def unread(what: str) -> TokenmartError:
        return TokenmartError(f"{place}: not read as JSON ({what}); correct it")

    # only long numbers are looked at, which is slow
    parse_int = whole if len(text) >= 300 and _LONG_NUMBER.search(text) else None
    try:
        content = json.loads(text, object_pairs_hook=once if unique else None, parse_int=parse_int)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        raise TokenmartError(
            f"{place}: not JSON ({error.msg} at {line}column {error.colno}); correct it, or copy "
            "the file again"
        ) from error
    except (ValueError, RecursionError) as error:
        deep = isinstance(error, RecursionError)
        raise unread("nested too deeply" if deep else "a number too long") from error
    if text.count("[") + text.count("{") > DEEPEST and deeper_than(text, DEEPEST):
        raise TokenmartError(f"{place}: nested deeper than {DEEPEST} levels; correct it")
    if "\\u" in text and _SURROGATE.search(text) and (found := _half_pair(content)) is not None:
        raise TokenmartError(
            f"{place}: {found} is half of a surrogate pair; write the whole character, or leave it "
            "out"
        )
    return content


def _half_pair(content: Any) -> str | None:
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        return f"\\u{ord(error.object[error.start]):04x}"
    return None


def _unreadable(path: Path, error: Exception) -> TokenmartError:
    reason = getattr(error, "strerror", None) or str(error)
    if isinstance(error, UnicodeDecodeError):
        with path.open("rb") as file:
            beginning = file.read(4)
        for bytes_, what, remedy in _NOT_TEXT:
            if beginning.startswith(bytes_):
                return TokenmartError(f"{path}: can't be read ({what}); {remedy}")
        reason = "not UTF-8"
    return TokenmartError(f"{path}: can't be read ({reason}); copy the file again, as UTF-8")
