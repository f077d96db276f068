"""What configurations and GGUF headers state of a model."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from functools import lru_cache
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from warehouse.files import file_stamp

_LARGEST_CONFIG = 16 << 20

_GGUF_NUMBERS = dict(enumerate("BbHhIif?")) | {10: "Q", 11: "q", 12: "d"}
"""Types of numbers in a GGUF file, as `struct` names them."""
_GGUF_TEXT, _GGUF_LIST = 8, 9


def trained_context(path: Path) -> int | None:
    """Longest input in tokens that a folder's config.json or a GGUF file names; None for none.

    `max_position_embeddings` of a configuration, `context_length` of a GGUF header.
    """
    if path.is_file():
        return _gguf_context(path, file_stamp(path))
    value = text_config(path).get("max_position_embeddings")
    return value if isinstance(value, int) and value > 0 else None


def vocabulary_size(folder: Path) -> int | None:
    """Number of tokens of a model's predictions, as a folder's config.json gives it."""
    size = text_config(folder).get("vocab_size")
    return size if isinstance(size, int) else None


@lru_cache(maxsize=256)
def _gguf_context(path: Path, stamp: str) -> int | None:
    header = gguf_header(path)
    if header is None:
        return None
    length = header.fields.get(f"{header.fields.get('general.architecture')}.context_length")
    return length if isinstance(length, int) and length > 0 else None


def text_config(folder: Path) -> dict[str, Any]:
    """The config.json of a folder, with the values of its text part; empty where there is none."""
    try:
        with (folder / "config.json").open("rb") as file:
            config = json.loads(file.read(_LARGEST_CONFIG))
        return {**config, **config.get("text_config", {})}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


@dataclass(frozen=True)
class GgufHeader:
    """What a GGUF file states before the data of its tensors.

    Attributes:
        fields: numbers and texts by key; None for a list, such as a vocabulary.
        tensors: number of elements of each tensor.
    """

    fields: dict[str, Any]
    tensors: dict[str, int]


def gguf_header(path: Path) -> GgufHeader | None:
    """The header of a GGUF file; None for a file that is none.

    gguf's own reader makes arrays of every token: 15 CPU seconds for a vocabulary of 262,144.
    """
    try:
        with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
            return _GgufReader(content).header()
    except (OSError, ValueError, IndexError, RecursionError, struct.error):
        return None


class _GgufReader:
    """Reads a GGUF file of version 2 or 3, value by value."""

    def __init__(self, content: mmap) -> None:
        self.content, self.at = content, 8
        # the version, a small number, follows `GGUF`
        self.order = "<" if content[4] else ">"
        if content[:4] != b"GGUF" or struct.unpack(f"{self.order}I", content[4:8])[0] not in (2, 3):
            raise ValueError("not a GGUF file of a known version")

    def header(self) -> GgufHeader:
        tensor_count, field_count = self.number("Q"), self.number("Q")
        fields = {self.text(): self.value(self.number("I")) for _ in range(field_count)}
        tensors = {}
        for _ in range(tensor_count):
            name = self.text()
            tensors[name] = math.prod(self.number("Q") for _ in range(self.number("I")))
            self.at += 12  # the format of its numbers, and where they begin
        return GgufHeader(fields, tensors)

    def number(self, form: str) -> Any:
        (value,) = struct.unpack_from(self.order + form, self.content, self.at)
        self.at += struct.calcsize(self.order + form)
        return value

    def text(self) -> str:
        length = self.number("Q")
        self.at += length
        return self.content[self.at - length : self.at].decode(errors="replace")

    def value(self, kind: int) -> Any:
        """A number or a text; None for a list, which is skipped."""
        if kind in _GGUF_NUMBERS:
            return self.number(_GGUF_NUMBERS[kind])
        if kind == _GGUF_TEXT:
            return self.text()
        if kind != _GGUF_LIST:
            raise ValueError(f"a value of unknown type {kind}")
        item, count = self.number("I"), self.number("Q")
        if item in _GGUF_NUMBERS:
            self.at += count * struct.calcsize(self.order + _GGUF_NUMBERS[item])
        else:
            for _ in range(count):
                self.value(item)
        return None
