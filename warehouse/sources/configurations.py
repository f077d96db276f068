"""What configurations and GGUF headers state of a model."""

from __future__ import annotations

import json
import struct
from functools import lru_cache
from pathlib import Path
from typing import Any

from warehouse.files import file_stamp

_LARGEST_CONFIG = 16 << 20


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
    fields = getattr(gguf_header(path), "fields", {})
    kind = fields.get("general.architecture")
    length = fields.get(f"{kind.contents()}.context_length") if kind else None
    return int(length.contents()) or None if length else None


def text_config(folder: Path) -> dict[str, Any]:
    """The config.json of a folder, with the values of its text part; empty where there is none."""
    try:
        with (folder / "config.json").open("rb") as file:
            config = json.loads(file.read(_LARGEST_CONFIG))
        return {**config, **config.get("text_config", {})}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def gguf_header(path: Path) -> Any:
    """gguf's reader of a file, whose long arrays are skipped.

    The file is mapped into memory: pages of tensors are never touched. Reading a vocabulary would
    take seconds. None for a file that is no GGUF, and in a light installation, which has no reader.
    """
    try:
        import gguf
    except ModuleNotFoundError:
        return None
    import numpy as np

    longest = 4096
    string, array = gguf.GGUFValueType.STRING, gguf.GGUFValueType.ARRAY

    class HeaderReader(gguf.GGUFReader):  # type: ignore[misc]
        def _get_field_parts(self, start: int, kind: int) -> tuple[int, list[Any], list[int], Any]:
            if kind == array and self.byte_order == "I":
                item, count = struct.unpack_from("<IQ", self.data, start)
                scalar = self.gguf_scalar_to_np.get(gguf.GGUFValueType(item))
                end = start + 12
                if count > longest and scalar is not None:
                    end += count * np.dtype(scalar).itemsize
                elif count > longest and item == string:
                    for _ in range(count):
                        end += 8 + struct.unpack_from("<Q", self.data, end)[0]
                if end > start + 12:
                    return end - start, [], [], [array]
            parts: tuple[int, list[Any], list[int], Any] = super()._get_field_parts(start, kind)
            return parts

    try:
        return HeaderReader(path)
    except (OSError, ValueError, IndexError, KeyError, OverflowError, struct.error):
        return None
