"""Text files from users: one encoding, one limit of size, one error line.

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

ENCODING = "utf-8-sig"
LARGEST_BYTES = 1 << 30
LONGEST_LINE = 256 << 20
"""In characters."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def refuse_no_file(path: Path) -> None:
    """Refuse what is no file before anything opens it: reading a pipe would wait for a writer.

    Raises:
        TokenmartError: no such file, a folder, or a pipe (`no-file`).
    """
    if path.is_file():
        return
    what = "is a folder, a pipe or a device, not a file" if path.exists() else "no such file"
    raise TokenmartError(f"{path}: {what}", code="no-file", where=path)


def read_text(path: Path, most_bytes: int = LARGEST_BYTES) -> str:
    """The text of a file without its byte-order mark, with its line ends as they are.

    Raises:
        TokenmartError: no such file, too large (`too-large`), or not UTF-8 (`not-utf-8`).
    """
    refuse_no_file(path)
    try:
        if (size := path.stat().st_size) > most_bytes:
            what = f"{size / 1e6:,.0f} MB, expected at most {most_bytes / 1e6:,.0f} MB"
            raise TokenmartError(f"{path}: {what}; split it", code="too-large", where=path)
        return path.read_bytes().decode(ENCODING)
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
                where = f"{path}:{number}"
                if len(line) > LONGEST_LINE:
                    what = f"{where}: longer than {LONGEST_LINE:,} characters"
                    raise TokenmartError(what, code="too-large", where=where)
                if line.strip():
                    yield where, line
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error


def parse_json(text: str, place: str) -> Any:
    """JSON from a text.

    Args:
        place: names file and line for messages.

    Raises:
        TokenmartError: not JSON, nested too deeply, or half a surrogate pair in it (`not-json`).
    """
    try:
        content = json.loads(text)
        if _SURROGATE.search(text):
            json.dumps(content, ensure_ascii=False).encode()
    except RecursionError as error:
        raise TokenmartError(f"{place}: nested too deeply", code="not-json", where=place) from error
    except ValueError as error:  # a UnicodeEncodeError is one
        what = f"{place}: not read as JSON ({error})"
        raise TokenmartError(what, code="not-json", where=place) from error
    return content


def _unreadable(path: Path, error: OSError | UnicodeDecodeError) -> TokenmartError:
    if isinstance(error, UnicodeDecodeError):
        what = f"{path}: not UTF-8 at byte {error.start}; decompress it, or save it as UTF-8"
        return TokenmartError(what, code="not-utf-8", where=path)
    return TokenmartError(
        f"{path}: can't be read ({error.strerror})", code="unreadable", where=path
    )
