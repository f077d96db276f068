"""JSON that evaluation programs wrote, and files with an object a line.

It may hold `NaN` and `Infinity`, as Python and the programs written in it do; what reads a number
decides on them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plugins.benchmarks.refusal import refused
from warehouse.files import TEXT_ENCODING, refuse_no_file, unreadable


def text_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Each line that isn't blank, with its place for messages: `path:number`.

    Raises:
        TokenmartError: the file can't be read, or isn't UTF-8.
    """
    refuse_no_file(path)
    try:
        with path.open(encoding=TEXT_ENCODING) as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield f"{path}:{number}", line
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from error


def parse_json(text: str, place: str) -> Any:
    """JSON from a text.

    Args:
        place: names file and line for messages.

    Raises:
        TokenmartError: not JSON, or nested too deeply (`not-json`).
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise refused(place, f"not read as JSON ({error})", "not-json") from error
