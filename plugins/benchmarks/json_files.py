"""JSON that evaluation programs wrote, and files with an object a line.

It may hold `NaN` and `Infinity`, as Python and the programs written in it do; what reads a number
decides on them. Half surrogate pairs are no text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from warehouse.errors import TokenmartError
from warehouse.files import TEXT_ENCODING, refuse_no_file, unreadable

LONGEST_LINE = 256 << 20
"""In characters."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def text_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Each line that isn't blank, with its place for messages: `path:number`.

    Raises:
        TokenmartError: it can't be read, isn't UTF-8, or a line is too long.
    """
    refuse_no_file(path)
    try:
        with path.open(encoding=TEXT_ENCODING) as file:
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
        raise unreadable(path, error) from error


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
